"""Acts on decisions until there is nothing to do but wait. Knows nothing of Airflow."""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sessionizer.control.clock import epoch_ms
from sessionizer.control.lease import fence
from sessionizer.control.lease_ledger import read_lease
from sessionizer.control.stop_marker import request_stop
from sessionizer_airflow.argv import DriverCall, Folders
from sessionizer_airflow.errors import ClusterUnreachable, SupervisionEnded
from sessionizer_airflow.launching.launch_record import read_launch, write_launch
from sessionizer_airflow.launching.launcher import DriverTraces
from sessionizer_airflow.log_tail import tail
from sessionizer_airflow.supervision.alerts import alert_on
from sessionizer_airflow.supervision.decide import decide, describe_end, failed
from sessionizer_airflow.supervision.decisions import Adopt, Decision, GiveUp, Launch, Replace, StandBy, Wait
from sessionizer_airflow.supervision.history import History, read_history, write_history
from sessionizer_airflow.supervision.levels import level_of
from sessionizer_airflow.supervision.reading import read_situation
from sessionizer_airflow.supervision.wording import describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.control.stream_home import StreamHome
    from sessionizer_airflow.alerting.alert import Alert
    from sessionizer_airflow.launching.launcher import Launcher
    from sessionizer_airflow.supervision.levels import Say
    from sessionizer_airflow.supervision.policy import SupervisionPolicy
    from sessionizer_airflow.supervision.situation import Situation


@dataclass
class Supervisor:
    """Keeps the driver of one stream up. `say` takes one line for each thing done, `tell` what people should know."""

    stream: str
    home: StreamHome
    folders: Folders
    launcher: Launcher
    policy: SupervisionPolicy
    say: Say
    tell: Callable[[Alert], None] = lambda _: None
    cancelled: bool = field(default=False, init=False)

    def take_over(self) -> None:
        """Begin a watch. After a surrender this is a person's doing: they have mended the cause."""
        if read_history(self.home).gave_up:
            situation = read_situation(self.home, self.policy, epoch_ms())
            write_history(self.home, History().forgive(situation.driver))
            self.say("goes on after it had given up, with a full restart budget")

    def settle(self) -> Adopt | Wait | StandBy | None:
        """Do what has to be done now, and return what there is to wait for; None when cancelled.

        :raises SupervisionEnded: a person has to act.
        """
        while not self.cancelled:
            now_ms = epoch_ms()
            situation = read_situation(self.home, self.policy, now_ms)
            known = read_history(self.home)
            history = self._account(situation, known, now_ms)
            decision = decide(situation, history, self.policy, now_ms)
            self.say(describe(decision, situation, now_ms), level_of(decision))
            self._report(decision, situation, failed_now=history != known)
            self._act(decision, situation, history)
            if isinstance(decision, Adopt | Wait | StandBy):
                return decision
        return None

    def _account(self, situation: Situation, history: History, now_ms: int) -> History:
        """The history, with a failure that it does not know yet."""
        driver = situation.driver
        if driver is None or not failed(driver) or driver.uid == history.forgiven_uid:
            return history
        charged = history.charge(driver, describe_end(driver), self.policy, now_ms)
        if charged != history:
            write_history(self.home, charged)
        return charged

    def _report(self, decision: Decision, situation: Situation, *, failed_now: bool) -> None:
        """Show the last words of a driver that failed, and tell people."""
        driver = situation.driver
        alert = alert_on(decision, situation, self.stream, failed_now=failed_now)
        if driver is None or alert is None:
            return
        for line in tail(Path(driver.log)) if driver.log else ():
            self.say(f"{driver.uid} | {line}", logging.WARNING)
        self.tell(alert)

    def _act(self, decision: Decision, situation: Situation, history: History) -> None:
        match decision:
            case Launch():
                self.launch()
            case Replace(uid, why):
                self._replace(uid, why, situation, history)
            case StandBy(why, drain=str(uid)):
                request_stop(self.home, uid, why)
            case GiveUp(reason, remedy):
                write_history(self.home, history.giving_up())
                raise SupervisionEnded(self.stream, reason, remedy)

    def launch(self) -> None:
        """Start a driver under a new uid."""
        uid = secrets.token_hex(6)
        record = self.launcher.launch(self.home, DriverCall(stream=self.stream, uid=uid, folders=self.folders))
        whereabouts = f"pid {record.pid}" if record.submission is None else f"{record.submission} on {record.master}"
        self.say(f"driver {uid} launched: {whereabouts}, log {record.log}")

    def _replace(self, uid: str, why: str, situation: Situation, history: History) -> None:
        """End the driver: first its right to write, then its processes."""
        driver, traces = situation.driver, self._traces(uid)
        said = self._asked_about(traces)
        if driver is not None and situation.wanted:
            what = f"driver {uid} was replaced: {why}" + (f"; {said}" if said else "")
            write_history(self.home, history.charge(driver, what, self.policy, epoch_ms()))
        fence(self.home, uid)
        self._end(traces)

    def _asked_about(self, traces: DriverTraces) -> str:
        """What a cluster says of its driver, while it can still be asked."""
        if traces.launch is None or traces.launch.submission is None:
            return ""
        try:
            said = self.launcher.look_for(traces).said
        except ClusterUnreachable as error:
            said = str(error)
        self.say(f"driver {traces.uid}: {said}", logging.WARNING)
        return said

    def _end(self, traces: DriverTraces) -> None:
        """End the driver by force. That a cluster cannot be reached must not keep the stream down: it is fenced."""
        try:
            self.launcher.end_by_force(traces)
        except ClusterUnreachable as error:
            self.say(
                f"driver {traces.uid} may still be there, though it can write nothing more: {error}", logging.WARNING
            )
        if traces.launch is not None and traces.launch.submission is not None:
            write_launch(self.home, replace(traces.launch, ended_at=epoch_ms()))

    def _traces(self, uid: str) -> DriverTraces:
        """The process that was launched and the one that took the lease: with spark-submit, a JVM and its Python."""
        launch, lease = read_launch(self.home), read_lease(self.home)
        records = [record for record in (launch, lease) if record is not None and record.uid == uid]
        processes = tuple(record.process for record in records if record.process is not None)
        return DriverTraces(uid=uid, launch=launch if launch in records else None, processes=processes)

    def cancel(self) -> None:
        """Launch nothing more. It may be called from a signal handler while `settle` is under way."""
        self.cancelled = True
