"""The desired state of a stream, as a user's task sets it, and the reaction to a user's action on a watching task.

Mark as failed or as successful: the stream stops and stays stopped, though ``@continuous`` starts the next run at once.
The listener hears that first, in every state of the task, and only it writes the desired state. This module hears it
later, and might overwrite a newer one.

Clear: the driver stops and the supervisor launches another. The new try sees that it was cleared, or the worker does,
if it still finds the task being restarted.

Any other end is not a user's action, and the driver goes on. Examples are a run that timed out and a worker that was
thought dead and whose task is retried. Others are a triggerer that handed the watch to another and a worker that shuts
down.
"""

from collections.abc import Callable
from typing import Any

from airflow.sdk import BaseOperator, Context

from sessionizer.control.maintenance import ask_to_stop
from sessionizer.control.records.operation_record import pending_operation
from sessionizer.control.records.supervision_records import DesiredState, note_pause, read_desired, write_desired
from sessionizer.deployment.running_spec import approve_spec
from sessionizer.errors import TerminalError
from sessionizer.home.names import Verb, dag_id
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.canary.canary_record import BY_CANARY
from sessionizer_airflow.errors import PersonNeeded
from sessionizer_airflow.internals import is_dag_paused
from sessionizer_airflow.project import Project, find_requester


def ask_pause(
    home: StreamHome, ask: Callable[[str], bool | None] = is_dag_paused, taken: str | None = None
) -> bool | None:
    """Note and return whether the supervisor is paused, as ``ask`` says, and the ``taken`` asset. Never raises."""
    paused = ask(dag_id(home.name, Verb.SUPERVISE))
    if paused is not None:
        note_pause(home, paused=paused, taken=taken)
    return paused


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
        pending = pending_operation(home) if self.state is DesiredState.RUNNING else None
        # A driver would end at once, and the supervisor give up. It finishes the rollback of a failed canary itself.
        if pending is not None and not pending.by.startswith(BY_CANARY):
            raise pending.pending_error()
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


STOPS = frozenset({"failed", "success"})
CLEARED = "its task was cleared"
BEING_CLEARED = "restarting"
"""State that only a clear gives to a task with a worker. Its result then is the same as that of a retry."""


def handle_kill(home: StreamHome, task: Any, say: Callable[[str], None]) -> None:  # noqa: ANN401  Airflow's, in its process
    """React to the end of ``task`` at a worker. After a mark only a driver that started later is asked to stop."""
    states = task.get_task_states(
        dag_id=task.dag_id, task_ids=[task.task_id], run_ids=[task.run_id], map_index=task.map_index
    )
    found = states.get(task.run_id, {}).get(task.task_id)
    state = None if found is None else str(found)  # None after it was cleared
    if state in STOPS:
        if read_desired(home).state is not DesiredState.RUNNING:
            ask_to_stop(home, f"task {task.dag_id}.{task.task_id} was marked {state}", say)
    elif state == BEING_CLEARED:
        ask_to_stop(home, CLEARED, say)
    else:
        say(f"the watch of {home.name} was ended ({state}). Its driver keeps running")
