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

from sessionizer.control.records.heartbeat import Heartbeat, Phase
from sessionizer_airflow.metrics import COUNTERS, OF_HEARTBEAT, count, full_name, gauges, send_gauges
from support.places import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENTATION = REPOSITORY / "docs" / "metrics.md"
BEAT = Heartbeat(
    uid="a",
    at=1,
    started_at=1,
    phase=Phase.RUNNING,
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
    assert gauges("clicks", BEAT) == {
        "sessionizer.clicks.batch_time_ms": 560,
        "sessionizer.clicks.rows_per_second": 1234.5,
        "sessionizer.clicks.source_lag": 9,
        "sessionizer.clicks.watermark_lag_ms": 12_000,
        "sessionizer.clicks.state_rows": 70,
        "sessionizer.clicks.state_bytes": 4096,
        "sessionizer.clicks.open_keys": 17,
        "sessionizer.clicks.sessions": 5,
        "sessionizer.clicks.late": 2,
        "sessionizer.clicks.quarantined": 0,
    }


def test_what_a_heartbeat_does_not_know_is_not_sent() -> None:
    assert gauges("clicks", Heartbeat(uid="a", at=1, started_at=1, phase=Phase.STARTING)) == {}


def test_an_idle_stream_handles_nothing() -> None:
    idle = Heartbeat(uid="a", at=1, started_at=1, phase=Phase.IDLE, rows_per_second=1234.5, open_keys=17)
    assert gauges("clicks", idle) == {"sessionizer.clicks.rows_per_second": 0.0, "sessionizer.clicks.open_keys": 17}


@pytest.mark.parametrize("name", [*OF_HEARTBEAT, *COUNTERS])
def test_the_documentation_has_it(name: str) -> None:
    assert f"| `{name}` |" in DOCUMENTATION.read_text()


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A StatsD server's socket, to which Airflow is told to send."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(10)
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
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


def test_gauges_arrive(listener: socket.socket) -> None:
    send_gauges("clicks", BEAT)
    expected = gauges("clicks", BEAT)
    assert received(listener, len(expected)) == {f"airflow.{name}:{value}|g" for name, value in expected.items()}


def test_counters_arrive(listener: socket.socket) -> None:
    for name in COUNTERS:
        count("clicks", name)
    assert received(listener, len(COUNTERS)) == {f"airflow.{full_name('clicks', name)}:1|c" for name in COUNTERS}
