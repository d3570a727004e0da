"""Times of a batch's stages, from Spark's own event log. Pure except for reading the file."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

BATCH: Final = "streaming.sql.batchId"
_RUN, _CPU, _GC = "internal.metrics.executorRunTime", "internal.metrics.executorCpuTime", "internal.metrics.jvmGCTime"


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a batch. ``began`` and ``ended`` are in epoch ms, the other times are ms summed over tasks."""

    batch: int
    name: str
    tasks: int
    began: int
    ended: int
    run_ms: float
    cpu_ms: float
    gc_ms: float
    metrics: dict[str, float]

    @property
    def wall_ms(self) -> int:
        """Time (ms) from its submission to its end."""
        return self.ended - self.began


def settings(folder: Path) -> dict[str, str]:
    """Return the settings with which Spark writes an event log into ``folder``, which must exist."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{folder}",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }


def stages_in(folder: Path) -> list[Stage]:
    """Return the stages of the only log in ``folder``."""
    (log,) = folder.iterdir()
    with log.open() as lines:
        return list(stages(json.loads(line) for line in lines))


def stages(events: Iterable[dict[str, Any]]) -> Iterator[Stage]:
    """Yield the stages that belong to a batch, in the order in which they ended."""
    batch_of: dict[int, int] = {}
    for event in events:
        if event["Event"] == "SparkListenerJobStart":
            batch = (event.get("Properties") or {}).get(BATCH)
            if batch is not None:
                batch_of |= dict.fromkeys(event["Stage IDs"], int(batch))
        elif event["Event"] == "SparkListenerStageCompleted":
            info = event["Stage Info"]
            if info["Stage ID"] in batch_of and "Completion Time" in info:
                yield _stage(info, batch_of[info["Stage ID"]])


def _stage(info: dict[str, Any], batch: int) -> Stage:
    sums: dict[str, float] = defaultdict(float)
    for metric in info["Accumulables"]:
        sums[metric["Name"]] += _number(metric.get("Value"))
    return Stage(
        batch=batch,
        name=info["Stage Name"].split(" at ")[0],
        tasks=info["Number of Tasks"],
        began=info["Submission Time"],
        ended=info["Completion Time"],
        run_ms=sums[_RUN],
        cpu_ms=sums[_CPU] / 1e6,
        gc_ms=sums[_GC],
        metrics={name: value for name, value in sums.items() if not name.startswith("internal.") and value},
    )


def _number(value: object) -> float:
    """Return a metric, which Spark gives as a number or as text, or 0 for a text that is a list."""
    try:
        return float(str(value))
    except ValueError:
        return 0.0
