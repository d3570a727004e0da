"""The history of a stream: samples by the minute in hourly files, marks, how long they stay, failures unraised."""

import errno
import json
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

from sessionizer.control.history.files import (
    KEPT_MS,
    MARKS_READ,
    WRITTEN_EVERY_MS,
    History,
    HistoryWriter,
    Mark,
    MarkKind,
    add_mark,
    count_restarts,
    oldest_record,
    read_history,
    read_hour,
    read_marks,
    remove_old,
    write_hour,
)
from sessionizer.control.history.sample import SAMPLE_MS, Sample, combine, condense
from sessionizer.control.log_tail import LINE_LIMIT, READ_BYTES, last_words, tail
from sessionizer.core.definition.outcome import CloseReason
from sessionizer.home.clock import HOUR
from sessionizer.home.control_store import Store
from sessionizer.home.json_record import UnfitValue
from sessionizer.home.record_file import content_to_store
from sessionizer.home.stream_home import StreamHome
from sessionizer.spark.history import report
from support.places import mounted, opened

START = 1_790_000_000_000 // HOUR * HOUR
NAME = "2026-09-21T14"


@pytest.fixture
def home(tmp_path: Path) -> StreamHome:
    return StreamHome.of(tmp_path, "visits")


def batch(at: int, **figures: object) -> Sample:
    given = {"batches": 1, "rows": 100, "batch_ms": 400, "longest_ms": 400, "phases": {"plan": 10, "write": 50}}
    return Sample(at=at, **{**given, **figures})  # type: ignore[arg-type]


def test_batches_of_a_minute_become_one_sample() -> None:
    first = batch(START, lag_ms=5_000, open=7, group=3, group_bytes=900, late=1)
    second = batch(START + 9, lag_ms=None, open=8, group=1, group_bytes=20, longest_ms=900)
    both = combine(first, second, START)
    assert (both.at, both.batches, both.rows, both.batch_ms, both.longest_ms) == (START, 2, 200, 800, 900)
    assert (both.lag_ms, both.open, both.late) == (5_000, 8, 1), "a figure that the later batch lacks stays"
    assert (both.group, both.group_bytes) == (3, 900), "the heaviest group of the minute, not the last"
    assert both.phases == {"plan": 20, "write": 100}
    assert both.rate == pytest.approx(200 / 60)


def test_condensed_samples_keep_every_row() -> None:
    samples = [batch(START + minute * SAMPLE_MS, rows=minute) for minute in range(60)]
    condensed = condense(reversed(samples), 10 * SAMPLE_MS)
    assert [each.at for each in condensed] == [START + ten * 10 * SAMPLE_MS for ten in range(6)]
    assert sum(each.rows for each in condensed) == sum(range(60))


def test_an_hour_is_read_as_it_was_written(home: StreamHome) -> None:
    samples = [
        batch(START, lineage="a", batch_id=1),
        batch(START + SAMPLE_MS, lineage="a", batch_id=2, watermark_ms=START),
        batch(START + 2 * SAMPLE_MS, lineage="b", batch_id=0),
    ]
    home.history.mkdir(parents=True)
    write_hour(home, NAME, samples)
    found = read_hour(home, NAME)
    assert [(each.lineage, each.rows) for each in found] == [("a", 100), ("a", 100), ("b", 100)]
    assert found[2] == samples[2]
    assert (home.control / "history" / f"{NAME}.json").exists()


@pytest.mark.parametrize(
    "value", [{}, {"at": "x"}, {"at": 1, "rows": 1.5}, {"at": 1, "rows": True}, {"at": 1, "phases": {"plan": "x"}}]
)
def test_a_value_that_is_no_sample(value: dict[str, object]) -> None:
    with pytest.raises(UnfitValue):
        Sample.from_json(value)


def test_a_field_of_a_newer_release_is_ignored() -> None:
    assert Sample.from_json({"at": 1, "rows": 2, "mood": "good"}) == Sample(at=1, rows=2)


