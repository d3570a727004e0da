"""The plot of the results: rates, batch times over the stream, batch times over the number of open sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

from sessionizer_bench.reporting.figures import Record, spread, typical, workload_runs
from sessionizer_bench.reporting.targets import RATE
from sessionizer_bench.workloads import CONTESTANTS, LARGE, OURS, SESSION_WINDOW, SMALL

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

COLOURS: Final = dict(
    zip(
        CONTESTANTS,
        ("#1b6ca8", "#e07b39", "#a83b6c", "#d99ab8", "#8a8a8a", "#5a9367", "#8fbbe0", "#c9b458"),
        strict=True,
    )
)


def draw(records: list[Record], file: Path) -> None:
    """Draw the workloads that have records."""
    figure, panels = plt.subplots(1, 4, figsize=(18, 4.5), layout="constrained")
    _rates(panels[0], records, LARGE.name, "200 k-event batches")
    _rates(panels[1], records, SMALL.name, "40 k-event batches, 1 M open sessions")
    _batch_times(panels[2], records, SMALL.name)
    _growth(panels[3], records)
    figure.savefig(file, dpi=110, metadata={"Software": None})
    plt.close(figure)


def _rates(panel: Axes, records: list[Record], workload: str, title: str) -> None:
    runs = workload_runs(records, workload)
    for name, found in runs.items():
        rate, ends = typical(found, RATE), spread(found, RATE)
        if rate is not None and ends is not None:
            below, above = (rate - ends[0]) / 1000, (ends[1] - rate) / 1000
            panel.bar(name.replace("_", "\n"), rate / 1000, color=COLOURS[name], yerr=[[below], [above]])
    panel.set(title=title, ylabel="thousand events per second")


def _batch_times(panel: Axes, records: list[Record], workload: str) -> None:
    for name, found in workload_runs(records, workload).items():
        panel.plot([took / 1000 for took in found[0]["batch_ms"]], label=name, color=COLOURS[name])
    panel.set(title="batch by batch (40 k events, 1 M open)", xlabel="batch", ylabel="seconds", ylim=(0, None))
    panel.legend()


def _growth(panel: Axes, records: list[Record]) -> None:
    for name in (OURS, SESSION_WINDOW):
        if points := sorted(growth_points(records, name)):
            sessions, took = ([value / 1000 for value in values] for values in zip(*points, strict=True))
            panel.plot(sessions, took, "o-", label=name, color=COLOURS[name])
    panel.set(title="the same batches over more open sessions", ylim=(0, None))
    panel.set(xlabel="thousand sessions that stay open", ylabel="mean batch, seconds")
    if panel.lines:
        panel.legend()


def growth_points(records: list[Record], contestant: str) -> list[tuple[int, float]]:
    """Return points of the number of sessions that stay open and the mean batch time (ms) over them."""
    points = []
    for workload in {record["workload"] for record in records}:
        if workload.startswith("growth-"):
            took = typical(workload_runs(records, workload).get(contestant, []), "batch_ms_mean")
            points += [(int(workload.removeprefix("growth-").removesuffix("k")) * 1000, took)] if took else []
    return points
