"""The DAG of a stream that keeps its driver up. Wiring only, see ``sessionizer_airflow.operators.supervise_stream``."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG

from sessionizer.home.names import Verb
from sessionizer_airflow.alerting.overdue import watch_deadline
from sessionizer_airflow.dag_defaults import dag_options
from sessionizer_airflow.operators.supervise_stream import SuperviseStream

if TYPE_CHECKING:
    from sessionizer.stream_spec.document.stream import StreamSpec
    from sessionizer_airflow.dags.wiring import Wiring

DOCUMENTATION = """
Keeps the stream's driver running.

Each run is a bounded watch: it adopts the live driver or launches one, then follows its heartbeat without holding a
worker. The driver outlives runs, restarts and upgrades of Airflow.

- **Stop the stream**: run the DAG `{stream}.stop`, or mark the running task failed.
- **Start it**: run `{stream}.start`, and unpause this DAG if it is paused. A task marked failed pauses it too.
- **Clear the running task**: the driver stops at the next batch boundary, and another one is launched.
- **Pause this DAG**: the supervision ends, but *not* the stream. The driver keeps running without a watch.
- **A failed run** means that a restart cannot help. The task's log says why and what to do. This DAG has paused
  itself. Remove the cause, then unpause it.
"""

# Retries are for Airflow's own faults, such as a killed worker or an unreachable API server. They may last. A task that
# gave up meanwhile would pause the DAG, and the stream would have no watch. A fault that a retry cannot fix fails at
# once.
RETRIES: dict[str, Any] = {
    "retries": 240,
    "retry_delay": timedelta(seconds=5),
    "retry_exponential_backoff": 1.5,
    "max_retry_delay": timedelta(minutes=1),
}


def supervise_dag(spec: StreamSpec, wiring: Wiring) -> DAG:
    """Return the DAG that keeps the driver of ``spec`` up."""
    overdue_after = wiring.watch_lease + timedelta(milliseconds=wiring.supervision.watch_grace_ms)
    documentation = DOCUMENTATION.format(stream=spec.name)
    with DAG(
        **dag_options(spec, Verb.SUPERVISE, documentation, run_limit=wiring.watch_lease + timedelta(hours=1)),
        schedule="@continuous",
        max_consecutive_failed_dag_runs=1,
        # A user runs it by unpausing it. The ids of scheduled runs sort by date, by which past runs are recognised.
        allowed_run_types=["scheduled"],  # type: ignore[list-item]  # Airflow takes the name
        deadline=watch_deadline(spec.name, wiring.project.home, overdue_after),
    ) as dag:
        SuperviseStream(
            task_id="supervise",
            stream=spec.name,
            project=wiring.project,
            policy=wiring.supervision.policy,
            watch_lease_ms=wiring.supervision.watch_lease_ms,
            **RETRIES,
        )
    return dag
