"""Time for which old files of the tables stay: as the spec says, or as long as a savepoint needs them."""

from pathlib import Path

import pytest

from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.state.compaction.plan import NeededVersion, decide_retention, find_needed_versions
from sessionizer.state.savepoints.listing import list_savepoints
from support.checkpoints.fabricated_checkpoints import begin, fabricate
from support.places import opened

HOUR = 3_600_000
DAY = 24 * HOUR
NOW = 100 * DAY


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
