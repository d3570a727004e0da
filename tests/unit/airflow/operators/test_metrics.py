"""Heartbeats as metrics: the mapping, the documentation, and datagrams at a listener that speaks StatsD."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
from airflow._shared.observability.metrics import stats as core_metrics
from airflow.observability import stats as of_the_triggerer
from airflow.observability.metrics import stats_utils as utils_of_the_triggerer
from airflow.sdk._shared.observability.metrics import stats as sdk_metrics
from airflow.sdk.observability import stats as of_a_worker
from airflow.sdk.observability.metrics import stats_utils as utils_of_a_worker

from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Heartbeat, Phase
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.metrics import COUNTERS, OF_HEARTBEAT, count, gauges, labels, send_gauges
from support.places import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DOCUMENTATION = REPOSITORY / "docs" / "metrics.md"
LINEAGE = "20261121T105501-3fa9c2"
BEAT = Heartbeat(
    uid="a",
    at=1_790_000_000_123,
    started_at=1,
    phase=Phase.RUNNING,
    lineage=LINEAGE,
    batch_id=3,
    batch_ms=560,
    rows_per_second=1234.5,
    watermark_lag_ms=12_000,
    source_lag=9,
    state_rows=70,
    state_bytes=4096,
    open_keys=17,
    sessions_rows=5,
    late=2,
    quarantined=0,
)


def test_every_gauge_of_a_full_heartbeat() -> None:
    assert gauges(BEAT) == {
        "sessionizer.heartbeat_timestamp_seconds": 1_790_000_000.123,
        "sessionizer.batch_duration_seconds": 0.56,
        "sessionizer.rows_per_second": 1234.5,
        "sessionizer.source_lag_events": 9,
        "sessionizer.watermark_lag_seconds": 12,
        "sessionizer.state_rows": 70,
        "sessionizer.state_bytes": 4096,
        "sessionizer.open_sessions": 17,
        "sessionizer.sessions_total": 5,
        "sessionizer.late_events_total": 2,
        "sessionizer.quarantined_rows_total": 0,
    }


def test_what_a_heartbeat_does_not_know_is_not_sent() -> None:
    starting = Heartbeat(uid="a", at=1000, started_at=1, phase=Phase.STARTING)
    assert gauges(starting) == {"sessionizer.heartbeat_timestamp_seconds": 1}
    assert labels("clicks", starting) == {"stream": "clicks"}


def test_an_idle_stream_handles_nothing() -> None:
    idle = Heartbeat(uid="a", at=1000, started_at=1, phase=Phase.IDLE, rows_per_second=1234.5, open_keys=17)
    assert gauges(idle) == {
        "sessionizer.heartbeat_timestamp_seconds": 1,
        "sessionizer.rows_per_second": 0.0,
        "sessionizer.open_sessions": 17,
    }


@pytest.mark.parametrize(
    "name", ["health", "health_timestamp_seconds", *OF_HEARTBEAT, *(f"{name}_total" for name in COUNTERS)]
)
def test_the_documentation_has_it(name: str) -> None:
    assert f"| `{name}` |" in DOCUMENTATION.read_text()


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A StatsD server's socket, to which Airflow is told to send."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(10)
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED", "True")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_HOST", "127.0.0.1")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_PORT", str(server.getsockname()[1]))
        of_the_triggerer.initialize(factory=utils_of_the_triggerer.get_stats_factory(), export_legacy_names=True)
        of_a_worker.initialize(factory=utils_of_a_worker.get_stats_factory(), export_legacy_names=True)
        yield server
        for module in (core_metrics, sdk_metrics):
            module._get_backend().statsd.close()  # Airflow leaves that to the process's end
        monkeypatch.undo()
        of_the_triggerer.initialize(factory=utils_of_the_triggerer.get_stats_factory(), export_legacy_names=True)
        of_a_worker.initialize(factory=utils_of_a_worker.get_stats_factory(), export_legacy_names=True)


def received(listener: socket.socket, number: int) -> set[str]:
    return {listener.recv(2048).decode() for _ in range(number)}


def test_gauges_arrive_with_their_labels(listener: socket.socket) -> None:
    send_gauges("clicks", BEAT)
    expected = gauges(BEAT)
    assert received(listener, len(expected)) == {
        f"airflow.{name},stream=clicks,lineage={LINEAGE}:{value}|g" for name, value in expected.items()
    }


def test_counters_arrive_with_the_lineage_of_the_newest_driver(listener: socket.socket, tmp_path: Path) -> None:
    home = StreamHome.of(tmp_path, "clicks")
    home.prepare()
    count(home, COUNTERS[0])
    assert received(listener, 1) == {f"airflow.sessionizer.{COUNTERS[0]}_total,stream=clicks:1|c"}
    HEARTBEAT_FILE.of(home).write(BEAT)
    for name in COUNTERS:
        count(home, name)
    assert received(listener, len(COUNTERS)) == {
        f"airflow.sessionizer.{name}_total,stream=clicks,lineage={LINEAGE}:1|c" for name in COUNTERS
    }
