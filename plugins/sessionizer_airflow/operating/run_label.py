"""Labels by which the runs and tasks of ``sessionizer.operate`` are told apart: verb, stream and result.

Of a task it is in Airflow's list of tasks, in the column Map Index. Of a run it is the note.
"""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Final

from sessionizer_airflow.house import PLATFORM
from sessionizer_airflow.internals.task_label import send_label
from sessionizer_airflow.operating.request import request_id

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from airflow.sdk import Context

OPERATE: Final = f"{PLATFORM}.operate"
SHOWN: Final = "operation"
"""The context variable that the template of a task's label names."""
TEMPLATE: Final = f"{{{{ {SHOWN} | default('') }}}}"
LONGEST: Final = 200
"""Airflow keeps 250 characters of a label."""


def show_label(context: Context, result: str = "") -> None:
    """Label the task that runs now. Airflow renders the template itself only when the task ends."""
    label = labelled(title_of(context["params"]), result)
    context[SHOWN] = label  # type: ignore[typeddict-unknown-key]  # a variable of ours, for our template
    send_label(label)


def title_of(form: Mapping[str, object]) -> str:
    """Verb, stream and goal of a form, which may contradict itself."""
    goal = form.get("savepoint") or form.get("time")
    to = f" to {goal}" if form.get("verb") == "restore" and goal else ""
    return f"{form.get('verb') or 'nothing'} {form.get('stream') or 'of no stream'}{to}"


def labelled(title: str, result: str) -> str:
    """The title, then what came of it."""
    return (f"{title} → {result}" if result else title)[:LONGEST]


def savepoint_of(run_id: str, asked_at: datetime) -> str:
    """Id of the savepoint that a run makes. It is of the moment at which the run was asked for."""
    return f"{asked_at.astimezone(UTC):%Y%m%dT%H%M%S}-{request_id(run_id)[:6]}"


def result_of(states: Mapping[str, str | None], savepoint: str, *, succeeded: bool) -> str:
    """Result of a run that is over, by the states of its tasks."""
    if not succeeded:
        failed = [task for task, state in states.items() if state == "failed"]
        return f"failed at {failed[0]}" if failed else "failed"
    if states.get("savepoint") == "success":
        return f"savepoint {savepoint}"
    if states.get("carry_out") == "success":
        return "done"
    return "rejected" if states.get("approve") == "success" else "nothing done"
