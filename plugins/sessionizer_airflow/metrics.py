"""Metrics of a stream (docs/metrics.md), sent to the backend of Airflow's own metrics, with the stream as a label."""

from typing import Final

from airflow.observability import stats as triggerer_stats
from airflow.sdk.observability import stats as worker_stats

from sessionizer.control.records.driver_records import GAUGES, HEARTBEAT_FILE, Heartbeat, Phase
from sessionizer.home.stream_home import StreamHome

PREFIX: Final = "sessionizer."
"""Begin of the name of a metric, to which Airflow adds its own prefix."""
COUNTERS: Final = ("restarts", "waits", "given_up")


def labels(stream: str, beat: Heartbeat | None) -> dict[str, str]:
    """Return the labels of a metric: the stream and, if its driver has told it, the lineage."""
    return {"stream": stream} | ({"lineage": beat.lineage} if beat and beat.lineage else {})


def gauges(beat: Heartbeat) -> dict[str, float]:
    """Return the gauges for which a heartbeat has a value, by their full names."""
    values = {name: getattr(beat, field) for name, field in GAUGES.items()}
    if beat.phase is Phase.IDLE and values["rows_per_second"] is not None:
        # The figures of the last batch stay in the heartbeat, but an idle stream handles no rows.
        values["rows_per_second"] = 0.0
    return {  # Prometheus counts in seconds
        f"{PREFIX}{name}": round(value * (0.001 if name.endswith("_seconds") else 1), 3)
        for name, value in values.items()
        if value is not None
    }


def send_gauges(stream: str, beat: Heartbeat) -> None:
    """Send the gauges of a heartbeat from the triggerer. Does nothing unless Airflow's metrics are on."""
    for name, value in gauges(beat).items():
        triggerer_stats.gauge(name, value, tags=labels(stream, beat))


def send_health(stream: str, severity: int, now: float) -> None:
    """Send the health of a stream from the triggerer, 0 (healthy) to 4 (down), and ``now`` (epoch seconds).

    Both have no lineage, because a stream without a driver has a health, too. A backend may repeat a gauge after its
    sender is gone, so the time tells whether a supervisor still watches.
    """
    for name, value in (("health", severity), ("health_timestamp_seconds", now)):
        triggerer_stats.gauge(f"{PREFIX}{name}", value, tags=labels(stream, None))


def count(home: StreamHome, name: str) -> None:
    """Count one more for the stream of ``home``, from a worker. ``name`` is one of ``COUNTERS``."""
    # Airflow has two instances of one module: a worker sets up the SDK's, the triggerer the core's.
    worker_stats.incr(f"{PREFIX}{name}_total", tags=labels(home.name, HEARTBEAT_FILE.of(home).read()))
