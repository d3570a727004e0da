"""The DAG for all streams that notices waiting upgrades, and starts them in their windows. Wiring only."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, get_current_context

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
  difference. Streams with an open window take turns (`upgrades.wave`): one at a time, and none after a failure, unless
  `SESSIONIZER_UPGRADES_AT_ONCE` and `SESSIONIZER_UPGRADES_STOP_AFTER` say otherwise.
"""


def state_of_run(dag_id: str, run_id: str) -> str | None:
    """Return Airflow's state of a run: queued, running, success or failed. None if there is no such run."""
    task: Any = get_current_context()["ti"]
    states = ("queued", "running", "success", "failed")
    return next((each for each in states if task.get_dr_count(dag_id, run_ids=[run_id], states=[each])), None)


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
            look=partial(runs_to_begin, wiring.project, state_of=partial(state_of_run, f"{platform}.{Upgrade.name}")),
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
