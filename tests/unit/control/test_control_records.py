"""The small files of the control directory: round trips, older and newer writers, damage."""

import json
import math
import os

import pytest

from sessionizer.control import lease as module
from sessionizer.control.lease import ABANDONED_AFTER_S, FORGOTTEN_AFTER_S, acquire, read_lease, sweep
from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Heartbeat, Phase
from sessionizer.control.records.process_records import (
    EXIT_FILE,
    MESSAGE_LIMIT,
    STOP_FILE,
    ExitOutcome,
    ExitRecord,
    request_stop,
    stop_requested,
    write_exit,
)
from sessionizer.control.records.supervision_records import (
    Desired,
    DesiredState,
    read_desired,
    write_desired,
)
from sessionizer.errors import ControlUnreachable, DamagedFile, InvalidSpec, UnwritablePath
from sessionizer.home.clock import epoch_ms
from sessionizer.home.names import mint_id
from sessionizer.home.record_file import write_json
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import active_lineage, read_lineage, require_no_history, start_lineage
from sessionizer.lineage.kept_spec import TYPES_FILE, KeptTypes
from support.places import known, mounted, opened

BEAT = Heartbeat("a", 5, 1, Phase.IDLE, lineage="l", batch_id=3, rows_per_second=2.5)


@pytest.mark.parametrize("rate", [math.nan, math.inf])
def test_a_rate_that_json_cannot_say_is_left_out(home: StreamHome, rate: float) -> None:
    HEARTBEAT_FILE.of(home).write(Heartbeat("a", 5, 1, Phase.RUNNING, rows_per_second=rate))
    assert HEARTBEAT_FILE.of(home).read() == Heartbeat("a", 5, 1, Phase.RUNNING)


def test_a_newer_writer_may_say_more_and_an_older_one_less(home: StreamHome) -> None:
    write_json(home.control / "heartbeat.json", {**BEAT.to_json(), "new": {"x": 1}, "rows_per_second": 2})
    assert HEARTBEAT_FILE.of(home).read() == Heartbeat(
        "a", 5, 1, Phase.IDLE, lineage="l", batch_id=3, rows_per_second=2.0
    )
    write_json(home.control / "heartbeat.json", {"uid": "a", "at": 5, "started_at": 1, "phase": "idle"})
    assert HEARTBEAT_FILE.of(home).read() == Heartbeat("a", 5, 1, Phase.IDLE)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"at": None}, "at is missing"),
        ({"at": -1}, "at is -1, which should be greater than or equal to 0"),
        ({"heaviest_keys": [{"key": "a", "group": "b"}]}, "heaviest_keys.0.group is 'b', which should be"),
        ({"at": "5"}, "at is '5', which should be a valid integer"),
        ({"at": True}, "at is True, which should be a valid integer"),
        ({"batch_id": 1.5}, "batch_id is 1.5, which should be a valid integer"),
        ({"phase": "asleep"}, "phase is 'asleep', which should be 'starting', 'running', 'idle' or 'stopping'"),
        ({"phase": []}, "phase is [], which should be 'starting'"),
    ],
)
def test_a_wrong_value_is_damage(home: StreamHome, change: dict[str, object], complaint: str) -> None:
    write_json(home.control / "heartbeat.json", {**BEAT.to_json(), **change})
    assert HEARTBEAT_FILE.of(home).read() is None
    assert complaint in (HEARTBEAT_FILE.of(home).examine().damage or "")


@pytest.mark.parametrize("name", ["000000009.json", "0000000٩.json", "9.json", "00000009.json.bak", "0" * 20 + ".json"])
def test_a_file_that_is_no_token_is_no_lease(home: StreamHome, name: str) -> None:
    acquire(home, "driver-1")
    (mounted(home.leases) / name).write_text("{}")
    assert known(read_lease(home)).token == 1


def test_a_lease_that_stays_listed_and_is_not_there_is_not_waited_for(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "highest_token", lambda _: 9)
    with pytest.raises(ControlUnreachable, match=r"00000009\.json"):
        read_lease(home)


