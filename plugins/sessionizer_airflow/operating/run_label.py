"""Labels of the runs and tasks of ``sessionizer.operate`` and ``sessionizer.upgrade``: verb, stream and result.

A task's label is in Airflow's list of tasks, in the column Map Index. A run's label is its note.
"""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Final

from sessionizer_airflow.dag_defaults import PLATFORM
from sessionizer_airflow.internals import send_label
from sessionizer_airflow.operating.request import request_id

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from airflow.sdk import Context

OPERATE: Final = f"{PLATFORM}.operate"
"""The DAG of one team. Other teams' have names of their own before the dot."""
UPGRADE: Final = f"{PLATFORM}.upgrade"
SHOWN: Final = "operation"
"""Context variable that the template of a task's label names."""
TEMPLATE: Final = f"{{{{ {SHOWN} | default('') }}}}"
LONGEST: Final = 200
"""Most characters of a label. Airflow keeps 250."""


def is_operate(dag_id: str) -> bool:
    """Whether ``dag_id`` is that of a DAG with a form, whichever team's. A stream has no DAG of that name."""
    return dag_id.partition(".")[2] in {each.partition(".")[2] for each in (OPERATE, UPGRADE)}


def show_label(context: Context, result: str = "") -> None:
    """Label the task that runs now. Airflow renders the template itself only when the task ends."""
    label = join_label(title_of(context["params"]), result)
    context[SHOWN] = label  # type: ignore[typeddict-unknown-key]  # a variable of ours, for our template
    send_label(label)


def title_of(form: Mapping[str, object]) -> str:
    """Return the verb, stream and goal of a form, which may contradict itself. The form of an upgrade has no verb."""
    goal = form.get("savepoint") or form.get("time")
    to = f" to {goal}" if form.get("verb") == "restore" and goal else ""
    return f"{form.get('verb', 'upgrade') or 'nothing'} {form.get('stream') or 'of no stream'}{to}"


def join_label(title: str, result: str) -> str:
    """Join the title and the result."""
    return (f"{title} → {result}" if result else title)[:LONGEST]


def savepoint_of(run_id: str, asked_at: datetime) -> str:
    """Return the id of the savepoint that a run makes. Its time is that of the request."""
    return f"{asked_at.astimezone(UTC):%Y%m%dT%H%M%S}-{request_id(run_id)[:6]}"


def result_of(states: Mapping[str, str | None], savepoint: str, *, succeeded: bool) -> str:
    """Return the result of a run that is over, by the states of its tasks."""
    if not succeeded:
        failed = [task for task, state in states.items() if state == "failed"]
        return f"failed at {failed[0]}" if failed else "failed"
    if states.get("savepoint") == "success":
        return f"savepoint {savepoint}"
    if "success" in {states.get("carry_out"), states.get("promote"), states.get("test_alert")}:
        return "done"
    return "rejected" if states.get("approve") == "success" else "nothing done"
