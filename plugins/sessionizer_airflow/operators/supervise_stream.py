"""Operator that adopts or launches a stream's driver, then hands the watch to the triggerer."""

import logging
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any

from airflow.sdk import BaseOperator, Context

from sessionizer.control.maintenance import ask_to_stop
from sessionizer.control.records.supervision_records import (
    WATCH_FILE,
    SupervisionRecord,
    WatchRecord,
    note_end_of_pause,
)
from sessionizer.deployment.running_spec import describe_change
from sessionizer.errors import SessionizerError
from sessionizer.fleet.finding import HealthWord
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.alerting import Alert, health_now, notify
from sessionizer_airflow.errors import PersonNeeded, SupervisionEnded, WatchCancelled, fit_lines
from sessionizer_airflow.internals import send_label
from sessionizer_airflow.launching.cluster import ConnectionLauncher
from sessionizer_airflow.launching.local import Launcher
from sessionizer_airflow.metrics import count
from sessionizer_airflow.operators.desired_state import CLEARED, handle_kill
from sessionizer_airflow.project import Project
from sessionizer_airflow.supervision.act import Supervisor
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from sessionizer_airflow.supervision.tell import alert_on_surprise, subject
from sessionizer_airflow.triggers import StreamTrigger

SHOWN = "stream_state"
"""Context variable with the health of the stream, which a list of task instances shows in its column Map Index."""


class SuperviseStream(BaseOperator):
    """Task that adopts the stream's live driver or launches one, then defers. A worker is held only while it acts.

    The driver outlives the task. A run is a bounded watch of ``watch_lease_ms``. ``@continuous`` starts the next one,
    with today's DAG code and a fresh log. The trigger does all waiting, also the backoff between restarts. When a user
    has to act, the task fails without a retry. The DAG allows one failed run, and then pauses itself.
    """

    ui_color = "#d7ead9"

    def __init__(
        self,
        *,
        stream: str,
        project: Project,
        policy: SupervisionPolicy,
        watch_lease_ms: int,
        launcher: Launcher | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(map_index_template=f"{{{{ {SHOWN} | default('') }}}}", **kwargs)
        self.stream = stream
        self.project = project
        self.policy = policy
        self.watch_lease_ms = watch_lease_ms
        self.launcher = launcher or ConnectionLauncher(project=project)
        self._begun = False

    def execute(self, context: Context) -> None:
        """Begin a watch."""
        self._settle_and_watch(context, watch_until=epoch_ms() + self.watch_lease_ms)

    def resume(
        self,
        context: Context,
        event: dict[str, Any],
        watch_until: int | None = None,
        unwritten: dict[str, Any] | None = None,
        *,
        begun: bool = True,
    ) -> str | None:
        """Handle the trigger's event. `airflow dags test` hands on it alone, so it has the other arguments, too."""
        unwritten = unwritten or event.get("unwritten")
        if unwritten is not None:  # there may be room again
            self._supervisor.ledger.write(SupervisionRecord.from_json(unwritten))
        if event["watch_is_over"]:
            self._end_watch(context)
            return str(event["line"])
        watch_until = event["watch_until"] if watch_until is None else watch_until
        self._begun = begun
        self._settle_and_watch(context, watch_until)
        return None

    def on_kill(self) -> None:
        """Note that the task was killed. The reason is looked up after the step, because this is a signal handler."""
        self._supervisor.cancelled = True

    def _begin(self, context: Context, watch_until: int) -> None:
        """Begin a watch once: check whether the task was cleared, and whether a user resumed a given-up stream."""
        if self._begun:
            return
        home, watch = self._supervisor.home, self._watch(context, watch_until)
        home.prepare()
        before = WATCH_FILE.of(home).read()
        if before is not None and before.is_cleared_by(watch):
            ask_to_stop(home, CLEARED, self.log.info)
        # Only now, because a try that is killed before this must leave the clear to the next try.
        WATCH_FILE.of(home).write(watch)
        self._supervisor.take_over()
        self._begun = True

    def _end_watch(self, context: Context, label: str = "") -> None:
        """Record that the watch has ended, so that a mark changes nothing, unless a later try watches by now."""
        _show(context, label)
        file, watch = WATCH_FILE.of(self._supervisor.home), self._watch(context, epoch_ms())
        if not watch.is_followed_by(file.read()):
            with suppress(SessionizerError):
                file.write(replace(watch, ended=True))

    def _watch(self, context: Context, until: int) -> WatchRecord:
        """Return the record of this try. A cleared try has a higher number of clears than the one before."""
        task = context["ti"]
        bundle = getattr(task, "bundle_instance", None)
        version = getattr(bundle, "version", None)
        named = None if bundle is None else f"{bundle.name}@{version}" if version else str(bundle.name)
        return WatchRecord(
            run_id=task.run_id,
            try_number=task.try_number,
            max_tries=task.max_tries,
            clears=getattr(context["dag_run"], "clear_number", None) or 0,
            until=until,
            streams=str(self.project.streams),
            bundle=named,
        )

    def _settle_and_watch(self, context: Context, watch_until: int) -> None:
        task = context["ti"]
        try:
            decision = self._supervisor.settle(lambda: self._begin(context, watch_until))
            if decision is None:
                handle_kill(self._supervisor.home, task, self.log.info)
        except SupervisionEnded as error:
            self._end_watch(context, self._label())
            raise PersonNeeded.wrap(error) from None
        except Exception as error:
            if task.try_number > task.max_tries:  # else Airflow retries it
                self._tell(alert_on_surprise(self.stream, error))
            raise
        if decision is None:
            raise WatchCancelled(self.stream)
        note_end_of_pause(self._supervisor.home)
        shown = self._label()
        _show(context, shown)
        with suppress(SessionizerError):
            if (changed := describe_change(self._supervisor.home, self.project.streams)) is not None:
                self.log.info("%s", changed)
        unwritten = self._supervisor.ledger.unwritten
        kept = unwritten.to_json() if unwritten else None
        self.defer(
            trigger=StreamTrigger(
                stream=self.stream,
                platform_home=str(self.project.home),
                policy=asdict(self.policy),
                watch_until=watch_until,
                streams=str(self.project.streams),
                known=list(subject(decision)),
                shown=shown,
                unwritten=kept,
            ),
            method_name="resume",
            kwargs={"watch_until": watch_until, "unwritten": kept, "begun": self._begun},
        )

    def _label(self) -> str:
        health = health_now(self.project.home, self.project.streams, self.stream)
        return str(HealthWord.UNKNOWN) if health is None else health.label

    @cached_property
    def _supervisor(self) -> Supervisor:
        home = StreamHome.of(self.project.home, self.stream)
        return Supervisor(
            home=home,
            folders=self.project,
            launcher=self.launcher,
            policy=self.policy,
            say=self._say,
            tell=self._tell,
            count=lambda name: count(home, name),
        )

    def _say(self, line: str, level: int = logging.INFO) -> None:
        self.log.log(level, "%s", line if level == logging.INFO else fit_lines(line))

    def _tell(self, alert: Alert) -> None:
        notify(alert, self.log.warning)


def _show(context: Context, label: str) -> None:
    """Show the label in lists of tasks. Airflow does not render the template when a task defers, so it is sent."""
    context[SHOWN] = label  # type: ignore[literal-required]  # a variable of ours, for our template
    if label:
        send_label(label)
