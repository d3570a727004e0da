"""Time for which old files of the tables stay, and checkpoints that no command needs."""

import json
from pathlib import Path

import pytest

from sessionizer.checkpoint.log_entries import commit_log, offset_log
from sessionizer.errors import NoWayBack
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import activate_lineage, make_lineage
from sessionizer.lineage.batch_log import BatchLog
from sessionizer.state.compaction.plan import (
    COMPACTION_FILE,
    CompactionRecord,
    NeededVersion,
    OldCheckpoint,
    decide_retention,
    find_needed_versions,
    judge_checkpoint,
    judge_checkpoints,
    judge_compaction,
    remove_checkpoint,
)
from sessionizer.state.lineages.origin import ORIGIN_FILE, Origin, find_abandoned_lineages, origins_of, way_back
from sessionizer.state.savepoints.listing import list_savepoints
from support.checkpoints.fabricated_checkpoints import begin, fabricate
from support.places import opened

HOUR = 3_600_000
DAY = 24 * HOUR
NOW = 100 * DAY
KEEP = 7 * DAY


@pytest.mark.parametrize(
    ("checkpoint", "goes"),
    [
        (OldCheckpoint("a", "it is active", NOW - 30 * DAY), False),
        (OldCheckpoint("a", None, NOW - 8 * DAY), True),
        (OldCheckpoint("a", None, NOW - 7 * DAY), False),
        (OldCheckpoint("a", None, None), False),
        (OldCheckpoint("a", None, None, is_cut=True), True),
        (OldCheckpoint("a", "it cannot be read", None, is_cut=True), False),
    ],
)
def test_one_goes_that_is_old_and_of_no_use(checkpoint: OldCheckpoint, *, goes: bool) -> None:
    assert judge_checkpoint(checkpoint, KEEP, NOW).goes is goes


@pytest.mark.parametrize(("ago", "is_due"), [(DAY, True), (DAY - 1, False), (-5000, False), (-2 * DAY, True)])
def test_a_compaction_is_due_by_its_time_also_after_a_clock_was_set_back(
    home: StreamHome, ago: int, *, is_due: bool
) -> None:
    COMPACTION_FILE.of(home).write(CompactionRecord(at=NOW - ago))
    assert judge_compaction(home, DAY, NOW).due is is_due


@pytest.fixture
def home(tmp_path: Path) -> StreamHome:
    """A stream whose fourth lineage is active. Each began 10 days after the one before."""
    home = StreamHome.of(tmp_path, "clicks")
    home.prepare()
    before: str | None = None
    for days_ago in (40, 30, 20, 10):
        lineage = make_lineage(home, None)
        if before is not None:
            ORIGIN_FILE.of(home, lineage).write(Origin("rescale", NOW - days_ago * DAY, before, 3))
        for batch in range(4):
            run_batch(home, lineage, batch, NOW - days_ago * DAY)
        activate_lineage(home, lineage, before)
        before = lineage
    return home


def run_batch(home: StreamHome, lineage: str, batch: int, at: int) -> None:
    for log in (offset_log(home.checkpoint(lineage)), commit_log(home.checkpoint(lineage))):
        opened(log).mkdir(exist_ok=True)
    about = {"batchWatermarkMs": 0, "batchTimestampMs": at, "conf": {}}
    opened(offset_log(home.checkpoint(lineage)) / str(batch)).write_text(
        f'v1\n{json.dumps(about)}\n{{"logOffset":1}}\n-'
    )
    opened(commit_log(home.checkpoint(lineage)) / str(batch)).write_text('v2\n{"nextBatchWatermarkMs":0}')
    BatchLog(home.lineage(lineage).batches).note_rows(batch, ["sessions"])


def judged(home: StreamHome) -> dict[str, bool]:
    return {verdict.id: verdict.goes for verdict in judge_checkpoints(home, KEEP, NOW)}


def chain(home: StreamHome) -> list[str]:
    parents = {name: origin.parent if origin else None for name, origin in origins_of(home).items()}
    found: list[str] = []
    while len(found) < len(parents):
        found += [name for name, parent in parents.items() if parent == (found[-1] if found else None)]
    return found


