"""What people are told when what they approved fails: whether the stream runs on, or is down until somebody acts."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from sessionizer.control.records.operation_record import pending_operation
from sessionizer.control.records.told_record import TOLD_OF_STUCK
from sessionizer.control.status.observe import read_observation
from sessionizer.control.status.unfinished_operation import read_unfinished
from sessionizer.home.clock import epoch_ms
from sessionizer_airflow.alerting.alert import Alert, Kind
from sessionizer_airflow.alerting.notification import notify
from sessionizer_airflow.operating.request import Request
from sessionizer_airflow.operators.failed_task import PersonNeeded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.home.stream_home import StreamHome

log = logging.getLogger(__name__)


def tell_of_failure(context: Mapping[str, Any]) -> None:
    """An ``on_failure_callback``: the last try is over. Never raises."""
    try:
        request = Request.of_run(context["run_id"], context["params"])
        home = context["task"].project.home_of(request.stream)
        pending = pending_operation(home)
        alert = failure_alert(request, context.get("exception"), pending)
        _note_told(home)
    except Exception as error:  # noqa: BLE001  the failure itself is told by Airflow
        log.warning("nobody could be told of it: %s: %s", type(error).__name__, error)
        return
    notify(alert, log.warning)


def _note_told(home: StreamHome) -> None:
    """People know of the command now, so its stream's watch need not tell them again. Raises ControlUnreachable."""
    now_ms = epoch_ms()
    unfinished = read_unfinished(home, read_observation(home, now_ms), now_ms)
    if unfinished is not None:
        TOLD_OF_STUCK.is_news(home, unfinished.try_key)


def failure_alert(request: Request, error: object, pending: OperationRecord | None) -> Alert:
    """``error``: what the task raised; None where its worker was lost. ``pending``: what the stream now waits for."""
    reason = error.reason if isinstance(error, PersonNeeded) else str(error or "its worker was lost")
    unknown = f"read the log of the task; {how_to_go_on(pending)}"
    down = f"it had come to {pending.step}, and the stream is down until it is over" if pending else ""
    return Alert(
        stream=request.stream,
        kind=Kind.OPERATION_FAILED,
        reason=f"{request.operation}, {down or 'the stream goes on as it was'}: {reason}",
        what_to_do=error.remedy if isinstance(error, PersonNeeded) else unknown,
    )


def how_to_go_on(pending: OperationRecord | None) -> str:
    """Once what failed has been mended. One that took rows out of a table knows no other way than to its end."""
    if pending is None:
        return "then run this DAG again"
    return "then clear the task carry_out of this run: it goes on where it was"
