"""The Spark jobs of ``sessionizer.operate``: what each is called with comes from the form of its run."""

from __future__ import annotations

import shlex
from abc import abstractmethod
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.standard.operators.branch import BaseBranchOperator
from airflow.sdk import AssetAlias

from sessionizer.control.records.operation_record import Ending, read_operations
from sessionizer.errors import TerminalError
from sessionizer.state.preconditions import require_startable
from sessionizer_airflow.assets import report_due_asset, sessions_asset
from sessionizer_airflow.launching.argv import SavepointCall, StateCall
from sessionizer_airflow.operating.approval import Approved
from sessionizer_airflow.operating.database import DatabaseUser, require_user
from sessionizer_airflow.operating.failing import RUN_AGAIN, left_by
from sessionizer_airflow.operating.request import Request
from sessionizer_airflow.operating.run_label import OPERATE, TEMPLATE, savepoint_of, show_label
from sessionizer_airflow.operating.verbs import Operation
from sessionizer_airflow.operators.batch_jobs import SparkBatchJob, job_of
from sessionizer_airflow.operators.failed_task import PersonNeeded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow.sdk import Context
    from pydantic import JsonValue

    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer_airflow.project import Project
    from sessionizer_airflow.supervision.policy import SupervisionSettings

REWRITTEN: Final = AssetAlias("sessionizer.rewritten", group="sessionizer")
"""Stands for the tables of whichever stream was operated on: which that is, only the form says."""
WRITE_TABLES: Final = frozenset({Operation.RESTORE, Operation.ROLLBACK, Operation.SEED})
"""What takes rows out of the tables, or puts some into them; the others leave them as they are."""


class ReadForm(BaseBranchOperator):
    """Goes on with the task that begins what the form asks for; ``first_task`` has one for each operation.

    ``project``: where the stream's records are. Without it only the form itself is judged.
    """

    def __init__(self, *, first_task: dict[Operation, str], project: Project | None = None, **kwargs: Any) -> None:
        super().__init__(map_index_template=TEMPLATE, **kwargs)
        self.first_task = first_task
        self.project = project

    def choose_branch(self, context: Context) -> str | Iterable[str] | None:
        """Say no before anything is started."""
        show_label(context)
        request = requested(context)
        self.log.info("%s of %s%s", request.operation, request.stream, f": {request.why}" if request.why else "")
        try:
            require_user(request)
            if self.project is not None and request.operation is not Operation.SAVEPOINT:
                start_over = "--start-over" in request.options
                home, savepoint = self.project.home_of(request.stream), request.savepoint or ""
                require_startable(home, request.operation, savepoint, start_over=start_over)
        except TerminalError as error:
            raise PersonNeeded.by(error) from None
        return self.first_task[request.operation]


class OperateJob(SparkBatchJob):
    """A job whose arguments are known when the form is."""

    go_on = ""

    def __init__(self, *, project: Project, **kwargs: Any) -> None:
        super().__init__(job=job_of(project, OPERATE, ()), map_index_template=TEMPLATE, **kwargs)
        self.project = project

    def execute(self, context: Context) -> None:
        """Put the arguments together, then run."""
        request = requested(context)
        show_label(context)
        try:
            user = DatabaseUser.of(request.connection) if request.connection else None
            self.application_args = list(self.arguments(request, context))
            if user is not None:
                user.require_theirs(self.application_args)
            given = user.in_environment(self.connection) if user else nullcontext()
            self.name = f"{request.stream}.{request.operation}"
            with given:
                super().execute(context)
        except TerminalError as error:
            show_label(context, "failed")
            raise PersonNeeded.by(error) from None
        except PersonNeeded as error:
            show_label(context, "failed")
            raise PersonNeeded(error.reason, f"{error.remedy}; {self.next_step(request)}") from None

    def next_step(self, request: Request) -> str:  # noqa: ARG002 - the interface
        """How a user goes on once the cause is mended. A plan or a savepoint has changed nothing."""
        return RUN_AGAIN

    @abstractmethod
    def arguments(self, request: Request, context: Context) -> tuple[str, ...]:
        """What follows ``jobs/main.py``."""

    def call_of(self, request: Request, savepoint: str | None, options: tuple[str, ...]) -> StateCall:
        """The command of what is asked for."""
        return StateCall(
            verb=request.operation,
            stream=request.stream,
            savepoint=savepoint,
            options=options,
            reads_spec=request.operation.reads_spec,
            folders=self.project.folders,
        )


