"""What a lineage hands over, and whether the next one holds it."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sessionizer.checkpoint.log_entries import commit_log, offset_log, proof_of_batch
from sessionizer.control.operation import new_operation
from sessionizer.control.records.operation_record import Ending
from sessionizer.core.definition.rules import Clock
from sessionizer.errors import BatchOutrun, DamagedFile
from sessionizer.home.roots import DataPath
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import activate_lineage, active_lineage, make_lineage, start_lineage
from sessionizer.lineage.excluded_ranges import (
    EXCLUDED_RANGES_FILE,
    NOTHING_EXCLUDED,
    ExcludedRange,
    ExcludedRanges,
    Records,
    examine_excluded_ranges,
    read_excluded_ranges,
)
from sessionizer.lineage.kept_spec import TYPES_FILE, KeptTypes, LineageSpec
from sessionizer.state.lineages import committed_batch
from sessionizer.state.lineages.committed_batch import (
    PackedGroup,
    StateTransfer,
    check_packing,
    disagreement,
    find_retained_batch,
    records_beside,
    settle,
    write_records,
)
from sessionizer.state.lineages.origin import (
    NO_BATCH,
    ORIGIN_FILE,
    Origin,
    find_abandoned_lineages,
    remove_abandoned,
    remove_lineage,
)
from support.fixtures.reviewed import Reviewed
from support.places import opened
from support.verbs.begun_restore import write_operation
from support.verbs.scripted_runner import Killed


def test_groups_that_hold_the_same_agree() -> None:
    blobs = {0: ("a", "b"), 3: ("c",)}
    assert disagreement(blobs, dict(reversed(blobs.items()))) is None
    assert disagreement({}, {}) is None


def test_what_differs_is_named_by_its_group(reviewed: Reviewed) -> None:
    expected = {0: ("a", "b"), 3: ("c",)}
    lost = disagreement(expected, {0: ("a", "b")})
    reviewed(lost)
    astray = disagreement(expected, {**expected, 4: ("d",)})
    reviewed(astray)
    for others in (("b", "a"), ("a", "c")):
        changed = disagreement(expected, {**expected, 0: others})
        reviewed(changed)


def test_what_was_packed_otherwise_than_given_is_named_by_its_group(reviewed: Reviewed) -> None:
    packed = {0: PackedGroup(2, whole=True, blobs=("a",)), 3: PackedGroup(1, whole=True, blobs=("b",))}
    assert check_packing({0: 2, 3: 1}, packed) is None
    reviewed(check_packing({0: 2, 3: 2}, packed))
    reviewed(check_packing({0: 2}, packed))
    reviewed(check_packing({0: 2, 1: 4, 3: 1}, packed))
    torn = {**packed, 0: packed[0]._replace(whole=False)}
    reviewed(check_packing({0: 2, 3: 1}, torn))


def test_what_a_lineage_remembers_is_handed_over(home: StreamHome) -> None:
    lineage = make_lineage(home, None)
    assert records_beside(home, lineage) == {}
    home.lineage(lineage).announced_timeouts.write_text(json.dumps({"timeouts": {"acme": 5}}))
    assert records_beside(home, lineage) == {"announced_timeouts.json": {"timeouts": {"acme": 5}}}


def test_what_is_left_out_of_a_source_is_handed_over_to_who_reads_the_same(home: StreamHome) -> None:
    first, second, elsewhere = (make_lineage(home, None) for _ in range(3))
    excluded_ranges = ExcludedRanges(
        (ExcludedRange("a*", files=("file:/a",)), ExcludedRange("c:0:5", records=Records("c", 0, 5, 6)))
    )
    handed = StateTransfer(Origin("restore", 7), LineageSpec({}), KeptTypes("event_time"), watermark_ms=5, offset=None)
    write_records(home, first, replace(handed, records=EXCLUDED_RANGES_FILE.content(excluded_ranges)))
    assert read_excluded_ranges(home, first) == excluded_ranges
    write_records(home, second, replace(handed, records=records_beside(home, first)))
    assert read_excluded_ranges(home, second) == excluded_ranges
    write_records(home, elsewhere, replace(handed, records=records_beside(home, first, same_source=False)))
    assert read_excluded_ranges(home, elsewhere) == NOTHING_EXCLUDED
    assert not EXCLUDED_RANGES_FILE.of(home, elsewhere).path.exists()


@pytest.mark.parametrize("damage", ["{", "{}", '{"ranges": 7}', '{"ranges": [{"range": "a"}]}'])
def test_what_is_left_out_does_not_come_in_for_a_damaged_file(home: StreamHome, damage: str) -> None:
    lineage = make_lineage(home, None)
    EXCLUDED_RANGES_FILE.of(home, lineage).path.write_text(damage)
    with pytest.raises(DamagedFile):
        read_excluded_ranges(home, lineage)
    with pytest.raises(DamagedFile):
        records_beside(home, lineage)
    activate_lineage(home, lineage, None)
    assert examine_excluded_ranges(home) == NOTHING_EXCLUDED


def test_what_was_made_from_the_active_lineage_and_never_ran_is_abandoned(home: StreamHome) -> None:
    first, killed, ran, active, hardly_begun = (make_lineage(home, None) for _ in range(5))
    TYPES_FILE.of(home, first).write(KeptTypes("event_time"))  # it was active once
    for lineage, parent in ((killed, active), (ran, active), (active, first)):
        ORIGIN_FILE.of(home, lineage).write(Origin("rescale", 7, parent, 41))
    offsets = home.checkpoint(ran) / "offsets"
    opened(offsets).mkdir()
    for batch in ("0", "1"):
        opened(offsets / batch).touch()
    activate_lineage(home, active, first)
    assert set(find_abandoned_lineages(home)) == {killed, hardly_begun}


def test_what_was_made_from_a_savepoint_of_an_earlier_lineage_and_was_never_active_is_abandoned(
    home: StreamHome,
) -> None:
    first, active, killed, left, begun_with = (make_lineage(home, None) for _ in range(5))
    TYPES_FILE.of(home, first).write(KeptTypes("event_time"))
    for lineage in (killed, left, begun_with):
        ORIGIN_FILE.of(home, lineage).write(Origin("restore", 7, first, 41, "nightly"))
    ORIGIN_FILE.of(home, active).write(Origin("rescale", 8, begun_with, 0))
    done = new_operation(home, "restore", "ab", "ann", (first, 41), savepoint="nightly")
    write_operation(home, replace(done, lineage_to=left, outcome=Ending.DONE))
    activate_lineage(home, active, begun_with)
    assert find_abandoned_lineages(home) == [killed]


def test_what_was_rolled_back_before_its_first_batch_is_kept(home: StreamHome) -> None:
    active, left = make_lineage(home, None), make_lineage(home, None)
    TYPES_FILE.of(home, active).write(KeptTypes("event_time"))
    ORIGIN_FILE.of(home, left).write(Origin("rescale", 7, active, 41))
    activate_lineage(home, active, None)
    assert find_abandoned_lineages(home) == [left], "no operation has made it active"
    done = new_operation(home, "rescale", "ab", "ann", (active, 41))
    write_operation(home, replace(done, lineage_to=left, outcome=Ending.DONE))
    assert find_abandoned_lineages(home) == []


def test_whoever_is_killed_while_they_remove_a_lineage_leaves_what_the_next_one_finishes(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    active, killed = make_lineage(home, None), make_lineage(home, LineageSpec({}))
    ORIGIN_FILE.of(home, killed).write(Origin("rescale", 7, active, 41))
    TYPES_FILE.of(home, killed).write(KeptTypes("event_time"))
    activate_lineage(home, active, None)
    removed, deaths = shutil.rmtree, 0

    def die(folder: Path) -> None:
        removed(folder)
        raise Killed

    monkeypatch.setattr(shutil, "rmtree", die)
    while find_abandoned_lineages(home):
        with pytest.raises(Killed):
            remove_lineage(home, killed)
        deaths += 1
    assert deaths == 4
    assert not home.lineage(killed).records.exists()


def test_what_a_seed_was_killed_to_remove_goes_with_the_next_verb_and_what_one_needs_stays(home: StreamHome) -> None:
    over, pending = (new_operation(home, "seed", "ab", "ann", ("", -1), savepoint=each) for each in ("old", "new"))
    for record in (replace(over, outcome=Ending.DONE), pending):
        write_operation(home, record)
        opened(home.seeds / record.id / "taken").mkdir(parents=True)
        opened(home.unpacked / record.savepoint / "state").mkdir(parents=True)
    remove_abandoned(home)
    left = [folder.name for root in (home.seeds, home.unpacked) for folder in opened(root).iterdir()]
    assert left == [pending.id, pending.savepoint]
    write_operation(home, replace(pending, outcome=Ending.DONE))
    remove_abandoned(home)
    assert [*opened(home.seeds).iterdir(), *opened(home.unpacked).iterdir()] == []


def test_the_first_lineage_of_a_stream_is_nobodys_until_it_is_active(home: StreamHome) -> None:
    """What a kill leaves of it does not pass for a stream whose control was lost, and is removed by the next seed."""
    lineage, kept = make_lineage(home, None), KeptTypes("event_time", {"amount": ["long"]})
    ORIGIN_FILE.of(home, lineage).write(Origin("seed", 7))
    write_records(home, lineage, StateTransfer(Origin("seed", 7), LineageSpec({}), kept, watermark_ms=5, offset=None))
    assert active_lineage(home) is None
    assert find_abandoned_lineages(home) == [lineage]
    assert ORIGIN_FILE.of(home, lineage).require() == Origin("seed", 7, None, NO_BATCH)
    activate_lineage(home, lineage, None)
    settle(home, lineage, kept)
    assert (active_lineage(home), TYPES_FILE.of(home, lineage).require()) == (lineage, kept)
    assert find_abandoned_lineages(home) == []


def test_timeouts_of_erased_clients_are_not_handed_over() -> None:
    handed = StateTransfer(
        Origin("erase", 7),
        LineageSpec({}),
        KeptTypes("event_time"),
        watermark_ms=5,
        offset=None,
        timeouts={"ann": 1, "bob": 2},
        records={"announced_timeouts.json": {"format": 1, "timeouts": {"ann": 1, "bob": 2}}, "source.json": {"a": 1}},
        punctuations={"1.json": {"timeouts": [{"client": "ann", "timeout_ms": 1}, {"client": "bob", "timeout_ms": 2}]}},
    ).forget_clients("ann".__eq__)
    assert handed.timeouts == {"bob": 2}
    assert handed.records == {
        "announced_timeouts.json": {"format": 1, "timeouts": {"bob": 2}},
        "source.json": {"a": 1},
    }
    assert handed.punctuations == {"1.json": {"timeouts": [{"client": "bob", "timeout_ms": 2}]}}


def test_a_batch_that_spark_removes_while_it_is_described_is_outrun(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    lineage = start_lineage(home, spec=LineageSpec({"source": {"format": "delta"}}))
    TYPES_FILE.of(home, lineage).write(KeptTypes(Clock.EVENT_TIME))
    files = [opened(log(home.checkpoint(lineage)) / "0") for log in (offset_log, commit_log)]
    for file in files:
        file.parent.mkdir(exist_ok=True)
    files[0].write_text('v1\n{"batchWatermarkMs":0,"batchTimestampMs":7,"conf":{}}\n{"reservoirVersion":1}\n-')
    files[1].write_text('v2\n{"nextBatchWatermarkMs":5}')
    found = find_retained_batch(home)
    assert (found.batch_at, found.watermark_ms, found.position.offset) == (7, 5, {"reservoirVersion": 1})

    def outrun(checkpoint: DataPath, batch_id: int) -> str:
        proof = proof_of_batch(checkpoint, batch_id)
        for file in files:
            file.unlink()
        return proof

    monkeypatch.setattr(committed_batch, "proof_of_batch", outrun)
    with pytest.raises(BatchOutrun):
        find_retained_batch(home)
