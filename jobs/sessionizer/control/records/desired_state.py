"""The state that users want of the stream, in two files.

``desired.json`` is written by users and by commands, which set MAINTENANCE and end it. A command reads it before that.
A user may decide something else between the two. So each decision of a user is in ``desired_by_user.json`` as well,
which only users write, and ``desired.json`` names the one that its writer has seen. An unseen one holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sessionizer.home.clock import epoch_ms
from sessionizer.home.json_record import JsonRecord, Moment
from sessionizer.home.record_file import ControlFile, Reading

if TYPE_CHECKING:
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
    """Set the desired state to ``afterwards``, unless it was changed since the maintenance began.

    Raises UnwritablePath, DiskFull, ControlUnreachable, DamagedFile.
    """
    found = read_desired(home)
    if found.state is DesiredState.MAINTENANCE:
        DESIRED_FILE.of(home).write(Desired(afterwards, epoch_ms(), by, why, seen=found.seen or 0))


def read_desired(home: StreamHome) -> Desired:
    """Return the desired state, RUNNING if it was never set.

    Raises DamagedFile, because a guess could restart a stopped stream. Raises also ControlUnreachable.
    """
    return _newest(DESIRED_FILE.of(home).require(), USER_FILE.of(home).require()) or Desired(DesiredState.RUNNING)


def examine_desired(home: StreamHome) -> Reading[Desired]:
    """Read the desired state. The result tells an absent file from a damaged one. Never raises."""
    written, by_user = DESIRED_FILE.of(home).examine(), USER_FILE.of(home).examine()
    for reading in (written, by_user):
        if reading.error is not None:
            return reading
    return Reading(value=_newest(written.value, by_user.value))


def _newest(written: Desired | None, by_user: Desired | None) -> Desired | None:
    """Return the desired state by its two files: as written, unless the writer had not seen what a user decided.

    ``by_user`` must be read last, because a user writes it first. An earlier release writes only the other file, so
    there the later decision holds.
    """
    if by_user is None or written is None:
        return written or by_user
    has_seen = written.at >= by_user.at if written.seen is None else written.seen == by_user.at
    return replace(written, seen=by_user.at) if has_seen else by_user
