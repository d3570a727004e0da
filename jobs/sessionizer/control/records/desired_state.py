"""The file ``desired.json``: the state that users want of the stream."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sessionizer.home.clock import epoch_ms
from sessionizer.home.json_record import JsonRecord
from sessionizer.home.record_file import ControlFile

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
    ``afterwards`` is the desired state after maintenance.
    """

    state: DesiredState
    at: int = 0
    by: str = ""
    why: str = ""
    approved: str | None = None
    afterwards: DesiredState | None = None


DESIRED_FILE: Final = ControlFile("desired.json", Desired)


def write_desired(
    home: StreamHome,
    state: DesiredState,
    *,
    by: str,
    why: str,
    approved: str | None = None,
    afterwards: DesiredState | None = None,
) -> Desired:
    """Replace the desired state. Raises UnwritablePath, DiskFull, ControlUnreachable."""
    desired = Desired(state, epoch_ms(), by, why, approved, afterwards)
    DESIRED_FILE.of(home).write(desired)
    return desired


def end_maintenance(home: StreamHome, afterwards: DesiredState, *, by: str, why: str) -> None:
    """Set the desired state to ``afterwards``, unless it was changed since the maintenance began.

    Raises UnwritablePath, DiskFull, ControlUnreachable, DamagedFile.
    """
    if read_desired(home).state is DesiredState.MAINTENANCE:
        write_desired(home, afterwards, by=by, why=why)


def read_desired(home: StreamHome) -> Desired:
    """Return the desired state, RUNNING if it was never set.

    Raises DamagedFile, because a guess could restart a stopped stream. Raises also ControlUnreachable.
    """
    return DESIRED_FILE.of(home).require() or Desired(DesiredState.RUNNING)
