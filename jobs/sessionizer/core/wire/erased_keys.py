"""Keys that were erased, as digests, and the test of events and texts against them.

Only an HMAC of each key is kept, so that nobody without the secret can tell whose events were erased. An event of an
erased key is dropped if it happened up to the moment of the erasure. So a replay, a restore or a late file brings
nobody back, and a new visit counts.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from sessionizer.core.definition.erasure import DIGEST_BYTES, PERSONAL, ErasedOnce, digest_key, join_digests
from sessionizer.core.definition.outcome import QuarantineReason
from sessionizer.core.definition.rules import NEVER_MS
from sessionizer.core.wire import rows, schema
from sessionizer.core.wire.codec import decode, drop_deleted, encode, mark_first_pieces, split_log

_TOKEN: Final = re.compile(r"[^\s\"'\\,;=&?<>{}\[\]()|]+")


@dataclass(frozen=True, slots=True)
class ErasedKeys:
    """All erasures of a stream. Without any the ``secret`` is empty."""

    secret: bytes = b""
    erasures: tuple[ErasedOnce, ...] = ()

    @classmethod
    def naming(cls, column: str, values: Iterable[str], until_ms: int = NEVER_MS) -> Self:
        """Return an erasure of ``values`` of ``column`` for one process: its secret is random."""
        secret = secrets.token_bytes(DIGEST_BYTES)
        digests = join_digests(digest_key(secret, column, value) for value in values)
        return cls(secret, (ErasedOnce(column, until_ms, digests),))

    def __bool__(self) -> bool:
        return bool(self.erasures)

    def has(self, erasure: ErasedOnce, value: str) -> bool:
        """Whether ``value`` is one of the ``erasure``."""
        return digest_key(self.secret, erasure.column, value) in _digests_in(erasure.digests)

    def names(self, column: str, value: str) -> bool:
        """Whether a ``value`` of ``column`` was erased once."""
        return any(each.column == column and self.has(each, value) for each in self.erasures)

    def find_in_events(self, events: pa.RecordBatch | pa.Table) -> pa.ChunkedArray | pa.Array | None:
        """Return which ``events`` (columns of ``schema.event_schema``) were erased, as booleans. None: none of them."""
        found, at = None, _happened(events)
        for each in self.erasures:
            before, name = pc.less_equal(at, each.until_ms), column_of(each)
            if name not in events.schema.names or not pc.any(before).as_py():
                continue
            column = events.column(name)
            values = pc.unique(column.filter(before)).drop_null().to_pylist()
            erased = [value for value in values if self.has(each, value)]
            if erased:
                mask = pc.and_(before, pc.is_in(column, pa.array(erased, column.type)))
                mask = pc.fill_null(mask, False)  # noqa: FBT003  the value
                found = mask if found is None else pc.or_(found, mask)
        return found

    def drop_from_log(self, blobs: Sequence[bytes]) -> Sequence[bytes]:
        """Return the blobs of a group's log, oldest first, without the events of erased keys.

        They are the same objects if it has none, also among the deleted ones that tombstones hide.
        """
        decoded = [decode(blob) for blob in blobs]
        if all(self.find_in_events(table) is None for table in split_log(decoded).tables):
            return blobs
        tables = drop_deleted(decoded)
        found = [self.find_in_events(table) for table in tables]
        pairs = zip(tables, found, strict=True)
        kept = [table if mask is None else table.filter(pc.invert(mask)) for table, mask in pairs]
        return [encode(table) for table in mark_first_pieces(kept)]

    def are_in_text(self, text: str) -> bool:
        """Whether a ``text`` holds an erased value, whole and between blanks, quotes or punctuation."""
        tokens = {token for found in _TOKEN.findall(text) for token in (found, *found.split(":"))}
        return any(self.has(each, token) for token in tokens for each in self.erasures)


NOBODY_ERASED: Final = ErasedKeys()


def column_of(erasure: ErasedOnce) -> str:
    """Return the column of ``schema.event_schema`` that is tested. Events may lack it."""
    return erasure.column if erasure.column in PERSONAL else f"{schema.PAYLOAD}_{erasure.column}"


@lru_cache(maxsize=64)
def _digests_in(digests: bytes) -> frozenset[bytes]:
    return frozenset(digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES))


def _happened(events: pa.RecordBatch | pa.Table) -> pa.ChunkedArray | pa.Array:
    """Return when each event happened (epoch ms): by its own time, and if it has none by its arrival."""
    clock = events.column(schema.CLOCK)
    if schema.TIE not in events.schema.names:
        return clock
    own = events.column(schema.TIE)
    return pc.if_else(pc.greater(own, 0), own, clock)


def refuse_erased(batch: pa.RecordBatch, erased: ErasedKeys) -> pa.RecordBatch:
    """Return guarded rows (``rows.QUARANTINE_COLUMNS`` and those of events) with those of erased keys refused.

    Such a row gets the reason ``erased``, and its text and position are dropped. The same holds for a row that was
    refused before and whose time or key is unknown, if its text holds an erased value.
    """
    reason, raw, position = rows.QUARANTINE_COLUMNS
    mask = erased.find_in_events(batch)
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
    return pa.RecordBatch.from_arrays(
        [*columns.values()],
        schema=pa.schema([pa.field(name, column.type) for name, column in columns.items()]),
    )
