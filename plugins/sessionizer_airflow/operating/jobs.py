"""Tasks of ``sessionizer.operate``. The form of a run gives their arguments."""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar, Final

from airflow.providers.standard.operators.branch import BaseBranchOperator
from airflow.sdk import AssetAlias, BaseOperator, Context
from airflow.sdk.exceptions import AirflowSkipException
from pydantic import JsonValue

from sessionizer.control.records.operation_record import (
    REQUEST_FILE,
    OperationRecord,
    OperationStage,
    pending_operation,
    read_operations,
    require_request,
    write_request,
)
from sessionizer.control.status.unfinished_operation import abandon_command
from sessionizer.errors import SessionizerError, StreamBegun, TerminalError
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.canary.canary_record import promote_lineage
from sessionizer.redaction import redact
from sessionizer.state.commands.registry import COMMANDS, require_startable
from sessionizer.state.commands.seeds import Seed
from sessionizer_airflow.alerting import ARGUMENTS, CLASS, Alert, AlertKind, send_test
from sessionizer_airflow.assets import report_due_asset, watched_sessions_asset
from sessionizer_airflow.errors import PersonNeeded
from sessionizer_airflow.operating.request import (
    PROMOTE,
    SAVEPOINT,
    TEST_ALERT,
    DatabaseUser,
    Request,
    form_of_run,
    operation_id,
    require_user,
)
from sessionizer_airflow.operating.results import (
    ABANDONED,
    DONE,
    RUN_AGAIN,
    SAVED,
    TEMPLATE,
    find_abandoner,
    how_to_mend,
    operation_of,
    read_remains,
    require_window,
    show_label,
)
from sessionizer_airflow.operators.batch_jobs import SparkBatchJob
from sessionizer_airflow.pages.links import ProofLink
from sessionizer_airflow.project import OPERATE, Project, find_requester
from sessionizer_airflow.supervision.policy import SupervisionSettings

REWRITTEN: Final = AssetAlias("sessionizer.rewritten", group="sessionizer")
"""Alias for the tables of the stream that was operated on, because only the form names the stream."""


class ReadForm(BaseBranchOperator):
    """Branch to the first task of the requested operation. ``first_task`` has one for each operation."""

    def __init__(self, *, first_task: Mapping[str, str], project: Project, **kwargs: Any) -> None:
        super().__init__(map_index_template=TEMPLATE, **kwargs)
        self.first_task = first_task
        self.project = project

    def choose_branch(self, context: Context) -> str | Iterable[str] | None:
        """Refuse an impossible request before anything is started."""
        show_label(context)
        request = read_request(context, self.first_task)
        why = f": {request.why}" if request.why else ""
        self.log.info("%s of %s, asked for by %s%s", request.operation, request.stream, find_requester(context), why)
        try:
            require_user(request)
            if request.operation in COMMANDS:
                home, start_over = self.project.home_of(request.stream), getattr(request.command, "start_over", False)
                require_startable(home, request.operation, request.savepoint, start_over=start_over)
        except StreamBegun as error:  # another form is needed, and a cleared task has the same one
            raise PersonNeeded.wrap(error, RUN_AGAIN) from None
        except TerminalError as error:
            raise PersonNeeded.wrap(error) from None
        return self.first_task[request.operation]


