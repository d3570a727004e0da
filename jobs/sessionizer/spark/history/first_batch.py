"""A whole history as the first batch of a stream: final sessions leave, open events stay.

The same functions decide as in the stream (``core.key_group``). Keys are divided into as many shares as the history
needs. Each share is taken at once in one Python worker, as a key group is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from sessionizer.core.definition.rules import NEVER_MS
from sessionizer.core.key_group.admission import admit
from sessionizer.core.key_group.append_or_merge import NO_PLAN, GroupChanges
from sessionizer.core.key_group.merging import merge
from sessionizer.core.wire import rows, schema
from sessionizer.core.wire.canonical import read_typed_rows
from sessionizer.core.wire.wide import pieces
from sessionizer.spark.ingest.guard import EVENT_TIME, REASON
from sessionizer.spark.query.assembly import group_of
from sessionizer.spark.query.group_rows import Output
from sessionizer.spark.state.emitted_rows import tabulate_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame

    from sessionizer.core.definition.rules import SessionRules
    from sessionizer.spark.ingest.guard import Guarded

EVENTS_PER_SHARE: Final = 100_000
_SHARE: Final = "share"
_NOBODY_IS_LATE: Final = -NEVER_MS
"""Watermark (epoch ms) at which no event of a history is late."""


@dataclass(frozen=True, slots=True)
class SourceFigures:
    """Figures of guarded rows: number of events, the latest moment in one of them (epoch ms), refused rows."""

    events: int
    latest_ms: int | None
    refused: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class FirstBatch:
    """The first batch of a history, taken under ``rules``, with the watermark at ``watermark_ms`` (epoch ms).

    ``payload``: the columns that sessions have, ``kept``: those of the open events. ``keeps_later``: whether events
    after the watermark are taken too.
    """

    rules: SessionRules
    watermark_ms: int
    payload: schema.Payload
    kept: schema.Payload
    keeps_later: bool

    def taken(self, guarded: Guarded, events: int) -> DataFrame:
        """Return rows of ``rows.EMITTED``: sessions, refused rows, conflicts, open events, and counts of other rows.

        ``events``: their approximate number.
        """
        columns = schema.event_schema(guarded.payload_fields, self.rules.clock).names
        shares = max(1, -(-events // EVENTS_PER_SHARE))
        numbered = guarded.rows.where(F.col(REASON).isNull()).select(
            *columns, group_of(F.col(schema.KEY), shares).alias(_SHARE)
        )
        of_events = numbered.groupBy(_SHARE).applyInArrow(_taker(self), rows.EMITTED)
        refused = guarded.rows.where(F.col(REASON).isNotNull()).select(*rows.QUARANTINE_COLUMNS)
        return of_events.unionByName(refused.mapInArrow(_refuse, rows.EMITTED))

    def take(self, events: pa.Table) -> pa.Table:
        """Take a share: all ``events`` of its keys, by ``event_schema``."""
        output = Output(0)
        if not self.keeps_later:
            later = pc.greater(events.column(schema.CLOCK), self.watermark_ms)
            output.row(rows.LATER, pc.sum(later).as_py() or 0)
            events = events.filter(pc.invert(later))
        if events.num_rows:
            self._decide(events, output)
        return tabulate_output(output)

    def _decide(self, events: pa.Table, output: Output) -> None:
        admitted = admit(events, _NOBODY_IS_LATE, self.rules, {}).admitted
        merged = merge([admitted], self.watermark_ms, self.rules, self.payload)
        output.step(GroupChanges(NO_PLAN, merged=merged))
        output.row(rows.OPEN_SESSIONS, merged.open.sessions)
        kept = schema.event_schema(self.kept, self.rules.clock)
        for table in merged.open_events:
            for piece in pieces(table):
                output.table(rows.OPEN_EVENTS, read_typed_rows([piece], 0, kept))


def look(guarded: Guarded) -> SourceFigures:
    """Count guarded rows in one read of all of them."""
    of_reason = guarded.rows.groupBy(REASON).agg(
        F.count("*").alias("rows"), F.max(F.unix_millis(EVENT_TIME)).alias("latest_ms")
    )
    found = {row[REASON]: row for row in of_reason.collect()}
    events = found.pop(None, None)
    refused = {reason: row["rows"] for reason, row in found.items()}
    return (
        SourceFigures(0, None, refused)
        if events is None
        else SourceFigures(events["rows"], events["latest_ms"], refused)
    )


def _taker(first: FirstBatch) -> Callable[[pa.Table], pa.Table]:
    def take(share: pa.Table) -> pa.Table:
        return first.take(share.drop_columns([_SHARE]).replace_schema_metadata(None))

    return take


def _refuse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        output = Output(0)
        output.table(rows.QUARANTINE, batch)
        yield from tabulate_output(output).to_batches()
