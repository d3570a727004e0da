"""Task by which a user sets the desired state of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from sessionizer.control.maintenance import ask_to_stop
from sessionizer.control.records.desired_state import DesiredState, write_desired
from sessionizer.control.records.operation_record import pending_operation
from sessionizer.deployment.running_spec import approve_spec
from sessionizer.errors import TerminalError
from sessionizer.home.names import Verb, dag_id
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.canary.canary_record import BY_CANARY
from sessionizer_airflow.dag_defaults import find_requester
from sessionizer_airflow.failed_task import PersonNeeded
from sessionizer_airflow.operators.pause import ask_pause

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sessionizer_airflow.project import Project


def _require_driver_can_start(home: StreamHome) -> None:
    """Raise OperationPending if a driver would end at once, and the supervisor give up.

    A driver finishes the rollback of a failed canary itself.
    """
    pending = pending_operation(home)
    if pending is not None and not pending.by.startswith(BY_CANARY):
        raise pending.pending_error()


def unpause_line(stream: str) -> str:
    """Say that the stream's supervisor is paused, so that a start alone does nothing."""
    return f"no driver starts, because its supervisor is paused: unpause the DAG {dag_id(stream, Verb.SUPERVISE)}"


class SetDesiredState(BaseOperator):
    """Task that records the desired state of a stream, and asks a live driver to stop unless the stream should run.

    With ``apply`` the stream's file is recorded as approved, though the stream runs by another spec. A live driver is
    asked to stop, so that the supervisor launches one that takes the file.
    """

    template_fields = ("why", "apply")

    def __init__(
        self,
        *,
        stream: str,
        project: Project,
        state: DesiredState,
        why: str = "",
        apply: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.project = project
        self.state = state
        self.why = why
        self.apply = apply

    def execute(self, context: Context) -> None:
        """Write the desired state, then ask a live driver to follow it."""
        try:
            self._set(find_requester(context))
        except TerminalError as error:
            raise PersonNeeded.wrap(error) from None

    def _set(self, by: str) -> None:
        home = StreamHome.of(self.project.home, self.stream)
        if self.state is DesiredState.RUNNING:
            _require_driver_can_start(home)
        approval = approve_spec(home, self.project.streams, self.stream) if str(self.apply) == "True" else None
        home.prepare()
        write_desired(home, self.state, by=by, why=self.why, approved=approval.fingerprint if approval else None)
        self.log.info("%s: desired state is %s", self.stream, self.state)
        if self.state is DesiredState.RUNNING and ask_pause(home):
            self.log.warning("%s", unpause_line(self.stream))
        for line in approval.lines() if approval else ():
            self.log.info("%s", line)
        if self.state is not DesiredState.RUNNING:
            ask_to_stop(home, f"desired state is {self.state}, by {by}", self.log.info)
        elif approval and approval.changes:
            ask_to_stop(home, f"a changed spec is to be applied, by {by}", self.log.info)
