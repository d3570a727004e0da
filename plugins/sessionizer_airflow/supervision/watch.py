"""Watch of a stream while it has no worker, and the one place that records a failure and alerts users of it."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from sessionizer.control.records.supervision_records import SUPERVISION_FILE, SupervisionRecord
from sessionizer.control.status.driver_status import DriverStatus, State
from sessionizer.deployment.releases import release_to_return
from sessionizer.errors import RetryEffect, SessionizerError
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.alerting.alert import Alert
from sessionizer_airflow.supervision.decide import Action, Adopt, Situation, StandBy, Wait, decide, read_situation
from sessionizer_airflow.supervision.failures import (
    Failure,
    add_failure,
    add_unseen,
    end_wait,
    failure_of,
    is_due_to_tell,
    is_known,
    is_rollback_due,
    note_told,
)
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from sessionizer_airflow.supervision.tell import (
    alert_on_failure,
    alert_on_waiting,
    alert_on_work,
    describe,
    level_of,
    milestone,
    subject,
)


@dataclass(frozen=True)
class Look:
    """Result of a look: ``line`` for users, ``about`` to tell whether it is news, ``call`` when a worker has to act.

    ``level`` is INFO for a line that a worker is about to log itself.
    """

    about: tuple[str, ...]
    line: str
    call: bool
    level: int = logging.INFO


def look_at(home: StreamHome, policy: SupervisionPolicy, unwritten: SupervisionRecord | None = None) -> Look:
    """Look at the stream. Never raises, because a worker reports an unreadable file.

    ``unwritten`` is the newest record, if it could not be written. It has the time of the next action.
    """
    now_ms = epoch_ms()
    record = unwritten or SUPERVISION_FILE.of(home).read() or SupervisionRecord()
    try:
        situation = read_situation(home, policy, now_ms)
    except SessionizerError as error:
        call = unwritten is None or now_ms >= unwritten.restart_at
        return Look(("unreadable",), str(error), call, logging.WARNING)
    decision = decide(situation, record, policy, now_ms)
    call = _needs_worker(decision, situation, record, policy, now_ms)
    call = call or is_due_to_tell(record, policy, situation.desired.at, now_ms)
    level = logging.INFO if call else level_of(decision)
    about = (*subject(decision), *milestone(situation, now_ms))
    return Look(about, describe(decision, situation, now_ms), call, level)


def _needs_worker(
    decision: Action, situation: Situation, record: SupervisionRecord, policy: SupervisionPolicy, now_ms: int
) -> bool:
    driver = situation.driver
    match decision:
        case Adopt():
            return record.waiting_since is not None and driver is not None and driver.works
        case Wait():
            # Each look would date an unrecorded failure anew, and the wait would never end.
            failure = failure_of(driver)
            if driver is not None and driver.state is State.STALLED and driver.out_of_sight is not None:
                # Not each sign of an unseen driver is recorded while it still beats.
                is_due = record.unseen_since is None or now_ms - record.unseen_since > policy.takeover_after_ms
                return record.unseen_beat != driver.heard_ms and is_due
            return failure is not None and not is_known(record, failure) and failure.uid != record.settled_uid
        case StandBy(stop=stop):
            return stop is not None
        case _:
            return True


@dataclass
class Ledger:
    """The record of a stream's supervision. ``tell`` takes alerts for users, ``count`` the name of a counter.

    ``unwritten`` is the newest record while it cannot be written (a full disk). The caller must hand it to the next
    watch.
    """

    home: StreamHome
    policy: SupervisionPolicy
    tell: Callable[[Alert], None] = lambda _: None
    count: Callable[[str], None] = lambda _: None
    unwritten: SupervisionRecord | None = None

    def read(self) -> SupervisionRecord:
        """Return the newest record.

        It is empty if there is none, because a damaged file must not keep a stream down.
        """
        return self.unwritten or SUPERVISION_FILE.of(self.home).read() or SupervisionRecord()

    def write(self, record: SupervisionRecord) -> None:
        """Write ``record`` to disk, or keep it in memory. Never raises."""
        try:
            SUPERVISION_FILE.of(self.home).write(record)
        except SessionizerError:  # no room, no right, no mount
            self.unwritten = record
        else:
            self.unwritten = None

    def note_failure(self, failure: Failure, driver: DriverStatus | None) -> bool:
        """Record the failure and alert users, unless that was done before. Return whether it is new."""
        before, now_ms = self.read(), epoch_ms()
        if is_known(before, failure):
            return False
        record = add_failure(before, failure, self.policy, now_ms)
        self.write(record)
        is_transient = failure.cause.verdict is RetryEffect.TRANSIENT
        self.count("given_up" if record.given_up else "waits" if is_transient else "restarts")
        due = is_rollback_due(record, failure, self.policy)
        to_install = self._programs_to_install(failure) if due else ""
        alert = alert_on_failure(self.home.name, failure, record, self.policy, driver, to_install)
        if alert is not None:
            self.tell(alert)
        return True

    def _programs_to_install(self, failure: Failure) -> str:
        """Say which programs the lineage before needs and this machine lacks. Empty if none."""
        before = failure.unstarted.before if failure.unstarted else None
        try:
            return "" if before is None else release_to_return(self.home, before).remedy
        except SessionizerError as error:
            return str(error)

    def note_waiting(self, driver: DriverStatus | None, wanted_since: int = 0) -> None:
        """Alert users, once, of a transient cause that has lasted while the stream should run (since, epoch ms)."""
        record, now_ms = self.read(), epoch_ms()
        if is_due_to_tell(record, self.policy, wanted_since, now_ms):
            self.write(note_told(record))
            self.tell(alert_on_waiting(self.home.name, record, now_ms, driver))

    def note_unseen(self, driver: DriverStatus) -> None:
        """Record since when a ``driver`` that cannot be seen from here has given no sign."""
        record = self.read()
        after = add_unseen(record, driver.heard_ms, epoch_ms())
        if after != record:
            self.write(after)

    def note_work(self, driver: DriverStatus) -> None:
        """Record that the ``driver`` works, so that the wait is over. Alert users if they were told of the wait."""
        record = self.read()
        if record.waiting_since is None:
            return
        self.write(end_wait(record))
        if record.waiting_told:
            self.tell(alert_on_work(self.home.name, record, epoch_ms(), driver))