def test_the_active_one_and_the_one_before_stay(home: StreamHome) -> None:
    first, second, third, active = chain(home)
    assert judged(home) == {first: True, second: True, third: False, active: False}
    for lineage in (first, second):
        assert remove_checkpoint(home, lineage, KEEP, NOW) is None
    assert judged(home) == {third: False, active: False}
    assert set(origins_of(home)) == {first, second, third, active}
    assert way_back(home, active).lineage == third
    assert find_abandoned_lineages(home) == []


def test_one_whose_rows_a_seed_deleted_is_of_no_use_to_a_rollback(home: StreamHome) -> None:
    *_, before = chain(home)
    seeded = make_lineage(home, None)
    ORIGIN_FILE.of(home, seeded).write(Origin("seed", NOW, before))
    activate_lineage(home, seeded, before)
    reasons = {verdict.id: verdict.because for verdict in judge_checkpoints(home, KEEP, NOW)}
    assert "rollback" not in reasons[before]
    with pytest.raises(NoWayBack):
        way_back(home, seeded)


def test_one_that_became_needed_since_stays(home: StreamHome) -> None:
    _, second, third, _ = chain(home)
    activate_lineage(home, third, second)
    assert remove_checkpoint(home, second, KEEP, NOW) is not None
    assert opened(home.checkpoint(second)).exists()


def test_a_removal_that_was_killed_is_finished_and_no_rollback_takes_the_rest(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, second, third, _ = chain(home)

    def die(_: object) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patched:
        patched.setattr("sessionizer.state.compaction.plan.remove_tree", die)
        with pytest.raises(OSError, match="killed"):
            remove_checkpoint(home, second, KEEP, NOW)
    assert opened(offset_log(home.checkpoint(second))).exists()
    with pytest.raises(NoWayBack):
        way_back(home, third)
    assert judged(home)[second] is True
    assert remove_checkpoint(home, second, KEEP, NOW) is None
    assert not opened(home.lineage(second).root).exists()


def test_a_new_one_that_has_no_batch_yet_stays(home: StreamHome) -> None:
    new = make_lineage(home, None)
    assert judged(home)[new] is False
    for_nothing = StreamHome.of(home.platform, "never_ran")
    for_nothing.prepare()
    assert judge_checkpoints(for_nothing, KEEP, NOW) == []


def days_ago(**savepoints: int) -> list[NeededVersion]:
    return [NeededVersion(name, NOW - days * DAY) for name, days in savepoints.items()]


@pytest.mark.parametrize(
    ("keep", "needed", "hours", "short", "out_of_reach"),
    [
        (7 * DAY, days_ago(), 168, False, ()),
        (7 * DAY, days_ago(young=2), 168, False, ()),
        (7 * DAY, days_ago(old=12, young=2), 12 * 24 + 1, False, ()),
        (7 * DAY, days_ago(ancient=31, old=12), 12 * 24 + 1, False, ("ancient",)),
        (7 * DAY, days_ago(ancient=31), 168, False, ("ancient",)),
        (40 * DAY, days_ago(ancient=31), 40 * 24, False, ("ancient",)),
        (2 * DAY, days_ago(), 48, True, ()),
        (2 * DAY, days_ago(young=3), 73, True, ()),
        (2 * DAY, days_ago(old=12), 12 * 24 + 1, False, ()),
        (HOUR + 1, days_ago(), 2, True, ()),
    ],
)
def test_it_is_the_longer_of_the_two_within_the_log(
    *, keep: int, needed: list[NeededVersion], hours: int, short: bool, out_of_reach: tuple[str, ...]
) -> None:
    retention = decide_retention(keep, needed, NOW)
    assert (retention.hours, retention.is_short, retention.out_of_reach) == (hours, short, out_of_reach)


def test_what_is_made_just_now_counts_and_what_is_of_no_use_does_not(tmp_path: Path) -> None:
    folder = StreamHome.of(tmp_path, "clicks").savepoints
    fabricate(folder, "complete")
    begin(folder, "being-made")
    damaged = fabricate(folder, "damaged")
    opened(damaged.manifest).write_text("{")
    opened(damaged.begun).unlink()
    assert [each.id for each in find_needed_versions(list_savepoints(folder, epoch_ms()))] == ["complete", "being-made"]
