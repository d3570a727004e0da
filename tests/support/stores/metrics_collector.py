"""Servers that keep what is sent: metrics by OTLP, shown to Prometheus, and events of OpenLineage."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, TypeAlias

from jsonschema import Draft202012Validator, FormatChecker  # type: ignore[import-untyped]
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from support.places import REPOSITORY
from support.processes.ports import Answering, served

Arrived: TypeAlias = dict[tuple[str, frozenset[tuple[str, str]]], float]
"""Values by a metric's name and its labels."""

SENDER: Final = """
import json
import sys
from airflow.observability import stats
from airflow.observability.metrics.stats_utils import get_stats_factory
from opentelemetry import metrics
from sessionizer.control.records.driver_records import Heartbeat
from sessionizer_airflow.metrics import send_gauges, send_health

stats.initialize(factory=get_stats_factory(), export_legacy_names=True)
beat = Heartbeat.from_json(json.load(sys.stdin))
send_gauges("clicks", beat)
send_health("clicks", 3, beat.at / 1000)
metrics.get_meter_provider().force_flush()
"""
"""A program that sends a heartbeat from its standard input, as the triggerer does."""


def airflow_over_otlp(collector: str) -> dict[str, str]:
    return {
        "AIRFLOW__METRICS__OTEL_ON": "True",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_METRICS_EXPORTER": "otlp",
    }


@contextmanager
def metrics_collector() -> Iterator[tuple[str, Arrived]]:
    """Run a collector on this machine. Gives its address, and what has arrived."""
    got: Arrived = {}

    class Collect(Answering, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            for resource in ExportMetricsServiceRequest.FromString(self.body()).resource_metrics:
                for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                    for point in (*metric.gauge.data_points, *metric.sum.data_points):
                        labels = frozenset((each.key, each.value.string_value) for each in point.attributes)
                        got[metric.name, labels] = point.as_double or point.as_int
            self.answer(200)

        def do_GET(self) -> None:
            lines = [f"{_series(name, labels)} {value}\n" for (name, labels), value in list(got.items())]
            self.answer(200, "".join(lines).encode(), Content_Type="text/plain; version=0.0.4")

    with served(ThreadingHTTPServer(("127.0.0.1", 0), Collect)) as port:
        yield f"http://127.0.0.1:{port}", got


def board_queries(board: dict[str, Any]) -> list[str]:
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def _series(name: str, labels: frozenset[tuple[str, str]]) -> str:
    pairs = ",".join(f'{key}="{value}"' for key, value in sorted(labels))
    return f"{name.replace('.', '_')}{{{pairs}}}"


@dataclass
class LineageServer:
    """The address of a server, and the events that it got, in order."""

    url: str
    events: list[dict[str, Any]] = field(default_factory=list)

    def states(self, job: str) -> list[str]:
        return [event["eventType"] for event in self.events if event["job"]["name"] == job]

    def last(self, job: str) -> dict[str, Any]:
        return [event for event in self.events if event["job"]["name"] == job][-1]

    def complaints(self) -> list[str]:
        schema = json.loads((REPOSITORY / "tests" / "golden" / "openlineage.json").read_text())
        validator = Draft202012Validator(schema, format_checker=FormatChecker())
        return [f"{error.json_path}: {error.message}" for each in self.events for error in validator.iter_errors(each)]


@contextmanager
def lineage_server() -> Iterator[LineageServer]:
    class Take(Answering, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.events.append(json.loads(self.body()))
            self.answer(201)

    with served(ThreadingHTTPServer(("127.0.0.1", 0), Take)) as port:
        found = LineageServer(f"http://127.0.0.1:{port}")
        yield found