class MakeSavepoint(OperateJob):
    """Makes a savepoint, and returns its id. A new try makes the same one."""

    def execute(self, context: Context) -> str:  # type: ignore[override]  # the other jobs return nothing
        """Run the job. The id is the task's return value and in its label, because the form of a restore wants it."""
        super().execute(context)
        savepoint = savepoint_of(context["run_id"], context["dag_run"].run_after)
        self.log.info("savepoint %s: its id, for the form of a restore", savepoint)
        show_label(context, f"savepoint {savepoint}")
        return savepoint

    def arguments(self, request: Request, context: Context) -> tuple[str, ...]:
        """Name the savepoint by the run, so that each try makes the same one."""
        savepoint = savepoint_of(context["run_id"], context["dag_run"].run_after)
        why = request.why or f"asked for in Airflow ({context['run_id']})"
        return SavepointCall(stream=request.stream, savepoint=savepoint, why=why, folders=self.project.folders).argv()


class MakePlan(OperateJob):
    """Has the plan made, and kept in the stream's control directory under the request's id."""

    def arguments(self, request: Request, context: Context) -> tuple[str, ...]:  # noqa: ARG002 - the interface
        """A plan that the request has stays. The plan keeps the name of a database's user, not the password."""
        user = () if request.connection is None else ("--user", DatabaseUser.of(request.connection).login)
        return self.call_of(request, request.savepoint, (*request.options, *user)).planned(request.id)


class CarryOut(OperateJob):
    """Carries out the plan of the digest that was approved, then tells those who read the stream's tables."""

    def __init__(self, *, settings: SupervisionSettings, approval: str, **kwargs: Any) -> None:
        super().__init__(outlets=[REWRITTEN], **kwargs)
        self.settings = settings
        self.approval = approval

    def arguments(self, request: Request, context: Context) -> tuple[str, ...]:
        """What was approved, nothing fresher: the job itself refuses it if it no longer is what would be done."""
        approved = self._approved(context)
        call = self.call_of(request, approved.savepoint or None, tuple(shlex.split(approved.options)))
        return call.approved(approved.digest, approved.by)

    def execute(self, context: Context) -> None:
        """Run the job unless it was done before a try that was killed; then have the report run."""
        request, approved = requested(context), self._approved(context)
        stream = self.project.home_of(request.stream)
        done = operation_of(read_operations(stream), approved)
        if done is None:
            super().execute(context)
            done = operation_of(read_operations(stream), approved)
        else:
            # by a try whose worker was lost, or by another run that had the same plan
            self.log.info(
                "nothing is left to do: operation %s, approved by %s, did what this plan says", done.id, done.by
            )
        show_label(context, "done")
        if request.operation in WRITE_TABLES:
            self._announce(context, request, approved, done)

    def next_step(self, request: Request) -> str:
        """The way on for what the command left behind."""
        return left_by(self.project.home_of(request.stream)).how_to_go_on(request.stream)

    def _announce(self, context: Context, request: Request, approved: Approved, done: OperationRecord | None) -> None:
        days: list[JsonValue] = [*done.days.split()] if done else []
        extra: dict[str, JsonValue] = {"stream": request.stream, "operation": str(request.operation), "days": days}
        if approved.savepoint:
            extra["restored_to"] = approved.savepoint
        home, settings = self.project.home, self.settings
        for asset in (
            sessions_asset(request.stream, home, settings.landing_interval_ms),
            report_due_asset(request.stream, home, settings.report_interval_ms),
        ):
            context["outlet_events"][REWRITTEN].add(asset, extra=extra)

    def _approved(self, context: Context) -> Approved:
        return Approved(**context["ti"].xcom_pull(task_ids=self.approval))


def requested(context: Context) -> Request:
    """What the form of the run asks for. Raises PersonNeeded where it contradicts itself."""
    try:
        return Request.of_run(context["run_id"], context["params"])
    except TerminalError as error:
        raise PersonNeeded(str(error), "run this DAG again, and fill the form in so") from None


def operation_of(operations: list[OperationRecord], approved: Approved) -> OperationRecord | None:
    """The newest of the stream's ``operations`` that carried out what was approved.

    One that was over before the plan was made is another's: a stream that was rolled back since is where that one found
    it, and a new plan of the same has the same digest.
    """
    done = [
        each
        for each in operations
        if each.digest == approved.digest and each.outcome is Ending.DONE and each.step_at >= approved.planned_at
    ]
    return max(done, key=lambda each: each.step_at, default=None)
