"""Where Airflow's OpenTelemetry is on, our metrics go with its own: to a collector, as OTLP over HTTP."""

from __future__ import annotations

import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = """
from airflow.observability import stats
from airflow.observability.metrics.stats_utils import get_stats_factory
from opentelemetry import metrics
from sessionizer.control.records.heartbeat import Heartbeat, Phase
from sessionizer_airflow.metrics import send_gauges

stats.initialize(factory=get_stats_factory(), export_legacy_names=True)
send_gauges("clicks", Heartbeat(uid="a", at=1, started_at=1, phase=Phase.RUNNING, batch_ms=560, state_bytes=4096))
metrics.get_meter_provider().force_flush()
"""


@pytest.fixture
def collector() -> Iterator[tuple[HTTPServer, dict[str, float]]]:
    got: dict[str, float] = {}

    class Collect(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                    for point in metric.gauge.data_points:
                        got[metric.name] = point.as_double or point.as_int
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Collect) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server, got
        server.shutdown()
        thread.join()


def test_gauges_arrive_at_a_collector(collector: tuple[HTTPServer, dict[str, float]]) -> None:
    server, got = collector
    settings = {
        "AIRFLOW__METRICS__OTEL_ON": "True",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_METRICS_EXPORTER": "otlp",
    }
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | settings, check=False, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    ours = {name: value for name, value in got.items() if "sessionizer" in name}
    assert ours == {
        "airflow.sessionizer.clicks.batch_time_ms": 560,
        "airflow.sessionizer.clicks.state_bytes": 4096,
    }, ended.stderr
