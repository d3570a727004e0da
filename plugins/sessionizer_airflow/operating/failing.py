"""Alert about a failed operation: whether the stream runs on, or is down until a user acts."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sessionizer.control.records.operation_record import PLAN_FILE, pending_operation, unbegun_commands
from sessionizer.control.records.supervision_records import TOLD_OF_STUCK, DesiredState, read_desired
from sessionizer.control.status.read_status import read_driver
from sessionizer.control.status.unfinished_operation import abandon_command, read_unfinished
from sessionizer.errors import PlanChanged, StreamMovedOn
from sessionizer.home.clock import epoch_ms
from sessionizer_airflow.alerting.alert import Alert, AlertKind
from sessionizer_airflow.alerting.notification import notify
from sessionizer_airflow.errors import PersonNeeded
from sessionizer_airflow.operating.request import Request
from sessionizer_airflow.operating.window import is_scheduled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer.control.records.operation_record import OperationRecord, PlanRecord
    from sessionizer.home.stream_home import StreamHome

RUN_AGAIN: Final = "then run this DAG again"
PLAN_AGAIN: Final = "run this DAG again, which makes a new plan. Read what has changed before you approve it"
OUTDATED: Final = frozenset({PlanChanged.remedy, StreamMovedOn.remedy})
"""Remedies of a plan that no longer holds. They are for the command line: here the DAG makes the new plan."""

log = logging.getLogger(__name__)


def tell_of_failure(context: Mapping[str, Any]) -> None:
    """Alert users of a failed operation, as ``on_failure_callback`` after the last try. Never raises."""
    try:
        request = Request.parse_form(context["run_id"], context["params"])
        home = context["task"].project.home_of(request.stream)
        alert = failure_alert(request, context.get("exception"), read_remains(home, request))
        _note_told(home)
    except Exception as error:  # noqa: BLE001  the failure itself is told by Airflow
        log.warning("the failure could not be recorded: %s: %s", type(error).__name__, error)
        return
    notify(alert, log.warning)


def tell_of_scheduled_failure(context: Mapping[str, Any]) -> None:
    """Alert users of a failed task of a maintenance window, because no user looks at its run. Never raises."""
    if is_scheduled(context):
        tell_of_failure(context)


def _note_told(home: StreamHome) -> None:
    """Record that users know of the command, so that its stream's watch does not alert them again.

    Raises ControlUnreachable.
    """
    now_ms = epoch_ms()
    unfinished = read_unfinished(home, read_driver(home, now_ms), now_ms)
    if unfinished is not None:
        TOLD_OF_STUCK.is_news(home, unfinished.try_key)


def failure_alert(request: Request, error: object, left: Left) -> Alert:
    """Make the alert. ``error``: the task's exception, None if its worker was lost.

    ``left``: the stream after the failure.
    """
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
    """A stream after a failed command: its ``pending`` operation, if any, and whether it is held in maintenance.

    ``other``: another command, which has the stream or waits for it.
    """

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
        """Return the next step after the cause is mended.

        An operation that has deleted rows can only continue to its end.
        """
        if self.other is not None or (self.pending is None and not self.in_maintenance):
            return RUN_AGAIN
        is_past_return = self.pending is not None and self.pending.is_past_return
        given_up = "" if is_past_return else f", or give it up: `{abandon_command(stream)}`"
        return f"then clear the task carry_out of this run: it resumes where it was{given_up}"


def how_to_mend(remedy: str, next_step: str) -> str:
    """Return the whole advice of a failed command: its ``remedy``, then the ``next_step``."""
    return PLAN_AGAIN if remedy in OUTDATED and next_step == RUN_AGAIN else f"{remedy}; {next_step}"


def read_remains(home: StreamHome, request: Request) -> Left:
    """Read what the failed command of the ``request`` left. Raises DamagedFile, ControlUnreachable, InvalidSpec."""
    pending, plan = pending_operation(home), PLAN_FILE.of(home, request.id).read()
    if pending is not None:
        return Left(pending) if _is_of(request, pending, plan) else Left(other=pending)
    if read_desired(home).state is not DesiredState.MAINTENANCE:
        return Left()
    waiting = unbegun_commands(home)
    is_waiting = any(_is_of(request, each, plan) for each in waiting)
    return Left(in_maintenance=True) if is_waiting or not waiting else Left(other=waiting[0])


def _is_of(request: Request, pending: OperationRecord, plan: PlanRecord | None) -> bool:
    """Whether the ``request`` began the operation, by the digest of its plan, or may have without one."""
    if plan is not None:
        return plan.digest == pending.digest
    return pending.verb == request.operation and request.savepoint in {None, pending.savepoint}
