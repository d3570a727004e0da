"""A plan says how long the stream is expected to be down, and where the number comes from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sessionizer.control.records.operation_record import Ending, OperationRecord
from sessionizer.state.downtime import BASE_S, BYTES_PER_S, estimate_downtime, seconds_down
from support.verbs.begun_restore import begun_restore


def done(operation: str, verb: str, seconds: str) -> OperationRecord:
    return replace(begun_restore(operation), verb=verb, seconds=seconds, outcome=Ending.DONE)


RESTORE = done("20261123T080000-aaaaaa", "restore", "stopped 300.0, seeded 8.5, taken_back 3.5, activated 1.0")
RESCALE = done("20261124T080000-bbbbbb", "rescale", "stopped 2.0, activated 40.0")


def test_the_wait_for_the_driver_is_no_downtime() -> None:
    assert seconds_down(RESTORE) == pytest.approx(13.0)


@pytest.mark.parametrize(
    ("verb", "operations", "seconds", "named"),
    [
        ("restore", [RESTORE, RESCALE], 13.0, RESTORE.id),
        ("switch", [RESTORE, RESCALE], 40.0, RESCALE.id),
        ("restore", [], BASE_S + 100_000_000 / BYTES_PER_S, "100 MB"),
        ("restore", [replace(RESTORE, outcome=Ending.ABANDONED)], BASE_S + 100_000_000 / BYTES_PER_S, "guess"),
    ],
)
def test_measured_by_the_same_verb_else_any_else_guessed(
    verb: str, operations: list[OperationRecord], seconds: float, named: str
) -> None:
    found = estimate_downtime(verb, operations, 100_000_000)
    assert found.seconds == pytest.approx(seconds)
    assert named in found.basis
    assert named in found.line()
