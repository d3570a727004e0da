"""A restore that somebody asked for in the form: its run, its plan, its record."""

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import TaskAwaitingInput

from sessionizer.control.records.operation_record import Ending, OperationRecord, OperationStage
from sessionizer.control.records.supervision_records import DesiredState
from sessionizer.state.commands.restores import Restore
from sessionizer_airflow.operating.request import id_of_run

RUN = "manual__2026-11-23T10:00:00+00:00_x"
RESTORE = {"verb": "restore", "stream": "clicks", "savepoint": "s1", "time": None, "why": None}
RUN_AFTER = datetime(2026, 11, 23, 10, tzinfo=UTC)
OPERATION = id_of_run(RUN, RUN_AFTER)
PLAN = OperationRecord(
    id=OPERATION,
    verb="restore",
    stream="clicks",
    request=Restore(savepoint="s1").to_json(),
    step=OperationStage.PLANNED,
    savepoint="s1",
    digest="0123456789abcdef",
    text="stream clicks goes back to savepoint s1\n  sessions: 3 rows are deleted",
    planned_at=1,
    begun_at=1,
    step_at=1,
)
APPROVED = replace(PLAN, step=OperationStage.APPROVED, by="alice (Airflow)")


def context(form: dict[str, Any], **more: Any) -> Any:
    run = SimpleNamespace(run_after=RUN_AFTER, run_type="manual", triggering_user_name="olga")
    kept: dict[str, Any] = {}
    task = SimpleNamespace(xcom_push=kept.__setitem__, kept=kept, try_number=1)
    return {"run_id": RUN, "params": form, "dag_run": run, "ti": task, **more}


def park_approvals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Approvals park without an Airflow to ask."""

    def parks(self: ApprovalOperator, context: Any) -> None:
        raise TaskAwaitingInput(method_name="execute_complete")

    monkeypatch.setattr(ApprovalOperator, "execute", parks)


def park(task: ApprovalOperator, given: Any) -> None:
    """Have the approval ask, and park."""
    with pytest.raises(TaskAwaitingInput):
        task.execute(given)


def answer_of(user: object, option: str = "Approve") -> dict[str, Any]:
    """What Airflow hands to an approval that parked."""
    at = datetime(2026, 11, 23, 11, tzinfo=UTC)
    return {"chosen_options": [option], "params_input": {}, "responded_at": at, "responded_by_user": user}


def operation(identity: str, digest: str, outcome: Ending | None, at: int) -> OperationRecord:
    return OperationRecord(
        id=identity, verb="restore", stream="clicks", by="alice", digest=digest, savepoint="s1", lineage_from="l1",
        batch_from=7, wanted=DesiredState.RUNNING, begun_at=at, step_at=at, outcome=outcome,
    )  # fmt: skip
