"""Records of a stream that change with commands and starts, not with each batch. Light: small files, no Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.control.records.operation_record import read_operations
from sessionizer.deployment.running_spec import pending_changes
from sessionizer.deployment.waiting import find_waiting
from sessionizer.fleet.damages import find_damaged_records
from sessionizer.lineage.active import examine_active
from sessionizer.lineage.canary.canary_record import examine_canary
from sessionizer.lineage.drained import examine_drain
from sessionizer.lineage.excluded_ranges import examine_excluded_ranges
from sessionizer.lineage.fingerprint import read_fingerprint
from sessionizer.state.lineages.table_changes_record import changes_of_active

if TYPE_CHECKING:
    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.deployment.waiting import WaitingUpgrade
    from sessionizer.errors import SessionizerError
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.lineage.canary.canary_record import CanaryRecord
    from sessionizer.lineage.drained import DrainRecord
    from sessionizer.state.lineages.table_changes import TableChange
    from sessionizer.stream_spec.decisions import Change
    from sessionizer.stream_spec.document.stream import StreamSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRecords:
    """Records of a stream, and what follows from them and from its spec alone. The fields are those of its view."""

    operations: tuple[OperationRecord, ...]
    changes: tuple[Change, ...]
    waiting: WaitingUpgrade | None
    drain: DrainRecord | None
    canary: CanaryRecord | None
    excluded_ranges: tuple[str, ...]
    table_changes: tuple[TableChange, ...]
    damages: tuple[SessionizerError, ...]
    bundle: str | None

    @property
    def pending(self) -> OperationRecord | None:
        """The operation that is not over."""
        return next((record for record in self.operations if record.outcome is None), None)

    @property
    def is_drained(self) -> bool:
        """Whether the stream is over."""
        return self.drain is not None and self.drain.is_over

    @property
    def takes_changes(self) -> bool:
        """Whether an upgrade or an apply is not refused at once: no command is pending, and the stream is not over."""
        return self.pending is None and not self.is_drained


def read_records(home: StreamHome, spec: StreamSpec) -> StreamRecords:
    """Read the records of the stream of ``spec``. Raises DamagedFile, ControlUnreachable."""
    fingerprint = examine_active(home, read_fingerprint)
    return StreamRecords(
        operations=tuple(read_operations(home)),
        changes=pending_changes(home, spec),
        waiting=find_waiting(home, spec),
        drain=examine_drain(home),
        canary=examine_canary(home),
        excluded_ranges=tuple(examine_excluded_ranges(home).lines()),
        table_changes=changes_of_active(home),
        damages=find_damaged_records(home),
        bundle=fingerprint.bundle if fingerprint else None,
    )
