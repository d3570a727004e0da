"""Supervisor that acts on decisions until it has to wait. It knows nothing of Airflow."""

import logging
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from sessionizer.causes.cause import name_stream
from sessionizer.causes.table import cause_of_error
from sessionizer.control.lease import fence, read_lease
from sessionizer.control.log_tail import last_words
from sessionizer.control.records.process_records import LAUNCH_FILE, read_launch, request_stop
from sessionizer.control.records.supervision_records import TOLD_OF_STUCK
from sessionizer.control.status.driver_status import DriverStatus, State
from sessionizer.errors import ClusterUnreachable, SessionizerError
from sessionizer.home.clock import epoch_ms
from sessionizer.home.names import name_process
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.canary.canary_record import fail_unstarted
from sessionizer_airflow.alerting import Alert
from sessionizer_airflow.errors import SupervisionEnded
from sessionizer_airflow.launching.local import DriverObservation, DriverTraces, Launcher
from sessionizer_airflow.launching.spark_submit import DriverCall
from sessionizer_airflow.project import Folders
from sessionizer_airflow.supervision.decide import (
    Action,
    Adopt,
    GiveUp,
    Launch,
    Replace,
    RollBack,
    Situation,
    StandBy,
    Wait,
    decide,
    read_situation,
)
from sessionizer_airflow.supervision.failures import (
    Failure,
    cut_to_line,
    failure_of,
    reason_to_give_up,
    remedy_after_giving_up,
    reset_budget,
)
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from sessionizer_airflow.supervision.tell import Say, alert_on_unattended, describe, level_of
from sessionizer_airflow.supervision.watch import Ledger


