"""The DAGs for all streams: compactions, waiting upgrades, orphans, scheduled savepoints, erasures. Wiring only."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, Param, get_current_context

from sessionizer.home.clock import MINUTE
from sessionizer.state.commands.upgrades import Upgrade
from sessionizer_airflow.dags.operate import SOON, job_options
from sessionizer_airflow.errors import say_what_to_do
from sessionizer_airflow.operating.approval import ApproveUpgrades, list_upgrades
from sessionizer_airflow.operating.erasures import ApproveErasures, ErasureSettings, forms_of_erasures
from sessionizer_airflow.operating.jobs import REWRITTEN, CarryOut, MakePlan
from sessionizer_airflow.operating.results import CARRY_OUT, TEMPLATE, tell_of_failure
from sessionizer_airflow.operators.scheduled import (
    LABEL,
    CompactTables,
    StreamsTask,
    TakeSavepoint,
    prune_savepoints,
    runs_to_begin,
    streams_due_for_compaction,
    streams_due_for_savepoints,
)
from sessionizer_airflow.project import platform_dag_options
from sessionizer_airflow.reports import report_assets, report_orphans, report_stuck, report_unwatched

if TYPE_CHECKING:
    from sessionizer_airflow.dags.factory import Wiring


RETRY: dict[str, Any] = {"retries": 1, "retry_delay": timedelta(seconds=10)}

COMPACTION_DOCUMENTATION = """
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
    documentation = COMPACTION_DOCUMENTATION.format(platform=platform)
    with DAG(
        **platform_dag_options("compaction", documentation, run_limit=timedelta(hours=12), platform=platform),
        schedule=timedelta(hours=1) if is_asked else None,
    ) as dag:
        due = StreamsTask(task_id="find_due", look=lambda say, _: streams_due_for_compaction(project, say), **RETRY)
        CompactTables.partial(
            task_id="compact",
            map_index_template=LABEL,
            project=project,
            pool=wiring.supervision.report_pool,
            execution_timeout=timedelta(hours=6),
            retries=1,
            retry_delay=timedelta(minutes=5),
        ).expand_kwargs(due.output)
    return dag


MAINTENANCE_DOCUMENTATION = """
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
    documentation = MAINTENANCE_DOCUMENTATION.format(platform=platform)
    with DAG(
        **platform_dag_options("maintenance", documentation, run_limit=timedelta(minutes=30), platform=platform),
        schedule=timedelta(minutes=5),
    ) as dag:
        waiting = StreamsTask(
            task_id="find_waiting",
            look=partial(runs_to_begin, wiring.project, state_of=partial(state_of_run, f"{platform}.{Upgrade.name}")),
            **RETRY,
        )
        TriggerDagRunOperator.partial(
            task_id="begin",
            trigger_dag_id=f"{platform}.{Upgrade.name}",
            logical_date=None,
            # Its id names the window and the difference, so each is asked about once.
            skip_when_already_exists=True,
            map_index_template="{{ task.conf['stream'] }}",
            **RETRY,
        ).expand_kwargs(waiting.output)
    return dag


UPGRADES_DOCUMENTATION = """
Shows the waiting upgrades of many streams in one list, and begins them wave by wave if a user approves the list.

Choose streams in the form, or none for all streams.

- **`find_waiting`** lists each difference that waits. A stream with a difference that a user must accept or settle is
  named, but is not in the list: `sessionizer upgrade <stream>` shows its plan.
- **`approve`** waits under **Required Actions**. Without an answer the list is rejected after a while.
- **`begin`** lets `{platform}.maintenance` begin the approved upgrades, at any hour: in the order of `upgrades.wave`,
  one at a time, and none after a failure, unless `SESSIONIZER_UPGRADES_AT_ONCE` and `SESSIONIZER_UPGRADES_STOP_AFTER`
  say otherwise. An upgrade whose differences are no longer those of the list does not begin.
