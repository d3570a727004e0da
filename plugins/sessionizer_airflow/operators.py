"""Keeping a stream up: the operator that adopts or launches its driver, then hands the watch to the triggerer."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException
from sessionizer.control.clock import epoch_ms
from sessionizer.control.desired_state import DesiredState, write_desired
from sessionizer.control.stop_marker import request_stop
from sessionizer.control.stream_home import StreamHome
from sessionizer.errors import TerminalError

from sessionizer_airflow.argv import Folders
from sessionizer_airflow.launching.local import LocalLauncher
from sessionizer_airflow.launching.spark_submit import ClientModeDriver
from sessionizer_airflow.supervision.live_drivers import live_drivers
from sessionizer_airflow.supervision.supervisor import Supervisor
from sessionizer_airflow.triggers import StreamTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sessionizer_airflow.launching.launcher import Launcher
    from sessionizer_airflow.project import Project
    from sessionizer_airflow.supervision.policy import SupervisionPolicy


class SuperviseStream(BaseOperator):
    """Adopts the stream's live driver or launches one, then defers; a worker is held only while something is done.

    The driver outlives the task. A run is a bounded watch of `watch_lease` ms; `@continuous` starts the next one, with
    today's DAG code and a fresh log. All waiting, the backoff between restarts included, is done by the trigger.

    When a person has to act, the task fails without a retry and the DAG, allowing one failed run, pauses itself.
    """

    ui_color = "#d7ead9"

    def __init__(
        self,
        *,
        stream: str,
        project: Project,
        policy: SupervisionPolicy,
        watch_lease: int,
        launcher: Launcher | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.project = project
        self.policy = policy
        self.watch_lease = watch_lease
        self.launcher = launcher or LocalLauncher(ClientModeDriver(project=project))
        self._supervisor: Supervisor | None = None

    def execute(self, context: Context) -> None:
        supervisor = self.supervisor()
        supervisor.take_over()
        self.settle_and_watch(supervisor, watch_until=epoch_ms() + self.watch_lease)

    def resume(self, context: Context, event: dict[str, Any], watch_until: int) -> str | None:
        """The trigger fired: the watch is over, or something has to be done."""
        if event["watch_is_over"]:
            return str(event["line"])
        self.settle_and_watch(self.supervisor(), watch_until)
        return None

    def settle_and_watch(self, supervisor: Supervisor, watch_until: int) -> None:
        try:
            waiting_for = supervisor.settle()
        except TerminalError as error:
            raise AirflowFailException(str(error)) from error
        if waiting_for is None:
            raise AirflowFailException(f"the supervision of {self.stream} was cancelled")
        self.defer(
            trigger=StreamTrigger(
                stream=self.stream,
                platform_home=str(self.project.home),
                policy=asdict(self.policy),
                watch_until=watch_until,
            ),
            method_name="resume",
            kwargs={"watch_until": watch_until},
        )

    def on_kill(self) -> None:
        """The task itself was ended, on a worker: a driver that it has just launched must not be left behind."""
        if self._supervisor is not None:
            self._supervisor.cancel("the task that launched it was killed")

    def supervisor(self) -> Supervisor:
        self._supervisor = Supervisor(
            stream=self.stream,
            home=StreamHome.of(self.project.home, self.stream),
            folders=Folders(home=self.project.home, streams=self.project.streams),
            launcher=self.launcher,
            policy=self.policy,
            say=self.log.info,
        )
        return self._supervisor


class SetDesiredState(BaseOperator):
    """Records what people want of a stream, and asks a live driver to drain if they do not want it."""

    template_fields = ("why",)

    def __init__(self, *, stream: str, project: Project, state: DesiredState, why: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.project = project
        self.state = state
        self.why = why

    def execute(self, context: Context) -> None:
        home = StreamHome.of(self.project.home, self.stream)
        home.prepare()
        by = f"DAG {context['dag'].dag_id}"
        write_desired(home, self.state, by=by, why=self.why)
        self.log.info("%s: desired state is %s", self.stream, self.state)
        if self.state is not DesiredState.RUNNING:
            for uid in live_drivers(home):
                request_stop(home, uid, f"desired state is {self.state} ({by})")
                self.log.info("driver %s is asked to drain", uid)
