"""Metrics of a heartbeat (docs/metrics.md), sent to the backend of Airflow's own metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.observability import stats as triggerer_stats
from airflow.sdk.observability import stats as worker_stats

from sessionizer.control.records.heartbeat import Phase

if TYPE_CHECKING:
    from sessionizer.control.records.heartbeat import Heartbeat

PREFIX = "sessionizer"
OF_HEARTBEAT = {
    "batch_time_ms": "batch_ms",
    "rows_per_second": "rows_per_second",
    "source_lag": "source_lag",
    "watermark_lag_ms": "watermark_lag_ms",
    "state_rows": "state_rows",
    "state_bytes": "state_bytes",
    "open_keys": "open_keys",
    "sessions": "sessions_rows",
    "late": "late",
    "quarantined": "quarantined",
}
"""Field of the heartbeat that each gauge shows, by the gauge's name."""

COUNTERS = ("restarts", "waits", "given_up")


def gauges(stream: str, beat: Heartbeat) -> dict[str, float]:
    """Return the gauges for which a heartbeat has a value, by their full names."""
    values = {name: getattr(beat, field) for name, field in OF_HEARTBEAT.items()}
    if beat.phase is Phase.IDLE and values["rows_per_second"] is not None:
        # The figures of the last batch stay in the heartbeat, but an idle stream handles no rows.
        values["rows_per_second"] = 0.0
    return {full_name(stream, name): value for name, value in values.items() if value is not None}


def full_name(stream: str, name: str) -> str:
    """Return the name of a metric with the stream in it, as Airflow's own metrics have DAGs and tasks."""
    return f"{PREFIX}.{stream}.{name}"


def send_gauges(stream: str, beat: Heartbeat) -> None:
    """Send the gauges of a heartbeat from the triggerer. Does nothing unless Airflow's metrics are on."""
    for name, value in gauges(stream, beat).items():
        triggerer_stats.gauge(name, value)


def send_health(stream: str, severity: int) -> None:
    """Send the health of a stream from the triggerer: 0 (healthy) to 4 (down), as in ``status --json``."""
    triggerer_stats.gauge(full_name(stream, "health"), severity)


def count(stream: str, name: str) -> None:
    """Count one more, from a worker. ``name`` is one of ``COUNTERS``."""
    # Airflow has two instances of one module: a worker sets up the SDK's, the triggerer the core's.
    worker_stats.incr(full_name(stream, name))
