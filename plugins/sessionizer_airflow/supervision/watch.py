"""Watch of a stream while it has no worker, and the one place that records its failures and alerts users of it."""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Heartbeat, Phase
from sessionizer.control.records.supervision_records import (
    HEALTH_FILE,
    SUPERVISION_FILE,
    Desired,
    DesiredState,
    Health,
    Problem,
    SupervisionRecord,
    examine_desired,
)
from sessionizer.control.status.driver_status import DriverStatus, State
from sessionizer.deployment.releases import release_to_return
from sessionizer.errors import RetryEffect, SessionizerError
from sessionizer.fleet.finding import StreamHealth
from sessionizer.fleet.judge import WORKING
from sessionizer.home.clock import describe_duration, epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.alerting import Alert, AlertKind
from sessionizer_airflow.supervision.decide import Action, Adopt, Situation, StandBy, Wait, decide, read_situation
from sessionizer_airflow.supervision.failures import (
    Failure,
    add_failure,
    add_unseen,
    end_wait,
    failure_of,
    is_backing_off,
    is_due_to_tell,
    is_known,
    is_rollback_due,
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
    """Result of a look: a ``line`` with its ``level``, the stable part ``about``, whether to ``call`` a worker."""

    about: tuple[str, ...]
    line: str
    call: bool
    level: int = logging.INFO


def look_at(home: StreamHome, policy: SupervisionPolicy, unwritten: SupervisionRecord | None = None) -> Look:
    """Look at the stream. Never raises. ``unwritten``: the newest record, if it could not be written."""
    now_ms = epoch_ms()
    record = unwritten or SUPERVISION_FILE.of(home).read() or SupervisionRecord()
    try:
        situation = read_situation(home, policy, now_ms)
    except SessionizerError as error:
        call = unwritten is None or not is_backing_off(unwritten, policy, now_ms)
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
                since = record.unseen_since
                is_due = since is None or not since <= now_ms <= since + policy.takeover_after_ms
                return is_due and add_unseen(record, driver.heard_ms, now_ms) != record
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
        """Return the newest record, an empty one if there is none: a damaged file must not keep a stream down."""
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
            self.write(replace(record, waiting_told=True))
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


def examine_health(
    noted: Health, beat: Heartbeat | None, judged: StreamHealth | None, now_ms: int, *, wanted: bool = True
) -> Health:
    """Return the noted health after a look at ``now_ms`` (epoch), with the newest heartbeat and judgement.

    A batch without rows says nothing of a lag, so it ends none. A stream is stale until it works, also if users are
    told of another cause meanwhile. ``judged`` is None if the judgement is unknown. ``wanted``: the stream should run.
    """
    if beat is not None and beat.phase in WORKING:
        # a driver that hangs at a batch still writes heartbeats
        noted = replace(noted, worked_at=max(noted.worked_at, beat.progress_at or beat.at))
    if judged is None:
        return noted
    found = judged.alarm if wanted else None
    if found is None and wanted:
        says_nothing = beat is None or (beat.phase is not Phase.IDLE and not beat.input_rows)
        lasts = noted.worked_at <= (noted.since or 0) if noted.ailment is Problem.STALE else says_nothing
        if noted.ailment is not None and lasts:
            return noted
    problem = found.problem if found else None
    if problem is noted.ailment:
        return noted
    return replace(noted, ailment=problem, since=None if problem is None else now_ms)


def alert_on_change(
    stream: str, before: Health, after: Health, judged: StreamHealth | None, beat: Heartbeat | None, now_ms: int
) -> Alert | None:
    """Make the alert on a change of the problem, in the words of its finding. None without a change."""
    if before.ailment is after.ailment:
        return None
    found = judged.alarm if judged else None
    if found is None or found.problem is None:
        lasted = describe_duration(now_ms - (before.since or now_ms))
        return Alert.about(AlertKind.RECOVERED, stream, (f"it was {before.ailment} for {lasted}", ""), beat)
    return Alert.about(AlertKind(found.problem), stream, (found.what, found.remedy), beat)


WRITTEN_EVERY = 60_000
"""Ms between two records without news."""


class HealthWatch:
    """Examiner of one stream. Its record outlives the watch, so that users are told of each change once."""

    def __init__(self, home: StreamHome) -> None:
        self._home = home
        self._health: Health | None = None
        self._written: Health | None = None
        self._beat: Heartbeat | None = None

    def look(self, judged: StreamHealth | None) -> tuple[Heartbeat | None, Alert | None]:
        """Examine the stream now, as it was ``judged``. Return a new heartbeat and the alert. Never raises."""
        now_ms, beat = epoch_ms(), HEARTBEAT_FILE.of(self._home).read()
        desired = examine_desired(self._home).value or Desired(DesiredState.RUNNING)
        before = self._health or HEALTH_FILE.of(self._home).read() or Health(worked_at=now_ms)
        wanted = desired.state is DesiredState.RUNNING  # a stream that was stopped has not recovered
        self._health = health = replace(examine_health(before, beat, judged, now_ms, wanted=wanted), looked_at=now_ms)
        written, since = self._written, now_ms - ((self._written and self._written.looked_at) or 0)
        if not written or written.ailment is not health.ailment or not 0 <= since < WRITTEN_EVERY:
            self._written = health
            with suppress(SessionizerError):
                HEALTH_FILE.of(self._home).write(health)
        alert = alert_on_change(self._home.name, before, health, judged, beat, now_ms) if wanted else None
        news, self._beat = beat if beat != self._beat else None, beat
        return news, alert
