"""Medians over repetitions, and ratios between contestants. Pure."""

from __future__ import annotations

from statistics import median
from typing import Any

Record = dict[str, Any]
"""One run: workload, contestant, repetition and what was measured."""


def of_workload(records: list[Record], workload: str) -> dict[str, list[Record]]:
    """The runs of each contestant, contestants in the order in which they first ran."""
    runs: dict[str, list[Record]] = {}
    for record in records:
        if record["workload"] == workload:
            runs.setdefault(record["contestant"], []).append(record)
    return runs


def typical(runs: list[Record], measure: str) -> float | None:
    """The median of a measure over the runs that have it."""
    values = [run[measure] for run in runs if run.get(measure) is not None]
    return median(values) if values else None


def spread(runs: list[Record], measure: str) -> tuple[float, float] | None:
    """The lowest and the highest value of a measure."""
    values = [run[measure] for run in runs if run.get(measure) is not None]
    return (min(values), max(values)) if values else None


def ratios(ours: list[Record], theirs: list[Record], measure: str) -> list[float]:
    """Ours to theirs, repetition by repetition: those ran one after the other, on the machine as it was then."""
    other = {run["repetition"]: run.get(measure) for run in theirs}
    pairs = [(run.get(measure), other.get(run["repetition"])) for run in ours]
    return [mine / yours for mine, yours in pairs if mine is not None and yours]


def ratio(records: list[Record], workload: str, measure: str, ours: str, theirs: str) -> float | None:
    """The median of those ratios; None when no repetition has both."""
    runs = of_workload(records, workload)
    found = ratios(runs.get(ours, []), runs.get(theirs, []), measure)
    return median(found) if found else None


def growth_ratio(records: list[Record], measure: str, contestant: str, small: str, large: str) -> float | None:
    """How much the measure grows from one workload to another, for one contestant."""
    before = of_workload(records, small).get(contestant, [])
    after = of_workload(records, large).get(contestant, [])
    found = ratios(after, before, measure)
    return median(found) if found else None
