"""An operation under way: after each step its record is on disk.

A transient failure leaves it pending, so the stream stays stopped for the next try (docs/adr/0125). Any other abandons
it, if nothing that counts was changed. A process without the lease writes nothing, as another may have finished it.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from sessionizer.control.history.files import Mark, MarkKind, add_mark
from sessionizer.control.records.operation_record import Ending, OperationRecord, OperationStage, write_unless_abandoned
from sessionizer.control.records.supervision_records import DesiredState, end_maintenance, read_desired
from sessionizer.errors import ControlUnreachable, DamagedFile, DiskFull, TransientError, UnwritablePath
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import Store
from sessionizer.home.names import mint_id
from sessionizer.home.stream_home import StreamHome


def is_transient(error: Exception) -> bool:
    """Whether the error's type is a transient one."""
    return isinstance(error, TransientError)


@dataclass(slots=True)
class Operation:
    """An operation on the stream of ``home``, whose ``record`` is as its file.

    Each note raises StreamMovedOn, and is not made, if a user gave the operation up before its first note. ``permit``
    returns only while the lease is ours. It raises LeaseLost, ControlUnreachable. ``passes`` tells whether the next try
    may succeed after a failure. ``since``: begin of this try's work (epoch ms), because it may lie pending between two.
    """

    home: StreamHome
    record: OperationRecord
    permit: Callable[[], None]
    passes: Callable[[Exception], bool] = is_transient
    since: int = field(default_factory=epoch_ms)

    def reached(self, stage: OperationStage) -> None:
        """Note that ``stage`` has been done. If a killed run noted it, the note stays as it is."""
        if not self.record.has_done(stage):
            self._write(self.record.record_step(stage, since=self.since))

    def note_activated(self, lineage: str) -> None:
        """Note that ``lineage`` is the active one. From here on the operation can only be completed."""
        if self.record.lineage_to is None:
            self._write(replace(self.record, lineage_to=lineage))

    def note_rows(self, counts: str, days: str) -> None:
        """Note the rows that leave the tables, and their days. If a killed run noted them, the note stays as it is."""
        record = self.record
        self._write(replace(record, counts=record.counts or counts, days=record.days or days))

    def note_tables(self, versions: Mapping[str, int]) -> Mapping[str, int]:
        """Note the newest versions of the tables, unless a killed run did, which may have deleted rows."""
        if not self.record.tables:
            self._write(replace(self.record, tables=versions))
        return self.record.tables

    def note_spec(self, document: Mapping[str, Any]) -> None:
        """Note the approved file of the stream, because it may be edited before a later try."""
        if not self.record.spec:
            self._write(replace(self.record, spec=document))

    def finish(self, lineage: str) -> OperationRecord:
        """Note that ``lineage`` is active and nothing is left, after the desired state: no user types it again."""
        self.permit()
        why = f"{self.record.verb} {self.record.id} is over"
        end_maintenance(self.home, self.record.wanted, by=self.record.by, why=why)
        record = self.record.record_step(OperationStage.ACTIVATED, since=self.since, lineage_to=lineage)
        record = replace(record, outcome=Ending.DONE)
        self._write(record)
        savepoint = record.savepoint or None
        mark = Mark(kind=MarkKind.COMMAND, what=record.verb, lineage=lineage, savepoint=savepoint, by=record.by)
        add_mark(self.home, mark)
        return record

    def note_failure(self, error: Exception) -> None:
        """Note the failure of this try, if that can be written. It stays pending. Raises LeaseLost."""
        if self.record.outcome is None:
            with suppress(ControlUnreachable, UnwritablePath, DiskFull, DamagedFile):
                self._write(self.record.failed(error))

    def abandon(self, error: Exception | None = None, *, by: str | None = None) -> None:
        """End the operation, which has changed nothing that counts, because of ``error`` or user ``by``."""
        record = self.record if error is None else self.record.failed(error)
        give_back(self.home, record, self.permit, by=by)
        self._write(replace(record, outcome=Ending.ABANDONED, abandoned_by=by))

    def _write(self, record: OperationRecord) -> None:
        self.permit()
        self.record = record
        write_unless_abandoned(self.home, record)


def give_back(home: StreamHome, record: OperationRecord, permit: Callable[[], None], *, by: str | None = None) -> None:
    """End the maintenance for an abandoned operation, STOPPED without a lineage: a driver would lack its history.

    Raises LeaseLost, ControlUnreachable, UnwritablePath, DiskFull, DamagedFile.
    """
    permit()
    wanted = DesiredState.STOPPED if record.never_ran and not Store(home.lineage_record).exists() else record.wanted
    end_maintenance(home, wanted, by=by or record.by, why=f"{record.verb} {record.id} was abandoned")


def new_operation(  # noqa: PLR0913  what a record says at first
    home: StreamHome,
    verb: str,
    digest: str,
    by: str,
    leaves: tuple[str, int],
    *,
    savepoint: str = "",
    request: Mapping[str, Any] | None = None,
    decided: Mapping[str, Any] | None = None,
) -> OperationRecord:
    """Return the record of an operation that ``by`` approves now, unwritten. ``leaves``: a lineage and its batch.

    Afterwards the desired state is restored, or the one that an earlier, killed command had saved. ``request``: the
    command as JSON. ``decided``: the fields that the digest covers.
    """
    now, desired = epoch_ms(), read_desired(home)
    is_in_maintenance = desired.state is DesiredState.MAINTENANCE
    wanted = (desired.afterwards or DesiredState.RUNNING) if is_in_maintenance else desired.state
    return OperationRecord(
        id=mint_id(now),
        verb=verb,
        stream=home.name,
        by=by,
        digest=digest,
        savepoint=savepoint,
        lineage_from=leaves[0],
        batch_from=leaves[1],
        wanted=wanted,
        begun_at=now,
        request=request or {},
        step_at=now,
        decided=decided or {},
    )