"""


def upgrade_list_dag(wiring: Wiring, platform: str) -> DAG:
    """Return the DAG of ``platform``."""
    project, names = wiring.project, wiring.stream_names
    documentation = UPGRADES_DOCUMENTATION.format(platform=platform)
    patience = timedelta(milliseconds=wiring.approval.patience_ms, hours=1)
    chosen = Param(
        [],
        type=["null", "array"],
        items={"type": "string", "enum": names or ["no stream has a spec"]},
        examples=names,
        title="Streams",
        description="Streams whose upgrades are listed. Empty: all.",
    )
    with DAG(
        **platform_dag_options("upgrade_all", documentation, run_limit=patience, platform=platform),
        schedule=None,
        params={"streams": chosen},
        allowed_run_types=["manual", "operator_triggered"],  # type: ignore[list-item]  # Airflow takes the names
    ) as dag:
        waiting = StreamsTask(
            task_id="find_waiting",
            look=lambda say, _: list_upgrades(project, get_current_context()["params"]["streams"] or (), say),
            **RETRY,
        )
        approve = ApproveUpgrades(
            task_id="approve",
            project=project,
            settings=wiring.approval,
            listed=waiting.output,
        )
        begin = TriggerDagRunOperator(
            task_id="begin", trigger_dag_id=f"{platform}.maintenance", logical_date=None, **RETRY
        )
        approve >> begin
    return dag


ORPHANS_DOCUMENTATION = """
Reports drivers without a spec, streams without a supervisor, unfinished commands without a process, and assets that
another DAG has taken. This DAG only reads. **A failed run** names what it found and what to do.

**`report_orphans`**: a driver runs, but no spec describes its stream, because the spec was renamed or removed. Such a
driver keeps writing. Stop it at a batch boundary with `sessionizer stop <name>`, or put its spec back.

**`report_unwatched`**: a driver runs, and its last watch ended several minutes ago, because its DAG `supervise` is
paused or its DAG file was removed. Or a stream should run, its driver is dead or hangs, and no supervisor has acted for
several minutes, because its DAG is paused or Airflow is too busy.

**`report_stuck`**: a command has stopped a stream, and no process has worked on it for several minutes. It was
killed, its run was marked, or its last try failed. The stream is down until the command is finished.

**`report_assets`**: another DAG declares an asset of a stream's name, such as `Asset("clicks.sessions")`, and Airflow
has given it the name. The stream's own asset then has no events.
"""

# A finding fails at once, because a retry cannot fix it. Retries are for workers that Airflow could not start.
RETRIES: dict[str, Any] = {"retries": 3, "retry_delay": timedelta(seconds=10)}


def orphans_dag(wiring: Wiring, platform: str) -> DAG:
    """Return the DAG of ``platform``."""
    project, policy = wiring.project, wiring.supervision.policy
    # By then a working watch has launched a driver, failed or given up.
    unwatched_after = policy.longest_backoff_ms + max(policy.startup_grace_ms, policy.stale_limit_ms) + MINUTE
    stuck_after = policy.unattended_after_ms
    with DAG(
        **platform_dag_options("orphans", ORPHANS_DOCUMENTATION, run_limit=timedelta(minutes=10), platform=platform),
        schedule=timedelta(minutes=5),
    ) as dag:
        looks = {
            "report_orphans": lambda *told: report_orphans(project.home, project.streams, *told),
            "report_unwatched": lambda *told: report_unwatched(project.home, project.streams, unwatched_after, *told),
            "report_stuck": lambda *told: report_stuck(project.home, project.streams, stuck_after, *told),
            "report_assets": lambda say, _: report_assets(project.home, project.streams, say),
        }
        for task, look in looks.items():
            StreamsTask(task_id=task, look=look, **RETRIES)
    return dag


SAVEPOINTS_DOCUMENTATION = """
Makes savepoints of the streams whose spec asks for them (`savepoints.every`), and removes those that are old.

Runs every five minutes, if a spec asks for savepoints.

