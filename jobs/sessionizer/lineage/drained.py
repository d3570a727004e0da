"""``drained.json`` of a lineage: its sessions are closed for good. No run can resume it (docs/adr/0057)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from sessionizer.checkpoint.batch_logs import read_last_commit
from sessionizer.errors import StreamDrained
from sessionizer.home.clock import epoch_ms
from sessionizer.home.json_record import JsonRecord, Moment
from sessionizer.home.record_file import LineageFile
from sessionizer.lineage.active import active_lineage, examine_active

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


@dataclass(frozen=True, slots=True)
class DrainRecord(JsonRecord):
    """Times (epoch ms) of a drain and its last ``batch_id``. Without ``over_at`` the next run finishes it."""

    begun_at: Moment
    over_at: Moment | None = None
    batch_id: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether every session is closed, and the batch that closed the last one is committed."""
        return self.over_at is not None

    @property
    def moment(self) -> str:
        """Moment at which it was over, or else begun, in UTC."""
        return f"{datetime.fromtimestamp((self.over_at or self.begun_at) / 1000, UTC):%Y-%m-%d %H:%M} UTC"


DRAINED_FILE: Final = LineageFile("drained.json", DrainRecord)


def begin_drain(home: StreamHome, lineage: str) -> None:
    """Record the drain before the punctuation that closes everything: from then on there is no way back."""
    file = DRAINED_FILE.of(home, lineage)
    if file.require() is None:
        file.write(DrainRecord(epoch_ms()))


def end_drain(home: StreamHome, lineage: str) -> None:
    """Record that every session is closed and that the batch that closed the last one is committed."""
    file, batch_id = DRAINED_FILE.of(home, lineage), read_last_commit(home.checkpoint(lineage))
    file.write(replace(file.require() or DrainRecord(epoch_ms()), over_at=epoch_ms(), batch_id=batch_id))


def require_not_drained(home: StreamHome) -> None:
    """Raise StreamDrained if the active lineage is over. Raises DamagedFile."""
    lineage = active_lineage(home)
    drain = DRAINED_FILE.of(home, lineage).require() if lineage else None
    if lineage is not None and drain is not None and drain.is_over:
        raise StreamDrained(home.name, lineage, drain.batch_id, drain.moment)


def examine_drain(home: StreamHome) -> DrainRecord | None:
    """Read the record of the active lineage for a command that only reads. Never raises."""
    return examine_active(home, lambda home, lineage: DRAINED_FILE.of(home, lineage).require())
