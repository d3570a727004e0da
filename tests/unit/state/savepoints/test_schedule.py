"""Which streams are due for a savepoint, and which of the scheduled ones go again."""

from dataclasses import replace

import pytest

from sessionizer.checkpoint.log_entries import commit_log
from sessionizer.control.records.operation_record import Ending
from sessionizer.errors import UnusableSavepoint
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import files_below
from sessionizer.home.roots import DataPath
from sessionizer.home.stream_home import SavepointHome, StreamHome
from sessionizer.lineage.active import begin_drain, start_lineage
from sessionizer.state.savepoints import schedule
from sessionizer.state.savepoints.listing import (
    RemovalMark,
    Savepoint,
    UseMark,
    examine_savepoint,
    list_savepoints,
    write_data_record,
)
from sessionizer.state.savepoints.manifest import Manifest, SavepointKind, read_manifest, write_manifest
from sessionizer.state.savepoints.schedule import (
    NewestBatch,
    judge_schedule,
    judge_stream,
    newest_reached,
    plan_for_scheduled,
    prune_scheduled,
    reason,
)
from sessionizer.state.savepoints.verification import data_files
from sessionizer.stream_spec.document.stream import Savepoints
from support.checkpoints.fabricated_checkpoints import begin, fabricate, manifest_of
from support.fixtures.reviewed import Reviewed
from support.places import opened
from support.verbs.begun_restore import begun_restore, write_operation

HOUR = 3_600_000
DAY = 24 * HOUR
NOW = 100 * DAY
LINEAGE = manifest_of("s1").lineage


def made(ago: int, savepoint: str = "s1") -> Manifest:
    return manifest_of(savepoint, batch_id=7, made_at=NOW - ago)


@pytest.mark.parametrize(
    ("reached", "saved", "making", "due", "because"),
    [
        (None, [], False, False, "it has no batch that could be saved"),
        (NewestBatch(LINEAGE, 0), [], False, True, "it has none"),
        (NewestBatch(LINEAGE, 0), [], True, False, "one is being made"),
        (NewestBatch(LINEAGE, 8), [made(HOUR)], False, True, "s1 was made 1 h ago"),
        (NewestBatch(LINEAGE, 8), [made(HOUR - 1)], False, False, "s1 was made 59 m 59 s ago"),
        (NewestBatch(LINEAGE, 8), [made(-5000)], False, False, "s1 was made -5 s ago"),
        (NewestBatch(LINEAGE, 8), [made(-DAY)], False, True, "s1 was made -1 d ago"),
        (NewestBatch(LINEAGE, 8), [made(-DAY), made(5000, "s2")], False, False, "s2 was made 5 s ago"),
        (NewestBatch(LINEAGE, 7), [made(30 * DAY)], False, False, "no batch was over since s1"),
        (NewestBatch(LINEAGE, 7), [made(-DAY)], False, False, "no batch was over since s1"),
        (NewestBatch("after_a_restore", 7), [made(HOUR)], False, True, "s1 was made 1 h ago"),
    ],
)
def test_a_stream_is_due_when_its_newest_is_old_and_a_batch_was_over_since(
    *, reached: NewestBatch | None, saved: list[Manifest], making: bool, due: bool, because: str
) -> None:
    """Also if a clock that was set back since dated one in the future."""
    judgement = judge_schedule(HOUR, reached, saved, making=making, now=NOW)
    assert (judgement.due, judgement.because) == (due, because)


@pytest.mark.parametrize("is_over", [True, False], ids=["ends", "begins"])
def test_no_stream_is_judged_by_a_listing_from_within_an_operation(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch, *, is_over: bool
) -> None:
    commit(home, start_lineage(home), 8)
    record = begun_restore(savepoint="a")
    if is_over:
        write_operation(home, record)

    def list_meanwhile(folder: DataPath, now: int) -> list[Savepoint]:
        found = list_savepoints(folder, now)
        write_operation(home, replace(record, outcome=Ending.DONE) if is_over else record)
        return found

    monkeypatch.setattr(schedule, "list_savepoints", list_meanwhile)
    assert not judge_stream(home, HOUR, epoch_ms()).due


def commit(home: StreamHome, lineage: str, batch_id: int) -> None:
    log = commit_log(home.checkpoint(lineage))
    opened(log).mkdir(exist_ok=True)
    opened(log / str(batch_id)).write_text('v2\n{"nextBatchWatermarkMs":0}')


def test_only_a_batch_that_can_be_gone_on_from_is_saved(home: StreamHome) -> None:
    assert newest_reached(home) is None
    lineage = start_lineage(home)
    assert newest_reached(home) is None
    commit(home, lineage, 3)
    assert newest_reached(home) == NewestBatch(lineage, 3)
    begin_drain(home, lineage)
    assert newest_reached(home) is None


