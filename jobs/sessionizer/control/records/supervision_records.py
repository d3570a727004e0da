"""The records of the state that users want of the stream, and of what Airflow knows: failures, watch, health, pause.

Users and commands write ``desired.json``. A command reads it first, and a user may decide otherwise between the two. So
each decision of a user is in ``desired_by_user.json`` as well, and ``desired.json`` names the one that its writer has
seen. An unseen one holds.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from sessionizer.errors import SessionizerError
from sessionizer.home.clock import epoch_ms
from sessionizer.home.json_record import JsonRecord, Moment
from sessionizer.home.record_file import ControlFile, Reading, RecordFile
from sessionizer.home.stream_home import StreamHome


class DesiredState(StrEnum):
    """RUNNING: keep a driver up. STOPPED: none until a user says so. MAINTENANCE: none while a job still needs it."""

    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    MAINTENANCE = "MAINTENANCE"


@dataclass(frozen=True, slots=True)
class Desired(JsonRecord):
    """The desired state, the time at which it was set (epoch ms, 0 if it never was), by which user and why.

    ``approved`` is the fingerprint of a spec that may be applied, once, by the next driver that finds it in the file.
    ``afterwards`` is the desired state after maintenance. ``seen`` is the ``at`` of the newest decision of a user that
    its writer has seen, 0 if there was none. Earlier releases noted none.
    """

    state: DesiredState
    at: Moment = 0
    by: str = ""
    why: str = ""
    approved: str | None = None
    afterwards: DesiredState | None = None
    seen: int | None = None


DESIRED_FILE: Final = ControlFile("desired.json", Desired)
USER_FILE: Final = ControlFile("desired_by_user.json", Desired)


def write_desired(
    home: StreamHome,
    state: DesiredState,
    *,
    by: str,
    why: str,
    approved: str | None = None,
    afterwards: DesiredState | None = None,
) -> Desired:
    """Replace the desired state by the decision of a user. Raises UnwritablePath, DiskFull, ControlUnreachable."""
    now = epoch_ms()
    desired = Desired(state, now, by, why, approved, afterwards, seen=now)
    USER_FILE.of(home).write(desired)
    DESIRED_FILE.of(home).write(desired)
    return desired


def begin_maintenance(home: StreamHome, found: Desired, afterwards: DesiredState, *, by: str, why: str) -> None:
    """Set the desired state to MAINTENANCE, and to ``afterwards`` after it, as decided by the state that was ``found``.

    A user who has decided otherwise since then is not overwritten. Raises UnwritablePath, DiskFull, ControlUnreachable.
    """
    maintenance = Desired(DesiredState.MAINTENANCE, epoch_ms(), by, why, afterwards=afterwards, seen=found.seen or 0)
    DESIRED_FILE.of(home).write(maintenance)


def end_maintenance(home: StreamHome, afterwards: DesiredState, *, by: str, why: str) -> None:
    """Set the state to ``afterwards``, unless it changed since.

    Raises UnwritablePath, DiskFull, ControlUnreachable, DamagedFile.
    """
    found = read_desired(home)
    if found.state is DesiredState.MAINTENANCE:
        DESIRED_FILE.of(home).write(Desired(afterwards, epoch_ms(), by, why, seen=found.seen or 0))


def read_desired(home: StreamHome) -> Desired:
    """Return the desired state, RUNNING if never set. Raises DamagedFile: a guess could restart a stream."""
    return examine_desired(home).require() or Desired(DesiredState.RUNNING)


def examine_desired(home: StreamHome) -> Reading[Desired]:
    """Read the desired state. The result tells an absent file from a damaged one. Never raises."""
    written, by_user = DESIRED_FILE.of(home).examine(), USER_FILE.of(home).examine()  # a user writes the second first
    damaged = next((each for each in (written, by_user) if each.error is not None), None)
    return damaged or Reading(value=_newest(written.value, by_user.value))


def _newest(written: Desired | None, by_user: Desired | None) -> Desired | None:
    """Return the ``written`` state, unless its writer had not seen the user's. Earlier releases noted none."""
    if by_user is None or written is None:
        return written or by_user
    has_seen = written.at >= by_user.at if written.seen is None else written.seen == by_user.at
    return replace(written, seen=by_user.at) if has_seen else by_user


@dataclass(frozen=True, kw_only=True, slots=True)
class SupervisionRecord(JsonRecord):
    """The newest failure of a driver start, and its consequences. Times are epoch ms.

    ``failures`` in a row count against the restart budget. ``attempts`` in a row do not, because they failed for a
    transient cause, since ``waiting_since``. ``waiting_told`` tells whether a notification of it was sent.
    ``counted_uid`` is the driver of the newest failure. ``settled_uid`` is a dead driver that a user has dealt with, so
    its end counts no more. A driver that cannot be seen has given no sign since ``unseen_since`` by our own clock, and
    its last sign is ``unseen_beat``. ``false_starts`` of the lineage ``false_starts_of`` ended before its first batch.
    """

    failures: int = 0
    attempts: int = 0
    last_failure: str = ""
    last_failure_ms: Moment = 0
    cause: str | None = None
    remedy: str = ""
    restart_at: Moment = 0
    counted_uid: str | None = None
    settled_uid: str | None = None
    waiting_since: Moment | None = None
    unseen_since: Moment | None = None
    unseen_beat: Moment | None = None
    waiting_told: bool = False
    given_up: bool = False
    false_starts: int = 0
    false_starts_of: str | None = None


