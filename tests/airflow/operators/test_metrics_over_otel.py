"""Where Airflow's OpenTelemetry is on, our metrics go with its own: to a collector, as OTLP over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from sessionizer.control.records.driver_records import Heartbeat, Phase
from support.stores.metrics_collector import SENDER, airflow_over_otlp, metrics_collector

BEAT = Heartbeat(
    uid="a", at=1500, started_at=1, phase=Phase.RUNNING, lineage="one", batch_ms=560, state_bytes=4096, sessions_rows=7
)


def test_gauges_arrive_at_a_collector_with_their_labels() -> None:
    with metrics_collector() as (url, got):
        ended = subprocess.run(
            [sys.executable, "-c", SENDER],
            env=os.environ | airflow_over_otlp(url),
            input=json.dumps(BEAT.to_json()),
            check=False,
            capture_output=True,
            text=True,
        )
        assert ended.returncode == 0, ended.stderr
    of_lineage, of_stream = frozenset({("stream", "clicks"), ("lineage", "one")}), frozenset({("stream", "clicks")})
    assert {key: value for key, value in got.items() if "sessionizer" in key[0]} == {
        ("airflow.sessionizer.heartbeat_timestamp_seconds", of_lineage): 1.5,
        ("airflow.sessionizer.batch_duration_seconds", of_lineage): 0.56,
        ("airflow.sessionizer.state_bytes", of_lineage): 4096,
        ("airflow.sessionizer.sessions_total", of_lineage): 7,
        ("airflow.sessionizer.health", of_stream): 3,
        ("airflow.sessionizer.health_timestamp_seconds", of_stream): 1.5,
    }, ended.stderr
