"""Records of a driver's progress: batches, stragglers, the checkpoint, a drain."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import sessionizer
from sessionizer.checkpoint.log_entries import commit_log
from sessionizer.control.history.sample import (
    GroupTime,
    Straggler,
    StragglerKind,
    follow,
    partition_behind,
    slow_group,
)
from sessionizer.control.records.driver_records import Heartbeat, Phase
from sessionizer.control.status.batch_progress import (
    NOTHING_UNDER_WAY,
    BatchObservation,
    BatchProgress,
    ProgressTeller,
    StageObservation,
    running_line,
)
from sessionizer.errors import DamagedFile, DataElsewhere, StreamDrained, UnreadableLineage
from sessionizer.home.roots import data_root
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import (
    DRAINED_FILE,
    begin_drain,
    end_drain,
    examine_drain,
    locate_data,
    require_not_drained,
    start_lineage,
)
from sessionizer.lineage.fingerprint import CHECKPOINT_FILE, CheckpointRecord, difference, require_readable_lineage
from support.fixtures.reviewed import Reviewed
from support.places import known, mounted, opened


@pytest.fixture
def lineage(home: StreamHome) -> str:
    return start_lineage(home)


def commit(home: StreamHome, lineage: str, batch_id: int) -> None:
    folder = commit_log(home.checkpoint(lineage))
    opened(folder).mkdir(exist_ok=True)
    opened(folder / str(batch_id)).touch()


def test_a_stream_that_never_ran_or_runs_on_is_not_drained(home: StreamHome) -> None:
    require_not_drained(home)
    lineage = start_lineage(home)
    commit(home, lineage, 0)
    require_not_drained(home)
    assert examine_drain(home) is None


def test_a_drain_is_over_when_its_last_batch_is(home: StreamHome, lineage: str, reviewed: Reviewed) -> None:
    commit(home, lineage, 3)
    begin_drain(home, lineage)
    require_not_drained(home)
    begun = DRAINED_FILE.of(home, lineage).require()
    begin_drain(home, lineage)
    assert begun == DRAINED_FILE.of(home, lineage).require()
    end_drain(home, lineage)
    with pytest.raises(StreamDrained) as raised:
        require_not_drained(home)
    reviewed(raised.value, at=raised.value.at)


def test_a_damaged_record_is_not_guessed(home: StreamHome, lineage: str) -> None:
    DRAINED_FILE.of(home, lineage).path.write_text("{")
    with pytest.raises(DamagedFile):
        require_not_drained(home)
    assert examine_drain(home) is None


NOW = CheckpointRecord(checkpoint_format=3, revision="0002", owner="clicks@5d1c")


@pytest.fixture
def home(tmp_path: Path) -> StreamHome:
    home = StreamHome.of(tmp_path / "home", "clicks")
    home.prepare()
    return home


def test_a_lineage_without_a_format_is_refused(home: StreamHome) -> None:
    lineage = start_lineage(home)
    record = CHECKPOINT_FILE.of(home, lineage).path
    record.write_text("{")
    with pytest.raises(DamagedFile, match="not JSON"):
        require_readable_lineage(home, lineage)
    record.unlink()
    with pytest.raises(UnreadableLineage, match=rf"lineage {lineage}: it has no checkpoint.json"):
        require_readable_lineage(home, lineage)
    assert not record.exists()


def test_the_lineage_of_another_stream_is_refused_and_a_home_may_move(
    home: StreamHome, tmp_path: Path, reviewed: Reviewed
) -> None:
    lineage = start_lineage(home)
    moved = StreamHome.of(shutil.copytree(tmp_path / "home", tmp_path / "moved"), "clicks")
    require_readable_lineage(moved, lineage)
    other = StreamHome.of(tmp_path / "home", "visits")
    shutil.copytree(mounted(home.lineage_records), mounted(other.lineage_records))
    with pytest.raises(UnreadableLineage) as raised:
        require_readable_lineage(other, lineage)
    reviewed(raised.value, this_version=sessionizer.__version__)


@pytest.mark.parametrize(("born", "now"), [("lake", None), (None, "hdfs://nn:8020/lake"), ("lake", "other")])
def test_another_data_root_is_refused_by_name(tmp_path: Path, born: str | None, now: str | None) -> None:
    platform = tmp_path / "home"

    def place(data: str | None) -> str:
        return str(platform) if data is None else data if "://" in data else str(tmp_path / data)

    def home(data: str | None) -> StreamHome:
        return StreamHome.of(platform, "clicks", data_root(place(data), platform))

    home(None).prepare()
    lineage = start_lineage(home(born))
    require_readable_lineage(home(born), lineage)
    with pytest.raises(DataElsewhere) as caught:
        require_readable_lineage(home(now), lineage)
    of_lineage = f"lineage {lineage} of stream 'clicks' has its data at '{place(born)}'"
    assert str(caught.value) == f"SESSIONIZER_DATA is '{place(now)}', but {of_lineage}"


def test_the_data_root_of_a_lineage_is_shown_whatever_is_asked_with(tmp_path: Path) -> None:
    home = StreamHome.of(tmp_path / "home", "clicks", data_root(str(tmp_path / "lake"), tmp_path / "home"))
    assert locate_data(StreamHome(home.root)).tables == home.root / "tables"
    home.prepare()
    start_lineage(home)
    assert locate_data(StreamHome(home.root)).tables == tmp_path / "lake/streams/clicks/tables"


@pytest.mark.parametrize(
    ("kept", "cause"),
    [
        (NOW, None),
        (None, "no checkpoint.json"),
        (replace(NOW, checkpoint_format=2), "has format 2, and this release reads 3"),
        (replace(NOW, checkpoint_format=4), "has format 4, and this release reads 3"),
        (replace(NOW, revision="9999"), "has revision 9999, and this release reads 0002"),
        (replace(NOW, owner="clicks@7f7f"), "belongs to clicks@7f7f, not to clicks@5d1c"),
    ],
)
def test_what_differs_is_named(kept: CheckpointRecord | None, cause: str | None) -> None:
    found = difference("clicks", kept, NOW)
    assert found is None if cause is None else found is not None and cause in found


def test_what_a_later_release_adds_is_no_difference() -> None:
    later = CheckpointRecord.from_json(json.loads(json.dumps({**NOW.to_json(), "codec": "zstd"})))
    assert difference("clicks", later, NOW) is None


STAGE = StageObservation(stage_id=4, tasks=200, tasks_done=41, rows_read=2_100_000, records=(2_100_000, 0, 7, 0))
BATCH = BatchObservation(batch_id=3, doing="Processing new data", jobs=(9,), stages=(STAGE,), task_seconds=50)
MORE = {
    "a task": replace(BATCH, stages=(replace(STAGE, tasks_done=42),)),
    "a failed attempt": replace(BATCH, stages=(replace(STAGE, tasks_failed=1),)),
    "records": replace(BATCH, stages=(replace(STAGE, records=(2_100_000, 0, 8, 0)),)),
    "a job": replace(BATCH, jobs=(10,)),
    "another step": replace(BATCH, doing="Getting offsets"),
    "a batch": replace(BATCH, batch_id=4),
    "a report of Spark": replace(BATCH, batches=1),
    "processor time of a local task": replace(BATCH, task_seconds=51),
}


@pytest.mark.parametrize("what", MORE)
def test_whatever_has_come_to_more_is_progress(what: str) -> None:
    progress = BatchProgress().seen(BATCH, 1_000).seen(MORE[what], 9_000)
    assert progress.progress_at == 9_000


def test_a_batch_that_looks_the_same_has_not_got_on() -> None:
    progress = BatchProgress().seen(BATCH, 1_000)
    for now in range(2_000, 99_000, 3_000):
        progress = progress.seen(replace(BATCH), now)
    assert progress.progress_at == 1_000
    assert progress.since == 1_000


def test_a_query_that_waits_for_its_trigger_gets_on_however_long_the_interval() -> None:
    waiting = BatchObservation(waits=True)
    progress = BatchProgress().seen(waiting, 1_000).seen(waiting, 301_000)
    assert progress.fields == {**NOTHING_UNDER_WAY, "progress_at": 301_000}


def test_a_batch_counts_from_its_planning_and_keeps_the_rows_of_earlier_jobs() -> None:
    planned = BatchObservation(doing="Getting offsets")
    written = replace(BATCH, jobs=(11,), stages=(StageObservation(stage_id=6, tasks=2, tasks_done=1, rows_read=12),))
    progress = BatchProgress().seen(BatchObservation(waits=True), 500).seen(planned, 1_000).seen(BATCH, 4_000)
    progress = progress.seen(written, 7_000)
    assert progress.fields == {
        "progress_at": 7_000,
        "running_batch": 3,
        "running_since": 1_000,
        "running_tasks": 2,
        "running_tasks_done": 1,
        "running_rows": 2_100_000,
    }
    assert progress.seen(replace(planned, batches=1), 8_000).since == 8_000


def test_only_work_of_a_task_ends_the_start() -> None:
    idle = replace(STAGE, tasks_done=0, rows_read=0, records=(0, 0, 0, 0))
    assert not replace(BATCH, stages=(idle,), task_seconds=0).shows_work
    assert replace(BATCH, stages=(idle,), task_seconds=1).shows_work
    assert replace(BATCH, task_seconds=0).shows_work


def test_people_are_told_how_far_a_long_batch_has_come(reviewed: Reviewed) -> None:
    beat = Heartbeat("a", 0, 0, Phase.RUNNING, running_batch=3, running_since=20_000)
    beat = replace(beat, running_tasks=200, running_tasks_done=41, running_rows=2_100_000)
    assert running_line(beat, 200_000) == "batch 3: 41 of 200 tasks, 2.1 M rows, for 3 m"
    assert running_line(beat, 29_999) is None
    planned = replace(beat, running_batch=None, running_tasks=None, running_rows=None)
    reviewed(running_line(planned, 80_000))


def test_the_teller_takes_turns_with_finished_batches() -> None:
    teller = ProgressTeller(10_000)
    beat = Heartbeat("a", 0, 0, Phase.RUNNING, running_batch=0, running_since=0)
    said = [teller.line(beat, now) for now in (5_000, 12_000, 15_000, 22_000)]
    assert said == [None, "batch 0: for 12 s", None, "batch 0: for 22 s"]
    done = replace(beat, batch_id=0, running_since=None, running_batch=None)
    assert (teller.line(done, 33_000) or "").startswith("batch 0 ·")
    assert teller.line(done, 44_000) is None
    assert teller.line(beat, 25_000) == "batch 0: for 25 s", "the clock was set back"


AT = 1_790_000_000_000


def groups(*took_ms: int, **heavy: object) -> list[GroupTime]:
    first, *others = took_ms
    heaviest = GroupTime(group=0, took_ms=first, **heavy)  # type: ignore[arg-type]
    return [heaviest, *(GroupTime(group=number + 1, took_ms=took) for number, took in enumerate(others))]


@pytest.mark.parametrize(
    ("took_ms", "batch_ms", "found"),
    [
        ((9_000, 100, 100, 200), 10_000, "key_group:0"),
        ((9_000, 4_000, 100, 200), 10_000, "key_group:0"),
        ((9_000, 8_900, 8_000, 200), 10_000, None),
        ((9_000, 100, 100, 200), 30_000, None),
        ((1_900, 10, 10, 10), 2_000, None),
        ((9_000,), 10_000, None),
        ((0, 0), 0, None),
    ],
    ids=["slow", "two are slow", "all are slow", "another part is slow", "a short batch", "alone", "no work"],
)
def test_the_key_group_that_holds_up_a_batch(took_ms: tuple[int, ...], batch_ms: int, found: str | None) -> None:
    straggler = slow_group(groups(*took_ms), batch_ms, AT)
    assert (straggler.label if straggler else None) == found


@pytest.mark.parametrize(("events", "found"), [(5_000, "key:bot"), (90, "key_group:0")])
def test_a_key_far_beyond_the_others_is_named_instead_of_its_group(events: int, found: str) -> None:
    straggler = known(slow_group(groups(9_000, 10, 10, key="bot", key_events=events, others_events=9), 10_000, AT))
    assert (straggler.label, straggler.group) == (found, 0)


@pytest.mark.parametrize(
    ("behind", "found"),
    [
        ({"c-0": 50_000, "c-1": 10, "c-2": 0}, "partition:c-0"),
        ({"c-0": 50_000, "c-1": 40_000, "c-2": 30_000}, None),
        ({"c-0": 900, "c-1": 0}, None),
        ({"c-0": 50_000}, None),
        ({}, None),
    ],
    ids=["one is behind", "all are behind", "a few events", "alone", "no Kafka"],
)
def test_the_partition_that_falls_behind(behind: dict[str, int], found: str | None) -> None:
    straggler = partition_behind(behind, AT)
    assert (straggler.label if straggler else None) == found


def test_a_straggler_is_named_after_two_batches_and_keeps_its_beginning() -> None:
    def seen(name: str, at: int) -> Straggler:
        return Straggler(kind=StragglerKind.KEY_GROUP, name=name, since=at)

    first = known(follow(None, seen("3", AT)))
    assert not first.is_named
    second = known(follow(first, seen("3", AT + 9)))
    assert (second.is_named, second.since, second.batches) == (True, AT, 2)
    other = known(follow(second, seen("4", AT + 20)))
    assert (other.is_named, other.since) == (False, AT + 20)
    assert follow(other, None) is None


def test_a_batch_in_which_its_group_did_not_merge_says_nothing_of_a_straggler() -> None:
    def seen(at: int) -> Straggler | None:
        return slow_group(groups(9_000, 10, 10, key="bot", key_events=5_000), 10_000, at)

    stored = [replace(each, merged=False) for each in groups(20, 10, 10)]
    first = follow(None, seen(AT))
    between = follow(first, None, stored)
    assert between == first
    again = known(follow(between, seen(AT + 9), stored))
    assert (again.label, again.is_named, again.since) == ("key:bot", True, AT)
    assert follow(again, None, groups(20, 10, 10)) is None, "it merged, and was quick"
    partition = Straggler(kind=StragglerKind.PARTITION, name="c-0", since=AT)
    assert follow(again, partition, stored) == again
    assert follow(partition, None, stored) is None
    other = replace(again, group=1, name="2", batches=1)
    assert follow(again, other, stored) == other
