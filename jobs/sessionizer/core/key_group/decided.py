"""Open events of a key group without its undecided duplicates, as rows that a migration can change.

A log compares duplicates within a key and in the order of their batches. A migration changes keys, so all that waits in
the log is decided before it. Its rows are then one batch, whatever group or batch they came from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sessionizer.core.key_group.merging import merge
from sessionizer.core.wire.canonical import canonical_schema, read_typed_rows
from sessionizer.core.wire.codec import mark_continued
from sessionizer.core.wire.wide import log_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from sessionizer.core.key_group.append_or_merge import GroupRules
    from sessionizer.core.key_group.merging import Merged


class DecidedEvents(NamedTuple):
    """Decided events of a group. ``rows``: the open ones by ``canonical_schema``, all of one turn.

    ``merged``: the sessions that are over, and the duplicates. They are written as they would be without a migration.
    """

    rows: pa.Table
    merged: Merged


def decide_rows(
    log: Sequence[pa.Table], key_group: int, shared: GroupRules, final_by_ms: int, events: pa.Schema
) -> DecidedEvents:
    """Decide a group's ``log``, oldest table first, by the rules that were ``shared`` so far.

    Sessions that are due by ``final_by_ms`` (epoch ms) are over. ``events``: columns that take all columns of the log.
    Raises ``pa.ArrowTypeError`` if a column has no type in common with ``events``.
    """
    merged = merge(log, final_by_ms, shared.rules, shared.payload)
    pieces = [piece for table in merged.open_events for piece in log_tables(table)]
    if not pieces:
        return DecidedEvents(canonical_schema(events).empty_table(), merged)
    return DecidedEvents(read_typed_rows([pieces[0], *map(mark_continued, pieces[1:])], key_group, events), merged)
