"""The DAG for all streams that notices waiting upgrades, and starts them in their windows. Wiring only."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG

from sessionizer.state.commands.upgrade import Upgrade
from sessionizer_airflow.dag_defaults import platform_dag_options
from sessionizer_airflow.operators.streams_task import StreamsTask
from sessionizer_airflow.operators.waiting_upgrades import runs_to_begin

if TYPE_CHECKING:
    from sessionizer_airflow.dags.wiring import Wiring

DOCUMENTATION = """
Notices that a spec was edited or a release installed, and starts upgrades in the maintenance windows of the specs.

Runs every five minutes. It changes no stream itself.

- **`find_waiting`** compares each stream with its file and the installed programs. It says a line for each difference
  that waits, and the notifier gets each one once.
- **`begin`** starts a run of `{platform}.upgrade` for each stream whose window (`upgrades.window`) is open. The policy
  of the spec (`upgrades.policy`) says whether a user approves the plan. There is one such run for each window and
  difference.
"""


def maintenance_dag(wiring: Wiring, platform: str) -> DAG:
    """Return the DAG of ``platform``."""
    documentation = DOCUMENTATION.format(platform=platform)
    with DAG(
        **platform_dag_options("maintenance", documentation, run_limit=timedelta(minutes=30), platform=platform),
        schedule=timedelta(minutes=5),
        # Not paused on creation, because it only tells and asks, unless a spec says more.
        is_paused_upon_creation=False,
    ) as dag:
        waiting = StreamsTask(
            task_id="find_waiting",
            look=lambda *told: runs_to_begin(wiring.project, *told),
            retries=1,
            retry_delay=timedelta(seconds=10),
        )
        TriggerDagRunOperator.partial(
            task_id="begin",
            trigger_dag_id=f"{platform}.{Upgrade.name}",
            logical_date=None,
            # Its id names the window and the difference, so each is asked about once.
            skip_when_already_exists=True,
            map_index_template="{{ task.conf['stream'] }}",
            retries=1,
            retry_delay=timedelta(seconds=10),
        ).expand_kwargs(waiting.output)
    return dag
