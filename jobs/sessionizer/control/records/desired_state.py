"""``desired.json``: what people want of the stream, whatever it is doing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from sessionizer.home.clock import epoch_ms
from sessionizer.home.json_file import RecordReading, examine_record, require_undamaged, write_record
from sessionizer.home.json_record import JsonRecord

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


class DesiredState(StrEnum):
    """RUNNING: keep a driver up. STOPPED: none until someone says so. MAINTENANCE: none while a job needs it still."""

    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    MAINTENANCE = "MAINTENANCE"


@dataclass(frozen=True, slots=True)
class Desired(JsonRecord):
    """What people want, since when (epoch ms; 0 if nobody ever said), who and why.

    ``approved``: fingerprint of a spec that may be applied, once, by the next driver that finds it in the file.
    ``afterwards``: of a stream in maintenance, what they want when the job is over.
    """

    state: DesiredState
    at: int = 0
    by: str = ""
    why: str = ""
    approved: str | None = None
    afterwards: DesiredState | None = None


def write_desired(
    home: StreamHome,
    state: DesiredState,
    *,
    by: str,
    why: str,
    approved: str | None = None,
    afterwards: DesiredState | None = None,
) -> Desired:
    """Record what people want, in place of what they wanted before; raises UnwritablePath."""
    desired = Desired(state, epoch_ms(), by, why, approved, afterwards)
    write_record(home.control_files.desired, desired)
    return desired


def end_maintenance(home: StreamHome, afterwards: DesiredState, *, by: str, why: str) -> None:
    """Have that wanted from now on, unless somebody said otherwise meanwhile. Raises UnwritablePath, DamagedFile."""
    if read_desired(home).state is DesiredState.MAINTENANCE:
        write_desired(home, afterwards, by=by, why=why)


def read_desired(home: StreamHome) -> Desired:
    """What people want; RUNNING if nobody ever said. Raises DamagedFile: guessing could restart a stopped stream."""
    return require_undamaged(Desired, home.control_files.desired) or Desired(DesiredState.RUNNING)


def examine_desired(home: StreamHome) -> RecordReading[Desired]:
    """What the file says, for those who only look. Never raises."""
    return examine_record(Desired, home.control_files.desired)
