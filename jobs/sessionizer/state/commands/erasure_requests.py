"""Table of requests to erase people: people, streams, and the moments when it was done. Pure.

A row asks for a value of the column ``key``, ``client`` or one of the payload. Its other columns may be left out:
``stream`` (null: every stream), ``requested_at`` (timestamp; null: since ever), and ``done`` (a map of the streams that
have erased it, with the moments).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

    from sessionizer.control.records.erasure_record import ErasureRecord
    from sessionizer.core.wire.erased_keys import ErasedKeys

STREAM: Final = "stream"
REQUESTED_AT: Final = "requested_at"
DONE: Final = "done"
OPTIONAL: Final = (STREAM, REQUESTED_AT, DONE)


def find_requests(rows: pa.Table, column: str, stream: str, until_ms: int, *, are_done: bool = False) -> dict[str, int]:
    """Return the values that ``stream`` has not erased, each with its newest request (epoch ms) up to ``until_ms``.

    ``are_done``: those that it has erased.
    ``rows``: the columns ``column`` and those of ``OPTIONAL`` that the table has.
    """
    found = dict[str, int]()
    for row in rows.to_pylist():
        value, at = row[column], _epoch_ms(row.get(REQUESTED_AT))
        is_asked = value not in {None, ""} and row.get(STREAM) in {None, stream} and at <= until_ms
        if is_asked and (stream in dict(row.get(DONE) or ())) is are_done:
            found[str(value)] = max(at, found.get(str(value), 0))
    return found


def find_done(
    requests: Mapping[str, int], ledger: Iterable[ErasureRecord], erased: ErasedKeys, column: str
) -> Iterator[tuple[ErasureRecord, list[str]]]:
    """Yield each finished erasure of the ``ledger`` with the values that it erased after they were requested."""
    for record in ledger:
        if record.swept_at is not None and record.column == column and not record.redacts:
            erasure = record.erasure
            done = [value for value, at in requests.items() if at <= record.until and erased.has(erasure, value)]
            if done:
                yield record, done


def _epoch_ms(moment: datetime | None) -> int:
    if moment is None:
        return 0
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
