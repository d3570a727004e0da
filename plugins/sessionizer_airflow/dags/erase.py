"""The DAG that erases the people whom a table of requests names, from all streams, with one approval. Wiring only."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG

from sessionizer_airflow.dags.operate import MINUTE, SOON, job_options
from sessionizer_airflow.errors import say_what_to_do
from sessionizer_airflow.operating.erasures import ApproveErasures, ErasureSettings, forms_of_erasures
from sessionizer_airflow.operating.jobs import REWRITTEN, CarryOut, MakePlan
from sessionizer_airflow.operating.results import CARRY_OUT, TEMPLATE, tell_of_failure
from sessionizer_airflow.operators.scheduled import StreamsTask
from sessionizer_airflow.project import platform_dag_options

if TYPE_CHECKING:
    from sessionizer_airflow.dags.factory import Wiring

DOCUMENTATION = """
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
    documentation = DOCUMENTATION.format(requests=settings.requests, carry_out=CARRY_OUT)
    limit = timedelta(milliseconds=approval.patience_ms, hours=12)
    retry: dict[str, Any] = {"retries": 1, "retry_delay": MINUTE}
    with DAG(
        **platform_dag_options("erase", documentation, run_limit=limit, platform=platform),
        schedule=timedelta(milliseconds=settings.every_ms),
    ) as dag:
        due = StreamsTask(
            task_id="find_due",
            look=lambda say, _: forms_of_erasures(project, wiring.stream_names, settings, say),
            **retry,
        )
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
            # Airflow may lose an answer that comes at once. It then retries the task, which asks again.
            retries=3,
            retry_delay=timedelta(seconds=10),
        )
        plan >> approve
        CarryOut.partial(
            task_id=CARRY_OUT,
            approval="approve",
            settings=wiring.supervision,
            outlets=[REWRITTEN],  # Airflow gives a mapped task the outlets that are named here, not its own
            # The remedy must be the last line of the log, so its callback is last.
            **told,
            **{**job, "execution_timeout": timedelta(hours=6)},
            **SOON,
        ).expand(form=approve.output)
    return dag