def test_a_stop_is_for_one_driver(home: StreamHome) -> None:
    request_stop(home, "a", "an upgrade")
    request_stop(home, "a", "a later upgrade")
    assert stop_requested(home, "a")
    assert not stop_requested(home, "b")
    request = known(STOP_FILE.of(home, "a").read())
    assert request.why == "a later upgrade"
    (home.control / "stop.b").touch()
    assert stop_requested(home, "b")
    with pytest.raises(InvalidSpec):
        request_stop(home, "../a", "")


def test_an_exit_record_comes_back_with_a_bounded_message(home: StreamHome) -> None:
    assert EXIT_FILE.of(home, "a").read() is None
    write_exit(home, ExitRecord("a", 7, ExitOutcome.FAILED, True, "QueryFailed", "\ud800" + "x" * 1_000_000, 3))
    record = known(EXIT_FILE.of(home, "a").read())
    assert (record.outcome, record.terminal, record.batch_id) == (ExitOutcome.FAILED, True, 3)
    assert len(record.message or "") == MESSAGE_LIMIT
    (home.control / "exit.b.json").write_text("{}")
    assert EXIT_FILE.of(home, "b").read() is None
    assert "uid is missing" in (EXIT_FILE.of(home, "b").examine().damage or "")


def test_a_stream_is_wanted_unless_somebody_said_otherwise(home: StreamHome) -> None:
    assert read_desired(home) == Desired(DesiredState.RUNNING)
    written = write_desired(home, DesiredState.STOPPED, by="ada", why="costs")
    assert read_desired(home) == written
    assert abs(written.at - epoch_ms()) < 10_000


def test_lineages_sort_by_birth() -> None:
    assert mint_id(1_795_258_501_999).startswith("20261121T105501-")
    assert mint_id(1_795_258_501_000) < mint_id(1_795_258_502_000)
    assert len({mint_id(0) for _ in range(50)}) > 1


def test_a_lineage_is_active_with_its_directories(home: StreamHome) -> None:
    assert active_lineage(home) is None
    first = start_lineage(home)
    assert active_lineage(home) == first
    assert opened(home.checkpoint(first)).is_dir()
    assert opened(home.punctuations(first)).is_dir()
    second = start_lineage(home, parent=first)
    record = known(read_lineage(home))
    assert (record.lineage, record.parent) == (second, first)


def test_a_lost_lineage_is_not_taken_for_a_new_stream(home: StreamHome) -> None:
    lineage = start_lineage(home)
    pointer = home.control / "lineage.json"
    pointer.unlink()
    assert active_lineage(home) is None
    TYPES_FILE.of(home, lineage).write(KeptTypes("event_time"))
    with pytest.raises(DamagedFile, match="gone"):
        active_lineage(home)
    pointer.write_text("{")
    with pytest.raises(DamagedFile, match="not JSON"):
        active_lineage(home)


def test_checkpoints_that_nothing_is_noted_of_keep_a_driver_from_beginning_anew(home: StreamHome) -> None:
    require_no_history(home)
    lineage = start_lineage(home)
    opened(home.lineages / ".probe.tmp").touch()
    require_no_history(home)
    opened(home.checkpoint(lineage) / "metadata").touch()
    with pytest.raises(DamagedFile, match=f"{lineage}/checkpoint"):
        require_no_history(home)


def test_a_lineage_that_cannot_be_made_is_not_activated(home: StreamHome) -> None:
    opened(home.lineages).touch()
    with pytest.raises(UnwritablePath, match="new lineage"):
        start_lineage(home)
    assert active_lineage(home) is None


def test_a_sweep_removes_only_what_nobody_needs(home: StreamHome) -> None:
    ages = {
        ".heartbeat.json.a1.tmp": ABANDONED_AFTER_S + 60,
        ".heartbeat.json.b2.tmp": 1,
        "exit.old.json": FORGOTTEN_AFTER_S + 60,
        "stop.old": FORGOTTEN_AFTER_S + 60,
        "exit.new.json": ABANDONED_AFTER_S + 60,
        "desired.json": FORGOTTEN_AFTER_S + 60,
    }
    for name, seconds in ages.items():
        path = mounted(home.control / name)
        path.write_text(json.dumps({}))
        at = epoch_ms() / 1000 - seconds
        os.utime(path, (at, at))
    sweep(home, "nobody")
    assert {path.name for path in home.control.iterdir() if path.is_file()} == {
        ".heartbeat.json.b2.tmp",
        "exit.new.json",
        "desired.json",
    }
