"""Questions to a live driver: answered, unanswered, and never asked of a driver that is not there."""

import threading
import time
from pathlib import Path

from sessionizer.control.records.driver_records import ANSWER_FILE, KEY_LIMIT, QUESTION_FILE, Answer
from sessionizer.fleet.lookup.find import ask_driver, find_key
from sessionizer.home.control_store import record_names
from sessionizer.home.stream_home import StreamHome
from support.fixtures.reviewed import Reviewed
from support.processes.fabricated_platform import Platform

OPEN = {"event_count": 3, "would_end_at": "2026-11-26T10:00:00.000Z", "would_close_reason": "gap", "events": []}


def answering(home: StreamHome, answer: Answer) -> threading.Thread:
    """A thread that answers the first question."""

    def reply() -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            for name in record_names(QUESTION_FILE.folder(home), "*.json"):
                ANSWER_FILE.of(home, name.removesuffix(".json")).write(answer)
                return
            time.sleep(0.01)

    thread = threading.Thread(target=reply)
    thread.start()
    return thread


def test_the_driver_answers_and_no_file_stays(platform: Platform) -> None:
    platform.add("visits")
    _, home = platform.drive("visits")
    thread = answering(home, Answer(at=1, key="alice", batch_id=7, key_group=3, sessions=(OPEN,)))
    found = ask_driver(home, "alice", within_s=20)
    thread.join()
    assert found is not None
    assert (found["batch_id"], found["sessions"][0]["event_count"]) == (7, 3)
    assert record_names(QUESTION_FILE.folder(home)) == []


def test_a_driver_that_does_not_answer_is_busy_and_leaves_no_file(platform: Platform, tmp_path: Path) -> None:
    platform.add("visits")
    _, home = platform.drive("visits")
    busy = ask_driver(home, "alice", within_s=0.05)
    assert busy is not None
    assert "busy" in str(busy["error"])
    nowhere = {name: str(tmp_path / name) for name in ("sessions", "late_events")}
    assert "no driver" not in str(find_key("visits", "alice", nowhere, busy, within_s=60)["says"])
    assert record_names(QUESTION_FILE.folder(home)) == []


def test_without_a_driver_or_with_a_key_too_long_nothing_is_asked(platform: Platform) -> None:
    platform.add("visits")
    _, home = platform.drive("visits")
    assert ask_driver(home, "k" * (KEY_LIMIT + 1)) is None
    platform.fall_silent("visits", since=1)
    assert ask_driver(home, "alice") is None
    assert not QUESTION_FILE.folder(home).exists()


def test_the_answer_about_a_key_says_when_its_session_closes(tmp_path: Path, reviewed: Reviewed) -> None:
    nowhere = {name: str(tmp_path / name) for name in ("sessions", "late_events")}
    for answer in (
        Answer(at=1, key="a", batch_id=7, sessions=(OPEN,)),
        Answer(at=1, key="a", batch_id=7, sessions=({**OPEN, "would_end_at": None},)),
        Answer(at=1, key="a", batch_id=7),
        Answer(at=1, key="a", error="its batch is gone"),
    ):
        reviewed(find_key("visits", "a", nowhere, answer.to_json(), within_s=60)["says"])
