"""Keys that were erased, as digests, and the test of events and texts against them.

Only an HMAC of each key is kept, so that nobody without the secret can tell whose events were erased. An event of an
erased key is dropped if it happened up to the moment of the erasure. So a replay, a restore or a late file brings
nobody back, and a new visit counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sessionizer.core.definition.erasure import DIGEST_BYTES, PERSONAL, ErasedOnce, digest_key
from sessionizer.core.definition.outcome import QuarantineReason
from sessionizer.core.wire import rows, schema
from sessionizer.core.wire.codec import decode, drop_deleted, encode, mark_first_pieces, split_log

Events = TypeVar("Events", pa.RecordBatch, pa.Table)
_TOKEN: Final = re.compile(r"[^\s\"'\\,;=&?<>{}\[\]()|]+")


@dataclass(frozen=True, slots=True)
class ErasedKeys:
    """All erasures of a stream. Without any the ``secret`` is empty."""

    secret: bytes = b""
    erasures: tuple[ErasedOnce, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.erasures)

    def has(self, erasure: ErasedOnce, value: str) -> bool:
        """Whether ``value`` is one of the ``erasure``."""
        return digest_key(self.secret, erasure.column, value) in _digests_in(erasure.digests)

    def names(self, column: str, value: str) -> bool:
        """Whether a ``value`` of ``column`` was erased once, and not only columns of its events."""
        return any(each.column == column and not each.redacts and self.has(each, value) for each in self.erasures)

    def find_in_events(
        self, events: pa.RecordBatch | pa.Table, *, with_redacted: bool = False
    ) -> pa.ChunkedArray | pa.Array | None:
        """Return which ``events`` (columns of ``schema.event_schema``) were erased, as booleans. None: none of them.

        ``with_redacted``: also which of them have values in columns that were redacted.
        """
        wanted = (each for each in self.erasures if with_redacted or not each.redacts)
        found = [mask for each in wanted if (mask := self._find(events, each)) is not None]
        return reduce(pc.or_, found) if found else None

    def _find(self, events: pa.RecordBatch | pa.Table, each: ErasedOnce) -> pa.ChunkedArray | pa.Array | None:
        happened, name = events.column(schema.CLOCK), event_column(each.column)
        if schema.TIE in events.schema.names:  # an event without a time of its own happened when it arrived
            own = events.column(schema.TIE)
            happened = pc.if_else(pc.greater(own, 0), own, happened)
        before = pc.less_equal(happened, each.until_ms)
        if name not in events.schema.names or not pc.any(before).as_py():
            return None
        column = events.column(name)
        values = pc.unique(column.filter(before)).drop_null().to_pylist()
        erased = [value for value in values if self.has(each, value)]
        if not erased:
            return None
        mask = pc.fill_null(pc.and_(before, pc.is_in(column, pa.array(erased, column.type))), False)  # noqa: FBT003
        if not each.redacts:
            return mask
        held = [events.column(name).is_valid() for name in _redacted(events, each)]
        mask = pc.and_(mask, reduce(pc.or_, held)) if held else None
        return mask if held and pc.any(mask).as_py() else None

    def clean(self, events: Events) -> Events:
        """Return ``events`` without the erased ones, and without redacted values. The same object if it has none."""
        redacted = [(each, self._find(events, each)) for each in self.erasures if each.redacts]
        gone, cleaned = self.find_in_events(events), events
        for each, mask in redacted:
            for name in () if mask is None else _redacted(events, each):
                column, at = cleaned.column(name), events.schema.get_field_index(name)
                kept = pc.if_else(mask, pa.scalar(None, column.type), column)
                cleaned = cleaned.set_column(at, events.schema.field(at).with_nullable(True), kept)  # noqa: FBT003
        return cleaned if gone is None else cleaned.filter(pc.invert(gone))

    def clean_log(self, blobs: Sequence[bytes]) -> Sequence[bytes]:
        """Return the blobs of a group's log, oldest first, as ``clean`` leaves their events.

        They are the same objects if it has none, also among the deleted ones that tombstones hide.
        """
        decoded = [decode(blob) for blob in blobs]
        if all(self.clean(table) is table for table in split_log(decoded).tables):
            return blobs
        return [encode(table) for table in mark_first_pieces(map(self.clean, drop_deleted(decoded)))]

    def are_in_text(self, text: str) -> bool:
        """Whether a ``text`` holds an erased value, whole and between blanks, quotes or punctuation."""
        tokens = {token for found in _TOKEN.findall(text) for token in (found, *found.split(":"))}
        return any(self.has(each, token) for token in tokens for each in self.erasures)


NOBODY_ERASED: Final = ErasedKeys()


def event_column(name: str) -> str:
    """Return the column of ``schema.event_schema`` for a name of ``PERSONAL`` or the payload. Events may lack it."""
    return name if name in PERSONAL else f"{schema.PAYLOAD}_{name}"


def _redacted(events: pa.RecordBatch | pa.Table, erasure: ErasedOnce) -> list[str]:
    return [name for name in map(event_column, erasure.redacts) if name in events.schema.names]


@lru_cache(maxsize=64)
def _digests_in(digests: bytes) -> frozenset[bytes]:
    return frozenset(digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES))


def refuse_erased(batch: pa.RecordBatch, erased: ErasedKeys) -> pa.RecordBatch:
    """Return guarded rows (``rows.QUARANTINE_COLUMNS`` and those of events) with those of erased keys refused.

    Such a row gets the reason ``erased``, and its text and position are dropped. The same holds for a row that was
    refused before and whose time or key is unknown, if its text holds an erased value. Redacted values become null.
    """
    reason, raw, position = rows.QUARANTINE_COLUMNS
    mask, redacting = erased.find_in_events(batch), tuple(each for each in erased.erasures if each.redacts)
    if redacting:
        whole = ErasedKeys(erased.secret, tuple(replace(each, redacts=()) for each in redacting)).find_in_events(batch)
        if whole is not None:  # a refused row has a text, of which no column can be redacted
            whole = pc.and_(whole, batch.column(reason).is_valid())
            mask = whole if mask is None else pc.or_(mask, whole)
        batch = ErasedKeys(erased.secret, redacting).clean(batch)
    texts = batch.column(raw)
    if texts.null_count < batch.num_rows:
        unknown = pc.or_(pc.is_null(batch.column(schema.KEY)), pc.is_null(batch.column(schema.CLOCK)))
        told = [
            bool(text and is_unknown and erased.are_in_text(text))
            for text, is_unknown in zip(texts.to_pylist(), unknown.to_pylist(), strict=True)
        ]
        if any(told):
            mask = pa.array(told) if mask is None else pc.or_(mask, pa.array(told))
    if mask is None:
        return batch
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns[reason] = pc.if_else(mask, QuarantineReason.ERASED.value, columns[reason])
    for name in (raw, position):
        columns[name] = pc.if_else(mask, pa.scalar(None, columns[name].type), columns[name])
    return pa.record_batch(columns)