class OperateJob(SparkBatchJob):
    """Job whose arguments come from the form of its run, or its own ``form``. ``serves``: the operations it is for."""

    go_on = ""
    serves: ClassVar[Collection[str]] = tuple(COMMANDS)

    def __init__(self, *, project: Project, form: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(project=project, name=OPERATE, **{"map_index_template": TEMPLATE, **kwargs})
        self.form = form

    def execute(self, context: Context) -> None:
        """Put the arguments together, then run."""
        request = read_request(context, self.serves)
        show_label(context)
        try:
            user = DatabaseUser.of(request.connection) if request.connection else None
            self.application_args = list(self.arguments(request, context))
            if user is not None:
                record = require_request(self.project.home_of(request.stream), operation_id(context))
                user.require_theirs(record.request["history"])
            given = user.export_password(self.connection) if user else nullcontext()
            self.name = f"{request.stream}.{request.operation}"
            with given:
                super().execute(context)
        except TerminalError as error:
            show_label(context, "failed")
            raise PersonNeeded.wrap(error) from None
        except PersonNeeded as error:
            show_label(context, "failed")
            raise PersonNeeded(error.reason, how_to_mend(error.remedy, self.next_step(request, context))) from None

    def next_step(self, request: Request, context: Context) -> str:  # noqa: ARG002 - the interface
        """Return the user's next step after the cause is mended. A plan or a savepoint has changed nothing."""
        return RUN_AGAIN

    def arguments(self, request: Request, context: Context) -> tuple[str, ...]:
        """Return the arguments of ``jobs/main.py``, which carry the run's operation out."""
        return self.project.carry_out_argv(request.stream, operation_id(context))


class MakeSavepoint(OperateJob):
    """Job that makes a savepoint, and returns its id. A new try makes the same one."""

    serves: ClassVar[Collection[str]] = (SAVEPOINT,)

    def execute(self, context: Context) -> str:  # type: ignore[override]  # the other jobs return nothing
        """Run the job. The id is the task's return value and in its label, because the form of a restore wants it."""
        super().execute(context)
        savepoint = operation_id(context)
        self.log.info("savepoint %s: its id, for the form of a restore", savepoint)
        show_label(context, f"{SAVED}{savepoint}")
        return savepoint

    def arguments(self, request: Request, context: Context) -> tuple[str, ...]:
        """Name the savepoint by the run, so that each try makes the same one."""
        savepoint = operation_id(context)
        why = f"{request.why}, by " if request.why else "asked for by "
        why += find_requester(context)
        return self.project.savepoint_argv(request.stream, savepoint, why=why)


class MakePlan(OperateJob):
    """Job that makes the plan of the run's request, which it writes first, unless that has a plan."""

    def arguments(self, request: Request, context: Context) -> tuple[str, ...]:
        """Write the request. It keeps the name of a database's user, but not the password."""
        command, home, now = request.command, self.project.home_of(request.stream), epoch_ms()
        assert command is not None  # noqa: S101  a plan is made for commands only
        if isinstance(command, Seed) and command.connection is not None:
            command = replace(command, user=DatabaseUser.of(command.connection).login)
        found = REQUEST_FILE.of(home, operation_id(context)).require()
        record = OperationRecord(
            id=operation_id(context),
            verb=request.operation,
            stream=request.stream,
            request=command.to_json(),
            step=OperationStage.REQUESTED,
            begun_at=now,
            step_at=now,
        )
        if found is None or found.step is OperationStage.REQUESTED:  # the connection may have another user by now
            write_request(home, record)
        return self.project.carry_out_argv(request.stream, record.id, only_plan=True)


class CarryOut(OperateJob):
    """Job that carries out the plan of the approved digest, then tells consumers of the stream's tables.

    ``proves``: the stream, and the time (epoch ms) from which a proof is one of this plan.
    """

    operator_extra_links = (ProofLink(),)
    proves: tuple[StreamHome, int] | None = None

    def __init__(self, *, settings: SupervisionSettings, approval: str, **kwargs: Any) -> None:
        super().__init__(**{"outlets": [REWRITTEN], **kwargs})
        self.settings = settings
        self.approval = approval

    def execute(self, context: Context) -> str:  # type: ignore[override]  # the other jobs return nothing
        """Run the job unless a killed try has done it already. Then start the report.

        It returns a value because the run's note is made of it: a task that a user marked has none.
        """
        request = read_request(context, self.serves)
        stream = self.project.home_of(request.stream)
        approved = self._approved(stream, context)
        self.proves = stream, approved.planned_at
        done = operation_of(read_operations(stream), approved)
        if done is None or COMMANDS[request.operation].sweeps:
            if done is None and pending_operation(stream) is None:  # a begun one is finished, whatever the time
                user = find_abandoner(read_operations(stream), approved)
                if user is not None:  # a retry must not undo that
                    show_label(context, "abandoned")
                    reason = f"{user} gave this {request.operation} up: `{abandon_command(request.stream)}`"
                    raise PersonNeeded(reason, ABANDONED)
                require_window(context, self.project, request.stream)
            super().execute(context)
            done = operation_of(read_operations(stream), approved)
        else:
            # done by a try whose worker was lost, or by another run with the same plan
            self.log.info("already done: operation %s, approved by %s, did what this plan says", done.id, done.by)
        show_label(context, DONE)
        if COMMANDS[request.operation].writes_tables or (done is not None and done.days):
            self._announce(context, request, approved, done)
        return DONE

    def next_step(self, request: Request, context: Context) -> str:
        """Return the next step, by the state in which the command left the stream."""
        home = self.project.home_of(request.stream)
        return read_remains(home, request, operation_id(context)).how_to_go_on(request.stream)

    def _announce(
        self, context: Context, request: Request, approved: OperationRecord, done: OperationRecord | None
    ) -> None:
        days: list[JsonValue] = [*done.days.split()] if done else []
        extra: dict[str, JsonValue] = {"stream": request.stream, "operation": request.operation, "days": days}
        if approved.savepoint:
            extra["restored_to"] = approved.savepoint
        home, settings, events = self.project.home, self.settings, context["outlet_events"][REWRITTEN]
        events.add(watched_sessions_asset(request.stream, home, settings.landing_interval_ms), extra=extra)
        events.add(report_due_asset(request.stream, home, settings.report_interval_ms), extra=extra)

    def _approved(self, home: StreamHome, context: Context) -> OperationRecord:
        """Return the approved plan. Raises PersonNeeded if the task before was marked, because a mark approves none."""
        approved = REQUEST_FILE.of(home, operation_id(context)).require()
        if approved is None or not approved.has_done(OperationStage.APPROVED):
            show_label(context, "not approved")
            reason = f"no user approved the plan: the task {self.approval} has no answer, because it was marked success"
            raise PersonNeeded(reason, f"clear the task {self.approval} with its downstream tasks, and answer the plan")
        return approved


def read_request(context: Context, served: Collection[str]) -> Request:
    """Return the request in the form of the run.

    Raises PersonNeeded if the form contradicts itself, and AirflowSkipException if it asks for none of the ``served``
    operations. Such a task starts only if a user marked ``read_form``, which then chose no branch.
    """
    try:
        request = Request.parse_form(form_of_run(context))
    except TerminalError as error:
        raise PersonNeeded(str(error), "run this DAG again, and fill in the form as it says") from None
    if request.operation not in served:
        raise AirflowSkipException(f"the form asks for {request.operation}, for which this task does nothing")
    return request


class DirectTask(BaseOperator):
    """Task that does what the form of its run asks for, in the worker itself. ``serves``: the operation of the form."""

    serves: ClassVar[str]

    def __init__(self, *, project: Project, **kwargs: Any) -> None:
        super().__init__(map_index_template=TEMPLATE, **kwargs)
        self.project = project

    def execute(self, context: Context) -> str:
        """Do it, and return the result in one line. Raises PersonNeeded."""
        request = read_request(context, [self.serves])
        show_label(context)
        try:
            told = self.act(request, find_requester(context))
        except TerminalError as error:
            show_label(context, "failed")
            raise PersonNeeded.wrap(error) from None
        self.log.info("%s", told)
        show_label(context, DONE)
        return told

    @abstractmethod
    def act(self, request: Request, user: str) -> str:
        """Do what ``user`` asked for, and return the result in one line."""


class PromoteLineage(DirectTask):
    """Task that keeps the stream's lineage, whatever its canary found or would find."""

    serves = PROMOTE

    def act(self, request: Request, user: str) -> str:
        """Promote the lineage. Raises OperationPending, DamagedFile."""
        return promote_lineage(self.project.home_of(request.stream), user)


class SendTestAlert(DirectTask):
    """Task that sends a test message through the notifier of this worker, and fails if that fails."""

    serves = TEST_ALERT

    def act(self, request: Request, user: str) -> str:
        """Send the message. Raises PersonNeeded if there is no notifier, or if it fails."""
        alert = Alert(stream=request.stream, kind=AlertKind.TEST, reason=f"a test message that {user} asked for")
        try:
            notifier = send_test(alert)
        except SessionizerError:
            raise
        except Exception as error:  # noqa: BLE001 - notifiers are other people's code
            reason = redact(f"the notifier failed: {type(error).__name__}: {error}")
            raise PersonNeeded(reason, f"correct {ARGUMENTS} and the connection, then run this DAG again") from None
        if notifier is None:
            remedy = f"set {CLASS} for Airflow's processes, restart them, and run this DAG again"
            raise PersonNeeded("no notifier is set", remedy)
        return f"sent by {notifier}: {alert.message}"
