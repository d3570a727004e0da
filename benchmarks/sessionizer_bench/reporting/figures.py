"""Medians over repetitions, and ratios between contestants. Pure."""

from __future__ import annotations

from statistics import median
from typing import Any

Record = dict[str, Any]
"""A run: workload, contestant, repetition and the measures."""


def workload_runs(records: list[Record], workload: str) -> dict[str, list[Record]]:
    """Return the runs by contestant, in the order in which contestants first ran."""
    runs: dict[str, list[Record]] = {}
    for record in records:
        if record["workload"] == workload:
            runs.setdefault(record["contestant"], []).append(record)
    return runs


def typical(runs: list[Record], measure: str) -> float | None:
    """Return the median of a measure over the runs that have it, or None if no run has it."""
    values = [run[measure] for run in runs if run.get(measure) is not None]
    return median(values) if values else None


def spread(runs: list[Record], measure: str) -> tuple[float, float] | None:
    """Return the lowest and the highest value of a measure, or None if no run has it."""
    values = [run[measure] for run in runs if run.get(measure) is not None]
    return (min(values), max(values)) if values else None


def ratios(ours: list[Record], theirs: list[Record], measure: str) -> list[float]:
    """Return the ratios of our measure to theirs, repetition by repetition.

    Both ran one after the other in a repetition, and so on a machine in the same condition.
    """
    other = {run["repetition"]: run.get(measure) for run in theirs}
    pairs = [(run.get(measure), other.get(run["repetition"])) for run in ours]
    return [mine / yours for mine, yours in pairs if mine is not None and yours]


def ratio(records: list[Record], workload: str, measure: str, ours: str, theirs: str) -> float | None:
    """Return the median of the ``ratios`` of two contestants, or None if no repetition has both."""
    runs = workload_runs(records, workload)
    found = ratios(runs.get(ours, []), runs.get(theirs, []), measure)
    return median(found) if found else None


def growth_ratio(records: list[Record], measure: str, contestant: str, small: str, large: str) -> float | None:
    """Return the growth of a contestant's measure from workload ``small`` to ``large``, as a median ratio."""
    before = workload_runs(records, small).get(contestant, [])
    after = workload_runs(records, large).get(contestant, [])
    found = ratios(after, before, measure)
    return median(found) if found else None
