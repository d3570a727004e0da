"""Every file of a checkpoint, cut, emptied, flipped or gone, is named, with what follows and what to do."""

import re

import pytest

from sessionizer.inspection.checkpoint_read import read_checkpoint
from sessionizer.inspection.damages import CheckpointDamage, Effect
from sessionizer.inspection.inspect import damages
from support.checkpoints.fabricated_checkpoints import Held, Way, fabricated
from support.fixtures.reviewed import Reviewed

BATCHES = 4
NEWEST = BATCHES - 1


def found_in(held: Held, *, deep: bool = False) -> dict[str, CheckpointDamage]:
    return {finding.file: finding for finding in damages(read_checkpoint(held.files(), deep=deep))}


def cases() -> list[tuple[int, str, Way]]:
    """Format, file, way: all but a flip that no checksum tells, and the newest commit, whose batch runs again."""
    return [
        (made, name, way)
        for made in (1, 2)
        for name in fabricated(BATCHES, format=made).names
        for way in Way
        if not (way is Way.FLIPPED and re.match(r"metadata|offsets|commits|sources|.*\.crc$", name))
        and (name, way) != (f"commits/{NEWEST}", Way.REMOVED)
    ]


@pytest.mark.parametrize("made", [1, 2])
def test_a_sound_one_has_no_damage(made: int) -> None:
    assert found_in(fabricated(BATCHES, format=made), deep=True) == {}


def test_every_damaged_file_is_named_with_what_to_do() -> None:
    all_cases = cases()
    assert len(all_cases) > 100
    for made, name, way in all_cases:
        found = found_in(fabricated(BATCHES, format=made).damaged(name, way))
        assert name in found, (made, name, way)
        finding = found[name]
        assert all((finding.wrong, finding.follows, finding.remedy))
        held = fabricated(BATCHES, format=made).damaged(name, way).contents
        assert all(step.file in held for step in finding.steps if step.source is None)


def test_a_flip_is_told_by_hadoops_checksums_where_there_are_some(reviewed: Reviewed) -> None:
    held = fabricated(BATCHES)
    name = "offsets/3"
    hidden = b"crc\x00\x00\x00\x02\x00" + b"\x00\x00\x00\x00"
    found = found_in(Held({**held.contents, "offsets/.3.crc": hidden}))
    reviewed(found[name].wrong)


@pytest.mark.parametrize("way", list(Way))
def test_the_newest_state_comes_again_from_its_batch(way: Way) -> None:
    held = fabricated(BATCHES)
    name = next(name for name in held.names if re.fullmatch(r"state/0/1/4_.*\.changelog", name))
    finding = found_in(held.damaged(name, way))[name]
    assert finding.effect is Effect.STOPS
    assert "commits/3" in [step.file for step in finding.steps]


def test_in_format_1_what_the_batch_made_goes_too_before_it_runs_again() -> None:
    held = fabricated(BATCHES, format=1)
    for name in ("offsets/3", "commits/3", "state/0/1/4.delta"):
        steps = {step.file for step in found_in(held.damaged(name, Way.CUT))[name].steps}
        assert {"commits/3", "state/0/0/4.delta", "state/0/1/4.delta"} <= steps
        assert not any("3.delta" in step for step in steps)


def test_an_older_state_without_a_snapshot_cannot_be_mended_by_hand() -> None:
    held = fabricated(BATCHES)
    name = next(name for name in held.names if re.fullmatch(r"state/0/1/2_.*\.changelog", name))
    finding = found_in(held.damaged(name, Way.CUT))[name]
    assert finding.effect is Effect.STOPS
    assert finding.steps == ()
    assert "restore" in finding.remedy


def test_logs_of_batches_long_over_stop_nothing() -> None:
    for name in ("offsets/0", "commits/1"):
        finding = found_in(fabricated(BATCHES).damaged(name, Way.CUT))[name]
        assert finding.effect is Effect.PAST


def test_a_partition_that_is_gone_is_missed() -> None:
    held = fabricated(BATCHES)
    left = {name: content for name, content in held.contents.items() if not name.startswith("state/0/1/")}
    found = found_in(Held(left))
    assert {finding.effect for finding in found.values()} == {Effect.STOPS}
    assert any(name.startswith("state/0/1/") for name in found)


def test_a_batch_that_was_begun_is_no_damage() -> None:
    held = fabricated(BATCHES)
    assert found_in(held.damaged(f"commits/{NEWEST}", Way.REMOVED)) == {}


def test_what_spark_has_removed_of_old_batches_is_no_damage() -> None:
    held = fabricated(BATCHES)
    left = {
        name: content
        for name, content in held.contents.items()
        if name not in {"offsets/0", "commits/0", "offsets/1", "commits/1"}
    }
    assert found_in(Held(left)) == {}
