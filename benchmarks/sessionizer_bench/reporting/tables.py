"""The tables of results, as markdown. Pure."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any, Final

from sessionizer_bench.reporting.figures import Record, ratios, spread, typical, workload_runs
from sessionizer_bench.reporting.targets import RATE, STARTUP, targets
from sessionizer_bench.workloads import LATENCY, OURS, PASS_THROUGH, SESSION_WINDOW

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MEGA: Final = 1_000_000
NOTHING: Final = "–"
_HEADINGS: Final = (
    "contestant", "events/s", "lowest – highest", "from cold", "ours is", "batch ms, mean", "median", "peak memory MB",
    "state MB", "checkpoint written MB", "load before → after", "others' CPU %", "steal %", "runs",
)  # fmt: skip


def document(results: dict[str, Any]) -> str:
    """Return the whole page of results."""
    records, machine = results["runs"], results["machine"]
    described = f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}"
    taken = f"Taken {results['taken_at']} at revision {results['revision']} on {described}; generated, do not edit."
    parts = ["# Benchmark results", taken, *earlier(records)]
    parts += ["A quick run: its figures mean nothing."] if results["quick"] else ["## Promises", promises(records)]
    for name, title in results["workloads"].items():
        if workload_runs(records, name):
            parts += [f"## {title}", race(records, name)]
    if workload_runs(records, STARTUP):
        parts += ["## Start of the driver", startup(records)]
    if workload_runs(records, LATENCY):
        parts += ["## From the end of a session to its row, 100 events/s", latency(records)]
    return "\n\n".join(parts) + "\n"


def earlier(records: list[Record]) -> list[str]:
    """Return a sentence for each revision of earlier runs: their first time, and workloads not run again since."""
    of_revision: dict[str, tuple[str, list[str]]] = {}
    for record in records:
        if "revision" in record:
            _, names = of_revision.setdefault(record["revision"], (record["taken_at"], []))
            names += [] if record["workload"] in names else [record["workload"]]
    return [f"Earlier, {at} at revision {which}: {', '.join(names)}." for which, (at, names) in of_revision.items()]


def promises(records: list[Record]) -> str:
    """Return the table of promises with the measured figures."""
    rows = []
    for target in targets():
        figure = target.measured(records)
        shown = NOTHING if figure is None else f"{figure:.2f} {target.unit}"
        verdict = "not measured" if figure is None else ("met" if target.met(figure) else "**missed**")
        rows.append((target.text, target.wanted, shown, verdict))
    return markdown(("promise", "wanted", "measured", ""), rows)


def race(records: list[Record], workload: str) -> str:
    """Return the table of a workload: medians over the repetitions, a row for each contestant."""
    runs = workload_runs(records, workload)
    return markdown(_HEADINGS, [_row(name, found, runs.get(OURS, [])) for name, found in runs.items()])


def _row(name: str, runs: list[Record], ours: list[Record]) -> list[str]:
    compared = ratios(ours, runs, RATE) if name != OURS else []
    return [
        name.replace("_", " "),
        _count(typical(runs, RATE)),
        _range(spread(runs, RATE)),
        _count(typical(runs, "events_per_second_from_cold")),
        f"{median(compared):.2f} × ({min(compared):.2f} – {max(compared):.2f})" if compared else NOTHING,
        _count(typical(runs, "batch_ms_mean")),
        _count(typical(runs, "batch_ms_median")),
        *(_count(typical(runs, measure), MEGA) for measure in _SIZES),
        f"{_tenths(typical(runs, 'load_before'))} → {_tenths(typical(runs, 'load_after'))}",
        _tenths(typical(runs, "others_percent")),
        _tenths(typical(runs, "steal_percent")),
        str(len(runs)),
    ]


_SIZES: Final = ("peak_memory_bytes", "state_bytes", "checkpoint_written_bytes")


def startup(records: list[Record]) -> str:
    """Return the table of starts of the real driver."""
    runs = workload_runs(records, STARTUP)[OURS]
    rows = [(str(run["start_to_first_batch_s"]), f"{run['load_before']} → {run['load_after']}") for run in runs]
    return markdown(("seconds from start to first committed batch", "load before → after"), rows)


def latency(records: list[Record]) -> str:
    """Return the table of runs over a live feed: ms from a session's end plus its gap to the commit with its row."""
    rows = [
        (
            name.replace("_", " "),
            *(_count(typical(runs, f"latency_ms_{which}")) for which in ("median", "p95")),
            *(_count(typical(runs, measure)) for measure in ("batch_ms_mean", "sessions")),
            f"{_tenths(typical(runs, 'load_before'))} → {_tenths(typical(runs, 'load_after'))}",
            str(len(runs)),
        )
        for name, runs in workload_runs(records, LATENCY).items()
    ]
    headings = (
        "contestant",
        "median ms",
        "95 % within ms",
        "batch ms, mean",
        "sessions",
        "load before → after",
        "runs",
    )
    return markdown(headings, rows)


def summary(records: list[Record], workload: str) -> str:
    """Return a line for the terminal with the rates of a workload so far."""
    runs = workload_runs(records, workload)
    rates = {name: typical(found, RATE) for name, found in runs.items()}
    named = [f"{name} {_count(rate)}" for name, rate in rates.items()]
    for peer in (PASS_THROUGH, SESSION_WINDOW):
        compared = ratios(runs.get(OURS, []), runs.get(peer, []), RATE)
        named += [f"ours/{peer} {median(compared):.2f}"] if compared else []
    return ", ".join(named)


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. All columns but the first are aligned to the right."""
    rule = ["---", *["---:"] * (len(headings) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (headings, rule, *rows))


def _count(value: float | None, unit: float = 1) -> str:
    return NOTHING if value is None else f"{value / unit:,.0f}"


def _tenths(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1f}"


def _range(values: tuple[float, float] | None) -> str:
    return NOTHING if values is None else f"{values[0]:,.0f} – {values[1]:,.0f}"
