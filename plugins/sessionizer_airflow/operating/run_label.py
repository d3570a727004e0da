"""Labels of the runs and tasks of ``sessionizer.operate`` and ``sessionizer.upgrade``: verb, stream and result.

A task's label is in Airflow's list of tasks, in the column Map Index. A run's label is its note.
"""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Final

from sessionizer_airflow.internals import send_label
from sessionizer_airflow.operating.request import PROMOTE, SAVEPOINT, TEST_ALERT, request_id
from sessionizer_airflow.project import OPERATE, UPGRADE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from airflow.sdk import Context

SHOWN: Final = "operation"
"""Context variable that the template of a task's label names."""
TEMPLATE: Final = f"{{{{ {SHOWN} | default('') }}}}"
ARROW: Final = " → "
DONE: Final = "done"
"""Result of a task that did its work. A savepoint's is ``SAVED`` and its id."""
SAVED: Final = "savepoint "
CARRY_OUT: Final = "carry_out"
_WORKERS: Final = frozenset({CARRY_OUT, PROMOTE, TEST_ALERT})
"""Tasks that do what a form asks for. ``SAVEPOINT`` is another."""
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
    """Join the title and the result. A title that is too long is cut, the result is not."""
    told = f"{ARROW}{result}" if result else ""
    return f"{title[: LONGEST - len(told)]}{told}"


def savepoint_id_of(run_id: str, asked_at: datetime) -> str:
    """Return the id of the savepoint that a run makes. Its time is that of the request."""
    return f"{asked_at.astimezone(UTC):%Y%m%dT%H%M%S}-{request_id(run_id)[:6]}"


def result_of(states: Mapping[str, str | None], returned: Collection[str], savepoint: str, *, succeeded: bool) -> str:
    """Return the result of a run that is over, by the states of its tasks and the tasks that ``returned`` a value.

    Airflow keeps the return value of a task that did its work until the task runs again. A mark makes none, and changes
    only the state. ``savepoint``: the id of the savepoint that the run makes.
    """
    if SAVEPOINT in returned:
        return f"{SAVED}{savepoint}"
    if not _WORKERS.isdisjoint(returned):
        return DONE
    if not succeeded:
        failed = [task for task, state in states.items() if state == "failed"]
        return f"failed at {failed[0]}" if failed else "failed"
    marked = [task for task in (SAVEPOINT, *_WORKERS) if states.get(task) == "success"]
    if marked:
        return f"{marked[0]} was marked success and is not done"
    return "rejected" if states.get("approve") == "success" else "nothing done"