def test_the_writer_adds_to_the_hour_of_an_earlier_driver(home: StreamHome) -> None:
    before, later = HistoryWriter(home), HistoryWriter(home)
    before.add(batch(START))
    later.add(batch(START + SAMPLE_MS))
    assert [each.at for each in read_hour(home, NAME)] == [START, START + SAMPLE_MS]


def test_the_writer_writes_every_few_seconds_and_at_the_end(home: StreamHome) -> None:
    writer = HistoryWriter(home)
    writer.add(batch(START))
    writer.add(batch(START + 1_000))
    assert read_hour(home, NAME)[0].batches == 1, "the second batch is not due yet"
    writer.flush(START + 2_000, unless_recent=True)
    assert read_hour(home, NAME)[0].batches == 1
    writer.add(batch(START + WRITTEN_EVERY_MS))
    assert read_hour(home, NAME)[0].batches == 3
    writer.add(batch(START + WRITTEN_EVERY_MS + 1))
    writer.flush(START + WRITTEN_EVERY_MS + 2)
    assert read_hour(home, NAME)[0].batches == 4


def test_a_clock_that_is_set_back_comes_to_the_same_minutes_again(home: StreamHome) -> None:
    for writer in (HistoryWriter(home), HistoryWriter(home)):  # the second one finds the minutes of the first
        for minute in (31, 5, 31):
            writer.add(batch(START + minute * SAMPLE_MS))
        writer.flush(START + HOUR)
    found = read_hour(home, NAME)
    assert [(each.at, each.batches) for each in found] == [(START + 5 * SAMPLE_MS, 2), (START + 31 * SAMPLE_MS, 4)]


def test_a_new_hour_is_a_new_file_and_loses_nothing(home: StreamHome) -> None:
    writer = HistoryWriter(home)
    for at in (START + HOUR - 2_000, START + HOUR - 1_000, START + HOUR):
        writer.add(batch(at))
    writer.flush(START + HOUR + 1)
    found = read_history(home, START, START + HOUR)
    assert [each.batches for each in found.samples] == [2, 1]


def test_a_week_of_a_busy_stream_fits_into_5_megabytes(home: StreamHome) -> None:
    long = 10**12
    busy = {"plan": 59_999, "evaluate": 59_999, "write": 59_999, "commit": 59_999}
    worst = [
        Sample(
            at=START + minute * SAMPLE_MS, lineage=f"20260921T130000-{minute % 2:06}", batch_id=9_999_999, batches=600,
            rows=99_999_999, batch_ms=59_999, longest_ms=59_999, phases=busy, lag_ms=9_999_999, source_lag=99_999_999,
            watermark_ms=START, open=99_999_999, state_bytes=long, sessions=999_999, late=999_999,
            refused=999_999, group=1023, group_bytes=long, group_p99_bytes=long, waited_ms=59_999,
            closed=dict.fromkeys(CloseReason, 999_999), key="k" * 64, key_events=999_999, key_p99_events=99_999,
            straggler=f"key:{'k' * 64}",
        )
        for minute in range(60)
    ]  # fmt: skip
    home.history.mkdir(parents=True)
    write_hour(home, NAME, worst)
    assert (home.control / "history" / f"{NAME}.json").stat().st_size * 24 * 7 < 5_000_000


def test_marks_of_several_processes(home: StreamHome) -> None:
    add_mark(home, Mark(at=START, kind=MarkKind.START, uid="a"))
    add_mark(home, Mark(at=START, kind=MarkKind.SAVEPOINT, savepoint="s"))
    add_mark(home, Mark(at=START + 5, kind=MarkKind.CRASH, what="memory", text="password=hunter2 was refused"))
    found = read_marks(home, START, START + 9)
    assert {str(mark.kind) for mark in found} == {"start", "savepoint", "crash"}
    assert "hunter2" not in found[-1].text
    assert [mark.kind for mark in read_marks(home, START + 1, START + 9)] == [MarkKind.CRASH]


@pytest.mark.parametrize("name", ["mark.²-3fa9c2.json", "mark.x-3fa9c2.json", "mark..json", "²026-09-21T14.json"])
def test_a_file_of_another_name_is_no_record(home: StreamHome, name: str) -> None:
    add_mark(home, Mark(at=START, kind=MarkKind.START))
    (mounted(home.history) / name).write_text("{}")
    assert len(read_marks(home, 0, 2 * START)) == 1
    assert oldest_record(home) == START
    remove_old(home, START + 2 * KEPT_MS)
    assert oldest_record(home) is None