@dataclass
class Supervisor:
    """Supervisor of one stream's driver. ``say`` takes one line for each action, the rest is as in ``Ledger``.

    ``being_ended``: the driver whose end has begun, and is not known to be complete. ``failed_launch``: uid of the
    newest driver, if it could not be launched. ``cancelled``: launch no more. A signal handler may set it.
    """

    home: StreamHome
    folders: Folders
    launcher: Launcher
    policy: SupervisionPolicy
    say: Say
    tell: Callable[[Alert], None] = lambda _: None
    count: Callable[[str], None] = lambda _: None
    cancelled: bool = field(default=False, init=False)
    being_ended: str | None = field(default=None, init=False)
    failed_launch: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.home, self.policy, self.tell, self.count)

    def take_over(self) -> None:
        """Begin a watch. After giving up, a user who begins one has mended the cause: the budget is full again."""
        record = self.ledger.read()
        if record.given_up:
            driver = read_situation(self.home, self.policy, epoch_ms()).driver
            self.ledger.write(reset_budget(record, driver.uid if driver else None))
            self.say("supervision resumes after it had given up, with a full restart budget")

    def settle(self, begin: Callable[[], None] = lambda: None) -> Adopt | Wait | StandBy | None:
        """Call ``begin``, then act until there is only a wait left. Return that decision, or None when cancelled.

        An error on the way is a failure like any other. Users are told of it, and it is waited for if it may pass.

        Raises SupervisionEnded: a user has to act.
        """
        try:
            begin()
            while not self.cancelled:
                decision = self._step()
                if isinstance(decision, Adopt | Wait | StandBy):
                    return decision
        except SupervisionEnded:
            raise
        except (SessionizerError, OSError) as error:
            return self._hindered(error)
        return None

    def _step(self) -> Action:
        now_ms = epoch_ms()
        situation = read_situation(self.home, self.policy, now_ms)
        self._take_note(situation)
        decision = decide(situation, self.ledger.read(), self.policy, now_ms)
        unfinished = situation.unfinished if isinstance(decision, StandBy) and decision.unattended else None
        if unfinished is not None and TOLD_OF_STUCK.is_news(self.home, unfinished.try_key):
            self.tell(alert_on_unattended(self.home.name, unfinished))
        self._tell(decision, situation, now_ms)
        self._act(decision, situation)
        return decision

    def _take_note(self, situation: Situation) -> None:
        driver, failure = situation.driver, failure_of(situation.driver, situation.unstarted)
        if failure is not None and situation.wanted and failure.uid != self.ledger.read().settled_uid:
            self._conclude(failure, driver)
        if driver is not None and driver.state is State.STALLED and driver.out_of_sight is not None:
            self.ledger.note_unseen(driver)
        if driver is not None and driver.works:
            self.ledger.note_work(driver)
        elif situation.wanted:
            self.ledger.note_waiting(driver, situation.desired.at)

    def _conclude(self, failure: Failure, driver: DriverStatus | None) -> None:
        """Show the last words of a failed driver, once. Have the ledger record the failure and alert users."""
        if self.ledger.note_failure(failure, driver):
            printed = [*(last_words(Path(failure.log)) if failure.log else ())]
            traces = None if failure.uid is None else self.traces(failure.uid)
            if traces is not None and traces.is_in_cluster:
                printed += self.launcher.last_words(traces)
            for line in printed:
                self.say(f"{failure.uid} | {line}", logging.WARNING)

    def _hindered(self, error: SessionizerError | OSError) -> Wait:
        """Record an error of the supervisor itself, and return the wait before the next. Raises SupervisionEnded."""
        what = f"{type(error).__name__}: {cut_to_line(str(error))}"
        # a driver whose launch failed is the newest one, if its launch is on record
        launch, failed = read_launch(self.home), self.failed_launch
        uid = failed if launch is not None and launch.uid == failed else None
        self._conclude(Failure(what=what, cause=cause_of_error(error), uid=uid), None)
        record = self.ledger.read()
        if self.being_ended is not None and not record.given_up:
            # its later end is no new failure
            self.ledger.write(replace(record, counted_uid=self.being_ended))
        self.ledger.note_waiting(None)
        record = self.ledger.read()
        if record.given_up:
            end = GiveUp(reason_to_give_up(record, self.policy), remedy_after_giving_up(record))
            self._tell(end, None, epoch_ms())
            raise SupervisionEnded(self.home.name, end.reason, end.remedy)
        wait = Wait(record.restart_at, f"{what}. What to do: {record.remedy}")
        self._tell(wait, None, epoch_ms())
        return wait

    def _tell(self, decision: Action, situation: Situation | None, now_ms: int) -> None:
        self.say(name_stream(describe(decision, situation, now_ms), self.home.name), level_of(decision))

    def _act(self, decision: Action, situation: Situation) -> None:
        match decision:
            case Launch():
                self.launch()
            case Replace():
                self._replace(decision, situation)
            case RollBack(lineage, why):
                # the lineage before has a full budget, and the next driver rolls back
                fail_unstarted(self.home, lineage, f"it never made a batch: {why}")
                driver = situation.driver
                self.ledger.write(reset_budget(self.ledger.read(), driver.uid if driver else None))
            case StandBy(why, stop=str(uid)):
                request_stop(self.home, uid, why)
            case GiveUp(reason, remedy):
                raise SupervisionEnded(self.home.name, reason, remedy)

    def _replace(self, decision: Replace, situation: Situation) -> None:
        """End the driver. Only completed steps are told."""
        uid, driver = decision.uid, situation.driver
        observed = self._end(uid, out_of_sight=decision.out_of_sight)
        if driver is not None and situation.wanted:
            said = f"; {observed.said}" if observed and observed.said else ""
            failure = Failure(
                what=f"{name_process(uid)} was replaced: {decision.why}{said}",
                cause=observed.cause if observed and observed.cause else decision.cause,
                uid=uid,
                lifetime_ms=driver.lifetime_ms,
                log=driver.log,
                unstarted=situation.unstarted,
            )
            self._conclude(failure, driver)

    def launch(self) -> None:
        """Start a driver under a new uid. Raises what keeps it from starting."""
        uid = secrets.token_hex(6)
        self.failed_launch = None
        try:
            record = self.launcher.launch(self.home, DriverCall(stream=self.home.name, uid=uid, folders=self.folders))
        except (SessionizerError, OSError):
            self._mark_ended(uid)
            self.failed_launch = uid
            raise
        whereabouts = f"pid {record.pid}" if record.submission is None else f"{record.submission} on {record.master}"
        if record.python is not None:
            whereabouts += f", by {record.python}"
        self.say(f"driver {uid} launched: {whereabouts}, log {record.log}")

    def _end(self, uid: str, *, out_of_sight: bool) -> DriverObservation | None:
        """Fence the driver, then kill its processes unless they are ``out_of_sight``.

        Returns what a cluster said of the driver before. None for a driver without a cluster. An unreachable cluster
        must not keep the stream down, because the driver is fenced.
        """
        traces, observed = self.traces(uid), None
        if traces.is_in_cluster:
            try:
                observed = self.launcher.look_for(traces)
            except ClusterUnreachable as error:
                observed = DriverObservation(alive=None, said=str(error), cause=cause_of_error(error))
            self.say(f"driver {uid}: {observed.said}", logging.WARNING)
        fence(self.home, uid)
        if out_of_sight:
            return observed
        self.being_ended = uid
        try:
            self.launcher.end_by_force(traces)
        except ClusterUnreachable as error:
            self.say(f"driver {uid} may still run, but can write nothing more: {error}", logging.WARNING)
        if traces.is_in_cluster:
            self._mark_ended(uid)
        self.being_ended = None
        return observed

    def traces(self, uid: str) -> DriverTraces:
        """Return the launched process and the lease's owner: with spark-submit, a JVM and its Python."""
        launch, lease = read_launch(self.home), read_lease(self.home)
        records = [record for record in (launch, lease) if record is not None and record.uid == uid]
        processes = tuple(record.process for record in records if record.process is not None)
        return DriverTraces(uid=uid, launch=launch if launch in records else None, processes=processes)

    def _mark_ended(self, uid: str) -> None:
        """Record that a launched driver has ended, so that no supervisor waits for it."""
        launch = read_launch(self.home)
        if launch is not None and launch.uid == uid:
            with suppress(SessionizerError):
                LAUNCH_FILE.of(self.home).write(replace(launch, ended_at=epoch_ms()))
