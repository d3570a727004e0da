"""A backlog that is not in the order of time is told of by the first batches of a lineage."""

from pathlib import Path

import pytest

from sessionizer.lineage.active import Lineage
from sessionizer.lineage.batch_log import KEPT, BatchFacts, BatchFigures, BatchLog
from sessionizer.lineage.canary.judge import TOLD_FOR_MS, describe_late_backlog

BORN = 1_000
BEGUN = Lineage("20261125T203724-b28b91", BORN)


def batch(number: int, read: int, late: int) -> BatchFacts:
    counts = {"sessions": 0, "open_before": 0, "open_after": 0, "held_bytes": 0, "quarantined": 0}
    return BatchFacts(batch_id=number, read=read, admitted=read - late, late=late, **counts)


@pytest.mark.parametrize(
    ("read", "late", "told"), [(96, 69, True), (100, 10, False), (101, 11, True), (20, 9, False), (0, 0, False)]
)
def test_more_than_a_tenth_is_told(read: int, late: int, told: bool) -> None:
    line = describe_late_backlog(BEGUN, BatchFigures(batches=1, read=read, late=late), BORN)
    assert (line is not None) == told


def test_a_lineage_with_the_state_of_another_is_judged_by_its_canary() -> None:
    late = BatchFigures(batches=1, read=96, late=69)
    assert describe_late_backlog(Lineage("b", BORN, parent="a"), late, BORN) is None


def test_it_is_not_told_for_ever() -> None:
    late = BatchFigures(batches=1, read=96, late=69)
    assert describe_late_backlog(BEGUN, late, BORN + TOLD_FOR_MS) is not None
    assert describe_late_backlog(BEGUN, late, BORN + TOLD_FOR_MS + 1) is None


def test_the_first_batches_are_remembered(tmp_path: Path) -> None:
    file = tmp_path / "batches.json"
    log = BatchLog(file)
    for number in range(KEPT):
        log.add(batch(number, read=10, late=5))
    log.add(batch(KEPT - 1, read=10, late=5))  # a batch that runs again
    for number in range(KEPT, 2 * KEPT):
        log.add(batch(number, read=1_000, late=0))
    for kept in (log, BatchLog(file)):
        assert (kept.first.read, kept.first.late) == (10 * KEPT, 5 * KEPT)
    assert log.life.read == 10 * KEPT + 1_000 * KEPT


def test_of_an_earlier_release_nothing_is_known_of_the_first(tmp_path: Path) -> None:
    file = tmp_path / "batches.json"
    file.write_text('{"format": 1, "earlier": {"batches": 3, "read": 9, "late": 9, "open_before": 0}, "batches": []}')
    log = BatchLog(file)
    log.add(batch(30, read=100, late=50))
    assert log.first == BatchFigures()
