"""Rows of one key group in one batch: those that the group is given, sorted by kind, and those that it emits."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Row

from sessionizer.core.definition.outcome import QuarantineReason
from sessionizer.core.definition.rules import NEVER_MS
from sessionizer.core.wire import rows as kinds
from sessionizer.core.wire.codec import decode, encode
from sessionizer.core.wire.json_text import json_objects
from sessionizer.core.wire.wide import pieces

if TYPE_CHECKING:
    from sessionizer.core.key_group.append_or_merge import GroupChanges
    from sessionizer.core.key_group.merging import Merged


@dataclass(slots=True)
class GroupShare:
    """A group's packed rows of a batch, sorted by kind."""

    events: list[pa.Table] = field(default_factory=list)
    quarantined: list[bytes] = field(default_factory=list)
    floor_ms: int = 0
    seeds: bool = False
    """Whether this is the batch that begins a lineage with a state."""
    timeouts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The last change of each client: its time, and the timeout, both ms."""

    @property
    def changed_timeouts(self) -> dict[str, int]:
        """Timeout (ms) of each client that has another one from this batch on."""
        return {client: timeout_ms for client, (_, timeout_ms) in self.timeouts.items()}

    def take(self, kind: str, blob: bytes) -> None:
        """Add one packed row by its kind."""
        if kind == kinds.EVENTS:
            self.events.append(decode(blob))
        elif kind == kinds.QUARANTINE:
            self.quarantined.append(blob)
        else:
            punctuation = json.loads(blob)
            self.seeds |= bool(punctuation.get("seed"))
            self.floor_ms = max(self.floor_ms, punctuation.get("floor_ms") or 0)
            for change in punctuation.get("timeouts") or []:
                # of several in one batch the last said holds, in whatever order they come
                said = (punctuation.get("said_at_ms") or 0, min(change["timeout_ms"], NEVER_MS))
                self.timeouts[change["client"]] = max(said, self.timeouts.get(change["client"], said))


class Output:
    """Output of one call, as rows of ``kinds.EMITTED``."""

    def __init__(self, key_group: int) -> None:
        self._key_group = key_group
        self.rows: list[Row] = []

    def row(self, kind: str, count: int, blob: bytes | None = None) -> None:
        """Emit a blob of ``count`` rows as it is, or a bare number."""
        self.rows.append(Row(kind=kind, key_group=self._key_group, row_count=count, blob=blob))

    def table(self, kind: str, table: pa.Table | pa.RecordBatch | None) -> None:
        """Emit a table, unless it is empty. A large one is emitted in several blobs."""
        if table is None or not table.num_rows:
            return
        whole = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
        for piece in pieces(whole):
            self.row(kind, piece.num_rows, encode(piece))

    def step(self, step: GroupChanges, began: float | None = None) -> None:
        """Emit the results of a step. ``began``: the monotonic clock (s) at its begin, if its time is reported."""
        self.table(kinds.LATE, step.late)
        if step.merged is not None:
            self._merged(step.merged)
        if step.open_in_group is not None:
            took_ms = 0 if began is None else round((time.monotonic() - began) * 1000)
            report = step.open_in_group.taking(took_ms)
            self.row(kinds.OPEN, report.sessions, report.to_json())

    def _merged(self, merged: Merged) -> None:
        self.table(kinds.SESSIONS, merged.sessions)
        if merged.repeated:
            self.row(kinds.REPEATED, merged.repeated)
        if merged.conflicting is not None:
            self.table(kinds.QUARANTINE, conflicting_rows(merged.conflicting))


def conflicting_rows(events: pa.Table) -> pa.Table:
    """Return events refused as conflicting duplicates, as quarantine rows. ``_raw`` is the event as JSON."""
    raw = json_objects(events)
    reasons = [QuarantineReason.CONFLICTING_DUPLICATE.value] * len(raw)
    nowhere = pa.nulls(len(raw), pa.string())
    return pa.table([pa.array(reasons), pa.array(raw, pa.string()), nowhere], names=kinds.QUARANTINE_COLUMNS)
