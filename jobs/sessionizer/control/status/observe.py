"""The translation of a control directory's reading into the stream's state, for the command line and Airflow."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sessionizer.control.lease.ledger import read_lease
from sessionizer.control.patience import STALE_AFTER_MS, STARTUP_GRACE_MS
from sessionizer.control.records.desired_state import DESIRED_FILE, Desired, DesiredState
from sessionizer.control.records.exit_record import EXIT_FILE, ExitOutcome, ExitRecord, stop_requested
from sessionizer.control.records.heartbeat import HEARTBEAT_FILE, Heartbeat, Phase
from sessionizer.control.records.lease_record import LeaseRecord, Vacancy, lease_file
from sessionizer.control.records.process_identity import is_alive
from sessionizer.control.status.observation import ControlReading, Observation, Stall, State
from sessionizer.home.json_file import Reading

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


def observe(
    reading: ControlReading, now: int, *, startup_grace_ms: int = STARTUP_GRACE_MS, stale_after_ms: int = STALE_AFTER_MS
) -> Observation:
    """Return the verdict at ``now`` (epoch ms). Any reading, however contradictory, has one. Never raises."""
    known = _select_driver(reading)
    sign = _last_sign(known)
    stall = _stall(known.lease, known.heartbeat, now, startup_grace_ms, stale_after_ms) if known.lease else None
    state = _state(known, stall, now, startup_grace_ms)
    progress_at = known.heartbeat.progress_at if known.heartbeat else None
    return Observation(
        state=state,
        # Clocks of two hosts may disagree: a beat from the future is a fresh one.
        age_ms=None if sign is None else max(0, now - sign),
        uid=known.uid,
        desired=known.desired,
        lease=known.lease,
        alive=known.alive,
        heartbeat=known.heartbeat,
        exit_record=known.exit_record,
        stop_requested=known.stop_requested,
        damage=known.damage,
        stall=stall if state is State.STALLED else None,
        progress_age_ms=None if progress_at is None else max(0, now - progress_at),
    )


def read_observation(
    home: StreamHome,
    now: int,
    *,
    startup_grace_ms: int = STARTUP_GRACE_MS,
    stale_after_ms: int = STALE_AFTER_MS,
    uid: str | None = None,
    launched_at: int | None = None,
) -> Observation:
    """Return the state of the stream at ``home`` at ``now`` (epoch ms), also for a home that does not exist yet.

    With ``uid``, it is the state of that driver, launched at ``launched_at`` (epoch ms) and perhaps without the lease.
    Raises ControlUnreachable.
    """
    reading = _gather(home, uid, launched_at)
    return observe(reading, now, startup_grace_ms=startup_grace_ms, stale_after_ms=stale_after_ms)


def _gather(home: StreamHome, uid: str | None, launched_at: int | None) -> ControlReading:
    # The process is looked at before its exit record is read: the other way round, a driver that ends in between
    # would have vanished.
    lease = read_lease(home)
    process = lease.process if lease else None
    alive = is_alive(process) if process else None
    desired, heartbeat = DESIRED_FILE.of(home).examine(), HEARTBEAT_FILE.of(home).examine()
    subject = uid or (lease.uid if lease else None)
    ended: Reading[ExitRecord] = EXIT_FILE.of(home, subject).examine() if subject else Reading()
    owner: Reading[LeaseRecord] = lease_file(home, lease.token).examine() if lease else Reading()
    damages = (desired.damage, owner.damage, heartbeat.damage, ended.damage)
    return ControlReading(
        desired=desired.value or Desired(DesiredState.RUNNING),
        lease=lease,
        alive=alive,
        heartbeat=heartbeat.value,
        exit_record=ended.value,
        stop_requested=bool(subject) and stop_requested(home, subject or ""),
        uid=uid,
        launched_at=launched_at,
        damage=tuple(damage for damage in damages if damage is not None),
    )


def _select_driver(reading: ControlReading) -> ControlReading:
    """Return the part that concerns the requested driver, else the lease's (last) owner.

    Other drivers' records are removed.
    """
    lease = reading.lease
    if lease is not None and reading.uid not in {None, lease.uid}:
        lease = None
    uid = reading.uid or (lease.uid if lease else None)
    beat, ended = reading.heartbeat, reading.exit_record
    since = lease.acquired_at if lease else 0
    # An unknown owner (a damaged lease) may be the author of any heartbeat.
    beat_fits = beat is not None and lease is not None and uid in {None, beat.uid} and beat.at >= since
    return replace(
        reading,
        uid=uid,
        lease=lease,
        alive=reading.alive if lease else None,
        heartbeat=beat if beat_fits else None,
        exit_record=ended if ended is not None and ended.uid == uid and ended.at >= since else None,
    )


def _last_sign(known: ControlReading) -> int | None:
    """Return the time of the driver's last sign of life (epoch ms)."""
    if known.exit_record is not None:
        return known.exit_record.at
    if known.heartbeat is not None:
        return known.heartbeat.at
    return known.lease.acquired_at if known.lease else known.launched_at


def _state(known: ControlReading, stall: Stall | None, now: int, startup_grace_ms: int) -> State:
    if known.exit_record is not None:
        return State.FAILED if known.exit_record.outcome is ExitOutcome.FAILED else State.STOPPED
    if known.lease is None:
        return _state_before_lease(known, now, startup_grace_ms)
    if known.lease.vacancy is Vacancy.RELEASED:
        return State.STOPPED
    if _is_gone(known, known.lease):
        return State.VANISHED
    if stall is not None:
        return State.STALLED
    return _state_of_live(known, known.lease)


def _state_before_lease(known: ControlReading, now: int, startup_grace_ms: int) -> State:
    if known.launched_at is None:
        return State.NEVER_STARTED
    return State.STARTING if now - known.launched_at <= startup_grace_ms else State.VANISHED


def _is_gone(known: ControlReading, lease: LeaseRecord) -> bool:
    # A driver that was fenced and cannot be seen from here was killed by the cluster.
    return known.alive is False or (lease.vacancy is Vacancy.FENCED and known.alive is None)


def _stall(
    lease: LeaseRecord, heartbeat: Heartbeat | None, now: int, startup_grace_ms: int, stale_after_ms: int
) -> Stall | None:
    if heartbeat is None or heartbeat.phase is Phase.STARTING:
        # A beat alone is no progress: a driver may beat for ever without reaching its first batch.
        got_on_at = (heartbeat.progress_at if heartbeat else None) or lease.acquired_at
        return Stall.NO_START if now - max(got_on_at, lease.acquired_at) > startup_grace_ms else None
    if now - heartbeat.at > stale_after_ms:
        return Stall.SILENT
    # a driver of an earlier release tells nothing of its progress
    progress_at = heartbeat.at if heartbeat.progress_at is None else heartbeat.progress_at
    return Stall.NO_PROGRESS if now - progress_at > stale_after_ms else None


def _state_of_live(known: ControlReading, lease: LeaseRecord) -> State:
    phase = known.heartbeat.phase if known.heartbeat else Phase.STARTING
    if phase is Phase.STOPPING or known.stop_requested or lease.vacancy is Vacancy.FENCED:
        return State.STOPPING
    return {Phase.STARTING: State.STARTING, Phase.IDLE: State.IDLE}.get(phase, State.RUNNING)