- **`find_due`** says of each such stream whether a savepoint is due, and why. It is due if the newest one is as old
  as the spec allows and a batch has been committed since.
- **`create`** is one Spark job per due stream, listed under its name. The stream keeps running. If one fails, the
  others still run, and it is tried again five minutes later.
- **`prune`** removes savepoints older than `savepoints.keep`, except the newest `savepoints.at_least`. It never
  removes savepoints that users made.
"""


def savepoints_dag(wiring: Wiring, platform: str) -> DAG:
    """Return the DAG of ``platform``. It has a schedule only if a spec asks for savepoints."""
    project = wiring.project
    is_asked = any(spec.savepoints.every_ms is not None for spec in wiring.specs)
    with DAG(
        **platform_dag_options("savepoints", SAVEPOINTS_DOCUMENTATION, run_limit=timedelta(hours=3), platform=platform),
        schedule=timedelta(minutes=5) if is_asked else None,
    ) as dag:
        due = StreamsTask(task_id="find_due", look=lambda say, _: streams_due_for_savepoints(project, say), **RETRY)
        TakeSavepoint.partial(
            task_id="create",
            map_index_template=LABEL,
            project=project,
            pool=wiring.supervision.report_pool,
            execution_timeout=timedelta(hours=1),
            retries=1,
            retry_delay=timedelta(minutes=1),
        ).expand_kwargs(due.output)
        StreamsTask(task_id="prune", look=lambda say, _: prune_savepoints(project, say), **RETRY)
    return dag


ERASURE_DOCUMENTATION = """
Erases the people whom the table `{requests}` names, from each stream that has not done so.

- **`find_due`** reads the table, and lists the streams with the number of people. Keys are in no log.
- **`plan`** is one Spark job per stream. It counts what would go, and changes nothing.
- **`approve`** shows all plans in one list under **Required Actions**. Without an answer it is rejected before the
  next run, which asks again.
- **`{carry_out}`** is one Spark job per stream: the stream stops at a batch boundary, goes on without these people, and
  its tables, savepoints and records are swept. Then the job writes the moment into the column `done` of the requests.
  A failed one is tried again. It goes on where it was.
"""


def erase_dag(wiring: Wiring, platform: str, settings: ErasureSettings) -> DAG:
    """Return the DAG of ``platform``."""
    project, job = wiring.project, job_options(wiring)
    approval = settings.patience(wiring.approval)
    documentation = ERASURE_DOCUMENTATION.format(requests=settings.requests, carry_out=CARRY_OUT)
    limit = timedelta(milliseconds=approval.patience_ms, hours=12)
    retry: dict[str, Any] = {"retries": 1, "retry_delay": timedelta(minutes=1)}
    with DAG(
        **platform_dag_options("erase", documentation, run_limit=limit, platform=platform),
        schedule=timedelta(milliseconds=settings.every_ms),
    ) as dag:
        due = StreamsTask(
            task_id="find_due",
            look=lambda say, _: forms_of_erasures(project, wiring.stream_names, settings, say),
            **retry,
        )
        # The remedy must be the last line of the log, so its callback is last.
        told: dict[str, Any] = {
            "on_failure_callback": [tell_of_failure, say_what_to_do],
            "map_index_template": TEMPLATE,
        }
        plan = MakePlan.partial(task_id="plan", **told, **job, **retry).expand(form=due.output)
        approve = ApproveErasures(
            task_id="approve",
            project=project,
            settings=approval,
            forms=due.output,
            trigger_rule="all_done",  # a stream without a plan must not hold up the others
        )
        plan >> approve
        CarryOut.partial(
            task_id=CARRY_OUT,
            approval="approve",
            settings=wiring.supervision,
            outlets=[REWRITTEN],  # Airflow gives a mapped task the outlets that are named here, not its own
            **told,
            **{**job, "execution_timeout": timedelta(hours=6)},
            **SOON,
        ).expand(form=approve.output)
    return dag
