"""Table of requests to erase people: people, streams, and the moments when it was done. No Spark.

A row asks for a value of the column ``key``, ``client`` or one of the payload. Its other columns may be left out:
``stream`` (null: every stream), ``requested_at`` (timestamp; null: since ever), and ``done`` (a map of the streams that
have erased it, with the moments).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from sessionizer.core.definition.erasure import PERSONAL
from sessionizer.errors import DamagedFile, InvalidSpec, LookupNotInstalled
from sessionizer.home.local_files import first_line

if TYPE_CHECKING:
    import pyarrow as pa

    from sessionizer.control.records.erasure_record import ErasureRecord
    from sessionizer.core.wire.erased_keys import ErasedKeys

REQUESTS: Final = "SESSIONIZER_ERASE_REQUESTS"
"""Variable with the place of the table, an absolute path or a URI."""
STREAM: Final = "stream"
REQUESTED_AT: Final = "requested_at"
DONE: Final = "done"
OPTIONAL: Final = (STREAM, REQUESTED_AT, DONE)


def count_requests(place: str, streams: Mapping[str, Collection[str]], until_ms: int) -> Iterator[tuple[str, str, int]]:
    """Yield each stream that has people to erase, by which column, and how many, as asked up to ``until_ms``.

    ``streams``: the columns of the payload of each. Raises LookupNotInstalled, InvalidSpec if there is no such table,
    DamagedFile, OSError.
    """
    try:
        from deltalake import DeltaTable  # noqa: PLC0415  an extra
        from deltalake.exceptions import DeltaError, TableNotFoundError  # noqa: PLC0415
    except ImportError as error:
        raise LookupNotInstalled from error
    try:
        dataset = DeltaTable(place).to_pyarrow_dataset()
        names = dataset.schema.names
        by = [each for each in PERSONAL if each in names]
        # beside a key, a column of the same name as one of the payload says something else of the request
        by = by or sorted(set[str]().union(*streams.values()).intersection(names) - {*OPTIONAL})
        if DONE not in names or not by or (len(by) > 1 and by[0] not in PERSONAL):
            column = f"{' or '.join(PERSONAL)}, or else one of a payload"
            raise InvalidSpec(REQUESTS, place, f"a Delta table with the columns {DONE} and {column}")
        rows = dataset.to_table(columns=[*by, *(each for each in OPTIONAL if each in names)])
    except TableNotFoundError as error:
        raise InvalidSpec(REQUESTS, place, "the place of a Delta table") from error
    except DeltaError as error:
        raise DamagedFile(place, first_line(error)[:300]) from error
    for stream, payload in streams.items():
        for column in by:
            people = find_requests(rows, column, stream, until_ms) if column in (*PERSONAL, *payload) else ()
            if people:
                yield stream, column, len(people)
                break  # the others are due as soon as these are done


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
