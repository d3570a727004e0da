"""Course of a request for users: its maintenance window, labels, earlier tries, and the alert of a failure.

A task's label is in Airflow's list of tasks, in the column Map Index. A run's label is its note.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from sessionizer.control.records.operation_record import (
    REQUEST_FILE,
    Ending,
    OperationRecord,
    pending_operation,
    unbegun_commands,
)
from sessionizer.control.records.supervision_records import TOLD_OF_STUCK, DesiredState, read_desired
from sessionizer.control.status.driver_status import read_driver
from sessionizer.control.status.unfinished_operation import abandon_command, read_unfinished
from sessionizer.deployment.waiting import Opening, find_waiting, open_by_list, open_by_window
from sessionizer.errors import PlanChanged, StreamMovedOn, TerminalError
from sessionizer.fleet.waves import OF_LIST, OF_WINDOW
from sessionizer.home.clock import MINUTE, epoch_ms, moment_text
from sessionizer.home.json_record import JsonObject
from sessionizer.home.stream_home import StreamHome
from sessionizer.state.commands.upgrades import Upgrade
from sessionizer.stream_spec.spec_folder import find_stream
from sessionizer_airflow.alerting import Alert, AlertKind, notify
from sessionizer_airflow.errors import PersonNeeded
from sessionizer_airflow.internals import send_label
from sessionizer_airflow.operating.request import (
    PROMOTE,
    SAVEPOINT,
    TEST_ALERT,
    Request,
    chosen_savepoint,
    form_of_run,
    operation_id,
)
from sessionizer_airflow.project import OPERATE, UPGRADE, Project

SCHEDULED: Final = "operator_triggered"
"""Type of a run that another DAG started. No user can give a run this type."""
NEXT: Final = "wait for the next window, which begins anew, or run this DAG with its form"


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """The ``opening`` for an upgrade, for ``left_ms`` (whole minutes), and the ``request`` that the spec wants."""

    opening: Opening
    left_ms: int
    request: JsonObject


def is_scheduled(context: Mapping[str, Any] | Context) -> bool:
    """Whether the schedule started the run, not a user or a DAG of theirs."""
    run = context["dag_run"]
    return run.run_type == SCHEDULED and str(context["run_id"]).startswith((OF_WINDOW, OF_LIST))


def find_window(context: Mapping[str, Any] | Context, project: Project, stream: str) -> OpenWindow | None:
    """Return the opening of a scheduled run: the window of the stream's spec, or the list that began the run.

    None if it is closed, or what waits is no longer what was listed. The spec and what waits are read anew, because an
    approval and a job may come hours after the run began.

    Raises PersonNeeded if the spec is broken or gone.
    """
    now = epoch_ms()
    try:
        spec = find_stream(project.streams, stream)
        if _is_of_list(context):
            waiting = find_waiting(project.home_of(stream), spec)
            opening = None if waiting is None else open_by_list(now, waiting.approval)
        else:
            opening = open_by_window(now, spec.upgrades)
    except TerminalError as error:
        raise PersonNeeded.wrap(error) from None
    if opening is None:
        return None
    left_ms = max(1, (opening.until - now) // MINUTE) * MINUTE
    return OpenWindow(opening, left_ms, Upgrade.make_for_window(spec.upgrades).to_json())


def window_for_approval(context: Context, project: Project, stream: str) -> OpenWindow | None:
    """Return the open window of a scheduled run, None for a user's run. Raises AirflowSkipException if it is closed."""
    if not is_scheduled(context):
        return None
    window = find_window(context, project, stream)
    if window is None:
        closed = f"the maintenance window of stream {stream} is closed at {moment_text(epoch_ms())}"
        raise AirflowSkipException(f"{_left_list(stream) if _is_of_list(context) else closed}: nothing is begun")
    return window


def require_window(context: Context, project: Project, stream: str) -> None:
    """Raise PersonNeeded if a scheduled run would begin after the window's end. A user's run may begin any time."""
    if is_scheduled(context) and find_window(context, project, stream) is None:
        if _is_of_list(context):
            raise PersonNeeded(_left_list(stream), "run sessionizer.upgrade_all again, or this DAG with its form")
        reason = f"the maintenance window of stream {stream} ended before the approved plan was begun"
        raise PersonNeeded(reason, NEXT)


def _is_of_list(context: Mapping[str, Any] | Context) -> bool:
    return str(context["run_id"]).startswith(OF_LIST)


def _left_list(stream: str) -> str:
    return f"the approval of stream {stream} in a list is over, or other differences wait by now"


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
    label = join_label(title_of(form_of_run(context)), result)
    context[SHOWN] = label  # type: ignore[typeddict-unknown-key]  # a variable of ours, for our template
    send_label(label)


def title_of(form: Mapping[str, object]) -> str:
    """Return the verb, stream and goal of a form, which may contradict itself. The form of an upgrade has no verb."""
    goal = chosen_savepoint(form.get("savepoint") or "") or form.get("time")
    to = f" to {goal}" if form.get("verb") == "restore" and goal else ""
    return f"{form.get('verb', 'upgrade') or 'nothing'} {form.get('stream') or 'of no stream'}{to}"


def join_label(title: str, result: str) -> str:
    """Join the title and the result. A title that is too long is cut, the result is not."""
    told = f"{ARROW}{result}" if result else ""
    return f"{title[: LONGEST - len(told)]}{told}"


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