def test_a_mark_that_cannot_be_read_now_is_read_later(home: StreamHome, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in (START, START + 1):
        add_mark(home, Mark(at=at, kind=MarkKind.START))
    with monkeypatch.context() as away:
        away.setattr(Store, "_read", Mock(side_effect=OSError(errno.EIO, "the mount is away")))
        read_marks(home, START, START + 1)
    assert [mark.at for mark in read_marks(home, START, START + 1)] == [START, START + 1]


def test_a_damaged_mark_hides_no_other(home: StreamHome) -> None:
    for at in (START, START + 1):
        add_mark(home, Mark(at=at, kind=MarkKind.START))
    next(mounted(home.history).glob(f"mark.{START}-*")).write_text("{")
    assert [mark.at for mark in read_marks(home, START, START + 1)] == [START + 1]


def test_old_files_are_removed_and_others_stay(home: StreamHome) -> None:
    writer = HistoryWriter(home)
    writer.add(batch(START))
    add_mark(home, Mark(at=START, kind=MarkKind.START))
    add_mark(home, Mark(at=START + KEPT_MS, kind=MarkKind.STOP))
    assert oldest_record(home) == START
    remove_old(home, START + KEPT_MS + 2 * HOUR)
    assert read_history(home, 0, START + 2 * KEPT_MS) == History(marks=(Mark(at=START + KEPT_MS, kind=MarkKind.STOP),))


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"samples": 7}', b'{"fields": ["at"], "samples": [1, ["x"], null, []]}']
)
def test_a_damaged_hour_counts_as_absent(home: StreamHome, content: bytes) -> None:
    folder = home.control / "history"
    folder.mkdir(parents=True)
    (folder / f"{NAME}.json").write_bytes(content)
    assert read_history(home, START, START + HOUR) == History()
    HistoryWriter(home).add(batch(START))
    assert len(read_hour(home, NAME)) == 1, "the next driver writes it anew"


def test_nothing_is_raised_where_nothing_can_be_written(home: StreamHome) -> None:
    home.root.mkdir(parents=True)
    (home.root / "control").write_text("a file in the place of the folder")
    writer = HistoryWriter(home)
    writer.add(batch(START))
    writer.flush(START + WRITTEN_EVERY_MS)
    add_mark(home, Mark(at=START, kind=MarkKind.START))
    remove_old(home, START)
    assert oldest_record(home) is None


def test_what_could_not_be_written_is_written_later(home: StreamHome) -> None:
    home.root.mkdir(parents=True)
    obstacle = home.root / "control"
    obstacle.write_text("")
    writer = HistoryWriter(home)
    writer.add(batch(START))
    obstacle.unlink()
    (home.control / "history").mkdir(parents=True)
    writer.add(batch(START + WRITTEN_EVERY_MS))
    assert read_hour(home, NAME)[0].batches == 2


def test_the_folder_is_closed_to_others(home: StreamHome) -> None:
    HistoryWriter(home).add(batch(START))
    assert stat.S_IMODE((home.control / "history").stat().st_mode) & 0o007 == 0


@pytest.mark.parametrize(
    ("kinds", "restarts"),
    [
        ("", 0),
        ("start", 0),
        ("start stop start", 0),
        ("start crash start", 1),
        ("start start", 1),
        ("start crash start crash start stop start", 2),
        ("start command start", 0),
        ("start savepoint alert crash alert start", 1),
    ],
)
def test_restarts_are_starts_after_a_crash(kinds: str, restarts: int) -> None:
    marks = [Mark(at=number, kind=MarkKind(kind)) for number, kind in enumerate(kinds.split())]
    assert count_restarts(marks) == restarts


def test_a_sample_leaves_out_what_says_nothing() -> None:
    assert json.dumps(Sample(at=5, rows=0, lag_ms=None).to_json()) == '{"at": 5}'


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "driver.a.log"


