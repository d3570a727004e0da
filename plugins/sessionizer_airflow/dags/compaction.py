"""The DAG for all streams that compacts the tables of those whose specs ask for it. Wiring only."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG

from sessionizer_airflow.dag_defaults import platform_dag_options
from sessionizer_airflow.operators.scheduled_compactions import CompactTables, streams_due_for_compaction
from sessionizer_airflow.operators.streams_task import StreamsTask

if TYPE_CHECKING:
    from sessionizer_airflow.dags.wiring import Wiring

DOCUMENTATION = """
Keeps the tables small of the streams whose spec asks for it (`compaction.every`), beside the running streams.

Runs every hour, if a spec asks for compactions. It has nothing to do with `{platform}.maintenance`, which begins
upgrades.

- **`find_due`** says of each such stream whether a compaction is due, and why. None is due while a command works on
  the stream.
- **`compact`** is one Spark job per due stream, listed under its name. It merges small files, and deletes old files,
  checkpoints of earlier lineages and expired scheduled savepoints. If one fails, the others still run, and it is tried
  again an hour later.
"""


def compaction_dag(wiring: Wiring, platform: str) -> DAG:
    """Return the DAG of ``platform``. It has a schedule only if a spec asks for compactions."""
    project = wiring.project
    is_asked = any(spec.compaction.every_ms is not None for spec in wiring.specs)
    documentation = DOCUMENTATION.format(platform=platform)
    with DAG(
        **platform_dag_options("compaction", documentation, run_limit=timedelta(hours=12), platform=platform),
        schedule=timedelta(hours=1) if is_asked else None,
        # Not paused on creation, because a spec asks for the compactions.
        is_paused_upon_creation=False,
    ) as dag:
        due = StreamsTask(
            task_id="find_due",
            look=lambda say, _: streams_due_for_compaction(project, say),
            retries=1,
            retry_delay=timedelta(seconds=10),
        )
        CompactTables.partial(
            task_id="compact",
            map_index_template="{{ task.stream }}",
            project=project,
            pool=wiring.pool,
            execution_timeout=timedelta(hours=6),
            retries=1,
            retry_delay=timedelta(minutes=5),
        ).expand_kwargs(due.output)
    return dag