SUPERVISION_FILE: Final = ControlFile("supervision.json", SupervisionRecord)


@dataclass(frozen=True, kw_only=True, slots=True)
class WatchRecord(JsonRecord):
    """Try ``try_number`` of DAG run ``run_id``. Airflow allows ``max_tries`` tries, and the run had so many ``clears``.

    ``ended`` if it ended by itself. The watch lasts ``until`` then (epoch ms), and reads specs in the folder
    ``streams``. ``bundle`` is the name and version of the DAG bundle that it runs by. Earlier releases noted none.
    """

    run_id: str
    try_number: int
    max_tries: int = 0
    clears: int = 0
    ended: bool = False
    until: Moment = 0
    streams: str | None = None
    bundle: str | None = None

    def is_cleared_by(self, later: WatchRecord) -> bool:
        """Whether ``later`` exists by a clear (more clears, or tries if no run was set), not a retry."""
        return self.run_id == later.run_id and (self.clears < later.clears or self.max_tries < later.max_tries)

    def is_followed_by(self, other: WatchRecord | None) -> bool:
        """Whether ``other`` is of a later try or run. Airflow starts one if it takes a worker for dead."""
        return other is not None and (self.run_id, self.try_number) < (other.run_id, other.try_number)

    def is_past(self, run_id: str) -> bool:
        """Whether the scheduled run ``run_id`` was over when this was written. Their ids sort by date."""
        return run_id < self.run_id or (run_id == self.run_id and self.ended)


WATCH_FILE: Final = ControlFile("watch.json", WatchRecord)


def bundle_of_watch(home: StreamHome) -> str | None:
    """Return the DAG bundle by which Airflow watches the stream now, as ``name@version``. None if none is known."""
    watch = WATCH_FILE.of(home).read()
    return None if watch is None or watch.ended else watch.bundle


class Problem(StrEnum):
    """The ailments of a stream."""

    STALE = "stale"
    LAGGING = "lagging"
    STRAGGLER = "straggler"
    DEGRADED = "degraded"
    """Any other finding for which a user must look."""
    DOWN = "down"


@dataclass(frozen=True, kw_only=True, slots=True)
class Health(JsonRecord):
    """The stream was last seen working at ``worked_at``, and has had its ``ailment`` ``since`` then (epoch ms).

    A supervisor last looked at ``looked_at``, give or take a minute. Earlier releases noted none.
    """

    worked_at: Moment
    ailment: Problem | None = None
    since: Moment | None = None
    looked_at: Moment | None = None


HEALTH_FILE: Final = ControlFile("health.json", Health, durable=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class PauseRecord(JsonRecord):
    """Airflow's own record: whether the supervising DAG is paused, and an asset ``taken`` by another DAG."""

    paused: bool
    at: Moment
    taken: str = ""


PAUSE_FILE: Final = ControlFile("pause.json", PauseRecord, durable=False)


def note_pause(home: StreamHome, *, paused: bool, taken: str | None = None) -> None:
    """Note the pause, and the ``taken`` asset ("" for none, None keeps the noted one). Never raises."""
    file = PAUSE_FILE.of(home)
    if taken is None:
        noted = file.read()
        taken = noted.taken if noted else ""
    with suppress(SessionizerError):  # a stream that never ran has no control directory
        file.write(PauseRecord(paused=paused, at=epoch_ms(), taken=taken))


def note_end_of_pause(home: StreamHome) -> None:
    """Note that the DAG is not paused, because a worker of it runs, if the note says that it is. Never raises."""
    record = PAUSE_FILE.of(home).read()
    if record is not None and record.paused:
        note_pause(home, paused=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class NotifiedRecord(JsonRecord):
    """The driver, the command, or the waiting upgrade, ``uid``, of which a notification was sent."""

    uid: str | None = None


@dataclass(frozen=True)
class NotifiedFile:
    """The record by which a notification is sent only once for a stream's driver, or command, in condition ``name``."""

    name: str

    def newest(self, home: StreamHome) -> str | None:
        """Return the ``uid`` of the newest notification. None if there is none."""
        told = self._of(home).read()
        return None if told is None else told.uid

    def is_news(self, home: StreamHome, uid: str | None) -> bool:
        """Whether no notification of ``uid`` was sent yet. From now on it counts as sent."""
        told = self._of(home).read()
        if told is not None and told.uid == uid:
            return False
        with suppress(SessionizerError):
            self._of(home).write(NotifiedRecord(uid=uid))
        return True

    def forget(self, home: StreamHome) -> None:
        """Forget the notification, because all is well. If the condition returns, it is news."""
        with suppress(OSError):
            self._of(home).remove()

    def _of(self, home: StreamHome) -> RecordFile[NotifiedRecord]:
        return ControlFile(f"{self.name}.json", NotifiedRecord).of(home)


TOLD_OF_ORPHAN: Final = NotifiedFile("orphan")
TOLD_OF_UNWATCHED: Final = NotifiedFile("unwatched")
TOLD_OF_STUCK: Final = NotifiedFile("stuck")
TOLD_OF_UPGRADE: Final = NotifiedFile("upgrade")
RUN_OF_WINDOW: Final = NotifiedFile("window_run")


@dataclass(frozen=True, kw_only=True, slots=True)
class ListApproval(JsonRecord):
    """Approval, ``by`` a user, of the waiting upgrade of this ``digest`` in a list, ``until`` then (epoch ms)."""

    digest: str
    by: str
    until: Moment


APPROVED_UPGRADE: Final = ControlFile("approved_upgrade.json", ListApproval)