def test_the_last_lines_without_blank_ones(log: Path) -> None:
    log.write_text("".join(f"line {number}\n\n" for number in range(100)))
    assert tail(log, 3) == ["line 97", "line 98", "line 99"]


def test_a_log_that_was_just_cut_is_completed_from_the_part_before(log: Path, tmp_path: Path) -> None:
    (tmp_path / "driver.a.log.2").write_text("oldest\n")
    (tmp_path / "driver.a.log.1").write_text("old\nolder than new\n")
    log.write_text("new\n")
    assert tail(log, 2) == ["older than new", "new"]
    assert tail(log) == ["oldest", "old", "older than new", "new"]


def test_a_link_in_place_of_an_older_part_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "passwords").write_text("secret matter\n")
    log = tmp_path / "logs" / "driver.a.log"
    log.parent.mkdir()
    log.write_text("its own words\n")
    log.with_name("driver.a.log.1").symlink_to(tmp_path / "passwords")
    assert tail(log) == ["its own words"]


def test_the_causes_of_a_death_are_seen_behind_their_stacks(log: Path) -> None:
    stack = "".join(f"\tat org.apache.spark.Thing.method{number}(Thing.scala:{number})\n" for number in range(40))
    log.write_text(
        "26/11/23 ERROR MicroBatchExecution: Query clicks terminated with error\n"
        f"org.apache.spark.SparkException: Job aborted due to stage failure\n{stack}"
        f"Caused by: java.io.IOException: No space left on device\n{stack}\t... 71 more\n"
        "end of it\n"
    )
    assert not any("Caused by" in line for line in tail(log)), "what it was like"
    assert last_words(log) == [
        "26/11/23 ERROR MicroBatchExecution: Query clicks terminated with error",
        "org.apache.spark.SparkException: Job aborted due to stage failure",
        "\tat org.apache.spark.Thing.method0(Thing.scala:0)",
        "\t… 39 more frames",
        "Caused by: java.io.IOException: No space left on device",
        "\tat org.apache.spark.Thing.method0(Thing.scala:0)",
        "\t… 40 more frames",
        "end of it",
    ]


def test_no_log(log: Path, tmp_path: Path) -> None:
    assert tail(tmp_path / "nothing.log") == []


def test_long_lines_and_bytes_that_are_no_text(log: Path) -> None:
    log.write_bytes(b"\xff\xfe" + b"x" * 300_000)
    assert tail(log) == ["(a line of more than 131,072 bytes)"]
    log.write_bytes(b"\xff\xfe" + b"x" * 30_000)
    assert [len(line) for line in tail(log)] == [LINE_LIMIT]


def test_a_credential_is_hidden_before_the_line_is_cut(log: Path) -> None:
    url = "jdbc:postgresql://me:hunter2@host/db"
    log.write_text("x" * (LINE_LIMIT - url.index("@") - 1) + " " + url + "\n")
    (line,) = tail(log)
    assert "hunter2" not in line


def test_of_a_line_whose_beginning_was_not_read_nothing_is_shown(log: Path) -> None:
    log.write_text("password=" + "hunter2" * READ_BYTES + "\nlast\n")
    assert tail(log) == ["last"]


def test_the_table_of_the_history_gets_more_marks_than_a_page_shows(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No later run reads the same hours."""
    opened(home.history).mkdir(parents=True)
    for number in range(MARKS_READ + 1):
        mark = Mark(kind=MarkKind.CRASH, at=HOUR + number)
        opened(home.history / f"mark.{mark.at}-0.json").write_text(json.dumps(content_to_store(mark)))
    written = list[pa.Table]()
    monkeypatch.setattr(report, "ensure_table", lambda *_: None)
    monkeypatch.setattr(report, "last_version", lambda *_: -1)
    monkeypatch.setattr(report, "write_once", lambda table, *_: written.append(table))
    spark: Any = SimpleNamespace(createDataFrame=lambda table: table)
    assert report.append_history(spark, home, "nowhere", 3 * HOUR) == MARKS_READ + 1
    assert written[0].num_rows == MARKS_READ + 1