ABANDONED: Final = (
    "do nothing, because the stream is as it was before. To carry it out after all, run this DAG again, which makes a "
    "new plan"
)


def operation_of(operations: list[OperationRecord], approved: OperationRecord) -> OperationRecord | None:
    """Return the newest of the stream's ``operations`` that carried out the approved plan.

    An operation that was over before the plan was made belongs to another plan. After a rollback, a new plan of the
    same operation has the same digest.
    """
    done = [
        each
        for each in operations
        if each.digest == approved.digest and each.outcome is Ending.DONE and each.step_at >= approved.planned_at
    ]
    return max(done, key=lambda each: each.step_at, default=None)


def find_abandoner(operations: list[OperationRecord], approved: OperationRecord) -> str | None:
    """Return the user who gave the approved plan up, None if no user did."""
    for each in reversed(operations):
        if each.digest == approved.digest and each.abandoned_by and each.begun_at >= approved.planned_at:
            return each.abandoned_by
    return None


RUN_AGAIN: Final = "then run this DAG again"
PLAN_AGAIN: Final = "run this DAG again, which makes a new plan. Read what has changed before you approve it"
OUTDATED: Final = frozenset({PlanChanged.remedy, StreamMovedOn.remedy})
"""Remedies of a plan that no longer holds. They are for the command line: here the DAG makes the new plan."""

log = logging.getLogger(__name__)


def tell_of_failure(context: Mapping[str, Any]) -> None:
    """Alert users of a failed operation, as ``on_failure_callback`` after the last try. Never raises."""
    try:
        request = Request.parse_form(form_of_run(context))
        home = context["task"].project.home_of(request.stream)
        alert = failure_alert(request, context.get("exception"), read_remains(home, request, operation_id(context)))
        now_ms = epoch_ms()
        unfinished = read_unfinished(home, pending_operation(home), read_driver(home, now_ms), now_ms)
        if unfinished is not None:
            TOLD_OF_STUCK.is_news(home, unfinished.try_key)  # its stream's watch does not alert users again
    except Exception as error:  # noqa: BLE001  the failure itself is told by Airflow
        log.warning("the failure could not be recorded: %s: %s", type(error).__name__, error)
        return
    notify(alert, log.warning)


def tell_of_scheduled_failure(context: Mapping[str, Any]) -> None:
    """Alert users of a failed task of a maintenance window, because no user looks at its run. Never raises."""
    if is_scheduled(context):
        tell_of_failure(context)


def failure_alert(request: Request, error: object, left: Left) -> Alert:
    """Make the alert. ``error``: the task's exception, None if its worker was lost. ``left``: the stream afterwards."""
    reason = error.reason if isinstance(error, PersonNeeded) else str(error or "its worker was lost")
    unknown = f"read the log of the task, {left.how_to_go_on(request.stream)}"
    return Alert(
        stream=request.stream,
        kind=AlertKind.OPERATION_FAILED,
        reason=f"{request.operation}, {left.standing}: {reason}",
        what_to_do=error.remedy if isinstance(error, PersonNeeded) else unknown,
    )


@dataclass(frozen=True, slots=True)
class Left:
    """A stream after a failed command: its ``pending`` operation or maintenance, or the ``other`` that has it."""

    pending: OperationRecord | None = None
    in_maintenance: bool = False
    other: OperationRecord | None = None

    @property
    def standing(self) -> str:
        """Condition of the stream, in words."""
        if self.other is not None:
            return f"it had not begun, and the stream is down until its {self.other.verb} is finished"
        if self.pending is not None:
            return f"it had reached {self.pending.reached}, and the stream is down until it is finished"
        if self.in_maintenance:
            return "it had not begun, and the stream stays stopped until it is finished"
        return "the stream is left as it was"

    def how_to_go_on(self, stream: str) -> str:
        """Return the step after the cause is mended. An operation that deleted rows can only continue to its end."""
        if self.other is not None or (self.pending is None and not self.in_maintenance):
            return RUN_AGAIN
        is_past_return = self.pending is not None and self.pending.is_past_return
        given_up = "" if is_past_return else f", or give it up: `{abandon_command(stream)}`"
        return f"then clear the task carry_out of this run: it resumes where it was{given_up}"


def how_to_mend(remedy: str, next_step: str) -> str:
    """Return the whole advice of a failed command: its ``remedy``, then the ``next_step``."""
    return PLAN_AGAIN if remedy in OUTDATED and next_step == RUN_AGAIN else f"{remedy}; {next_step}"


def read_remains(home: StreamHome, request: Request, operation: str) -> Left:
    """Read what the failed ``operation`` of the ``request`` left. Raises DamagedFile, ControlUnreachable."""
    pending, plan = pending_operation(home), REQUEST_FILE.of(home, operation).read()
    if pending is not None:
        return Left(pending) if _is_of(request, pending, plan) else Left(other=pending)
    if read_desired(home).state is not DesiredState.MAINTENANCE:
        return Left()
    waiting = unbegun_commands(home)
    is_waiting = any(_is_of(request, each, plan) for each in waiting)
    return Left(in_maintenance=True) if is_waiting or not waiting else Left(other=waiting[0])


def _is_of(request: Request, pending: OperationRecord, plan: OperationRecord | None) -> bool:
    """Whether the ``request`` began the operation, by the digest of its plan, or may have without one."""
    if plan is not None and plan.digest:
        return plan.digest == pending.digest
    return pending.verb == request.operation and request.savepoint in {"", pending.savepoint}
