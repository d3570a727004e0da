"""A breakdown of the time of a contestant's batches: phases of the trigger, steps of foreachBatch, stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sessionizer_bench.reporting.tables import markdown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessionizer_bench.measuring.event_log import Stage

_PHASES: Final = ("latestOffset", "walCommit", "getBatch", "queryPlanning", "addBatch", "commitOffsets")


def last_batch(record: dict[str, Any]) -> int:
    """Return the id of the last batch with events. For our query it is the last that also wrote rows."""
    diary = record["diary"] or {}
    with_events = [batch["id"] for batch in record["batches"] if batch["rows"]]
    wrote = [number for number in with_events if diary.get(str(number), {}).get("write_ms")]
    return int((wrote or with_events)[-1])


def format_batches(record: dict[str, Any]) -> str:
    """Return a table with a row for each batch, in ms."""
    diary = record["diary"] or {}
    headings = ("batch", "events", "whole", *_PHASES, "evaluate", "writes", "open sessions")
    return markdown(headings, [_batch_row(batch, diary.get(str(batch["id"]), {})) for batch in record["batches"]])


def _batch_row(batch: dict[str, Any], notes: dict[str, Any]) -> list[str]:
    durations = batch["durations_ms"]
    writes = ", ".join(f"{table} {took}" for table, took in notes.get("write_ms", {}).items())
    cells = [batch["id"], batch["rows"], durations["triggerExecution"], *(durations.get(name, 0) for name in _PHASES)]
    return [*map(str, cells), str(notes.get("evaluate_ms", "")), writes, str(notes.get("open_sessions", ""))]


def timeline(record: dict[str, Any], stages: list[Stage], batch_id: int) -> str:
    """Return a table of a batch's stages with their times, in ms from its start.

    The driver works in the gaps: planning, logs, commits.
    """
    batch = next(batch for batch in record["batches"] if batch["id"] == batch_id)
    headings = ("from", "to", "wall", "gap before", "tasks", "task time", "JVM CPU", "GC", "Python", "stage")
    inside = sorted((stage for stage in stages if stage.batch == batch_id), key=lambda stage: stage.began)
    return markdown(headings, _stage_rows(inside, batch["started_ms"], batch["ended_ms"]))


def _stage_rows(stages: list[Stage], began: int, ended: int) -> Iterator[list[str]]:
    last = began
    for stage in stages:
        python = stage.metrics.get("time to execute Python code", stage.metrics.get("time to run Python workers", 0))
        times = (stage.began - began, stage.ended - began, stage.wall_ms, max(stage.began - last, 0))
        sums = (stage.tasks, stage.run_ms, stage.cpu_ms, stage.gc_ms, python)
        yield [*(f"{value:.0f}" for value in (*times, *sums)), stage.name]
        last = max(last, stage.ended)
    yield [str(last - began), str(ended - began), "", str(ended - last), *[""] * 5, "end of the batch"]


def metrics(stages: list[Stage], batch_id: int) -> str:
    """Return Spark's own metrics of the batch's stages."""
    lines = []
    for stage in stages:
        if stage.batch == batch_id and stage.metrics:
            shown = ", ".join(f"{name} {value:,.0f}" for name, value in sorted(stage.metrics.items()))
            lines.append(f"- {stage.name}: {shown}")
    return "\n".join(lines)