def test_only_the_newest_complete_canonical_one_counts(home: StreamHome, reviewed: Reviewed) -> None:
    now = epoch_ms()
    commit(home, start_lineage(home), 8)
    fabricate(home.savepoints, "s2", made_at=now - HOUR // 2)
    fabricate(home.savepoints, "s3", made_at=now - HOUR)
    begin(home.savepoints, "s4", by_the_dead=True)
    native = fabricate(home.savepoints, "s6")
    write_manifest(native, replace(manifest_of("s6", made_at=now), kind=SavepointKind.NATIVE))
    assert judge_stream(home, HOUR // 2, now).due
    assert judge_stream(home, HOUR, now).because == "s2 was made 30 m ago"
    assert judge_stream(home, HOUR // 2, now, native=True).because == "s6 was made 0 ms ago"
    begin(home.savepoints, "s5")
    reviewed(judge_stream(home, HOUR // 2, now).because)


def scheduled(home: StreamHome, savepoint: str, age: int) -> SavepointHome:
    found = fabricate(home.savepoints, savepoint, made_at=epoch_ms() - age)
    write_data_record(found.begun, replace(UseMark.now(reason(HOUR)), pid=2**22 + 1))
    return found


def test_what_people_made_is_never_removed_by_a_schedule(home: StreamHome) -> None:
    for number in range(1, 6):
        scheduled(home, f"s{number}", age=(10 - number) * DAY)
    fabricate(home.savepoints, "of_a_person", made_at=1)
    wanted = Savepoints.model_validate({"every": "1 hour", "keep": "7 days", "at_least": 1})
    found, verdicts = plan_for_scheduled(home, wanted, epoch_ms())
    assert {each.id: verdict.goes for each, verdict in zip(found, verdicts, strict=True)} == {
        "s1": True, "s2": True, "s3": True, "s4": False, "s5": False,
    }  # fmt: skip
    few = Savepoints.model_validate({"every": "1 hour", "keep": "1 hour"})
    assert [verdict.id for verdict in plan_for_scheduled(home, few, epoch_ms())[1] if verdict.goes] == ["s1", "s2"]
    for user, why in (("s1", "scheduled outage of Friday"), ("s2", "scheduled")):
        write_data_record(SavepointHome(home.savepoints / user).begun, UseMark.now(why))
    assert [each.id for each in plan_for_scheduled(home, wanted, epoch_ms())[0]] == ["s3", "s4", "s5"]


def test_nothing_goes_if_spark_could_not_read_the_newest(home: StreamHome) -> None:
    for number in range(1, 4):
        newest = scheduled(home, f"s{number}", age=(10 - number) * DAY)
    manifest = read_manifest(newest)
    assert manifest is not None
    write_manifest(newest, replace(manifest, files=tuple(data_files(newest))))
    name = next(file for file in files_below(newest.root) if file.name.endswith(".parquet"))
    hidden = opened(name.parent / f".{name.name}.crc")
    hidden.write_bytes(b"crc\0\0\0\2\0")
    wanted = Savepoints.model_validate({"every": "1 hour", "keep": "1 hour", "at_least": 1})
    with pytest.raises(UnusableSavepoint, match="nothing was removed"):
        prune_scheduled(home, wanted, print)
    assert len(list_savepoints(home.savepoints, epoch_ms())) == 3
    hidden.unlink()
    prune_scheduled(home, wanted, print)
    assert [each.id for each in list_savepoints(home.savepoints, epoch_ms())] == ["s3"]


def test_a_removal_that_was_killed_is_undone_if_an_operation_came_to_need_the_savepoint(home: StreamHome) -> None:
    condemned, _ = scheduled(home, "s1", age=9 * DAY), scheduled(home, "s2", age=DAY)
    write_data_record(condemned.condemned, RemovalMark(epoch_ms()))
    write_operation(home, begun_restore(savepoint="s1"))
    prune_scheduled(home, Savepoints.model_validate({"every": "1 hour", "keep": "1 hour", "at_least": 1}), print)
    assert examine_savepoint(condemned, epoch_ms()).is_complete


def test_one_of_another_lineage_that_is_newer_is_not_taken_for_the_newest_batch(home: StreamHome) -> None:
    lineage = start_lineage(home)
    commit(home, lineage, 7)
    saved = fabricate(home.savepoints, "s1", made_at=epoch_ms() - HOUR)
    assert judge_stream(home, HOUR, epoch_ms()).due
    write_manifest(saved, replace(manifest_of("s1", made_at=1), lineage=lineage))
    assert not judge_stream(home, HOUR, epoch_ms()).due
