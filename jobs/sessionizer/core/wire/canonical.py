"""Open events as typed rows, one row for each event, for savepoints and for new lineages.

No event is lost on the way out of the state and back. The unmerged part of a group's log still holds repeats, whose
outcome depends on the batch that brought each. So each row says how it was admitted: rows of one key and one ``turn``
came with one batch. Rows may be spread over other groups, and several groups may become one, because all decisions are
made within a key.

The columns are those of ``schema.event_schema``, with the unit in the names of the times, and two more:

- ``key_group`` (int32): the group that the row was read from;
- ``admission``: ``turn``, the number of the batch in that group's log; ``late_before_ms``, its threshold (epoch ms);
  its ``caps``, null if the release wrote none; ``columns``, the payload columns that the event came with.

For new key groups, rows are divided, as they come, into blobs of one group each (*shares*). The task that packs the
group makes the blobs of its log of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sessionizer.core.definition.rules import Caps
from sessionizer.core.wire import schema
from sessionizer.core.wire.alignment import align_table, holds_same, unite_schemas
from sessionizer.core.wire.codec import (
    continues,
    decode,
    encode,
    log_tables,
    mark_admitted,
    mark_continued,
    narrow_schema,
    read_admission_caps,
    read_admission_threshold,
    widen,
)

Int64s = NDArray[np.int64]

KEY_GROUP: Final = "key_group"
ADMISSION: Final = "admission"
ADMISSION_TYPE: Final = pa.struct(
    [
        pa.field("turn", pa.int32()),
        pa.field("late_before_ms", pa.int64()),
        pa.field("caps", pa.struct([pa.field(name, pa.int64()) for name in Caps._fields])),
        pa.field("columns", pa.list_(pa.string())),
    ]
)
_OUTSIDE: Final = {schema.CLOCK: "clock_ms", schema.TIE: "tie_ms"}
_INSIDE: Final = {outside: name for name, outside in _OUTSIDE.items()}


def canonical_schema(events: pa.Schema) -> pa.Schema:
    """Return the schema of canonical rows, given the schema ``events`` of open events in the state."""
    fields = [field.with_name(_OUTSIDE.get(field.name, field.name)) for field in events]
    return pa.schema([*fields, pa.field(KEY_GROUP, pa.int32()), pa.field(ADMISSION, ADMISSION_TYPE)])


def event_columns(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return canonical ``rows`` with the columns under the names that they have in a log."""
    return rows.rename_columns([_INSIDE.get(name, name) for name in rows.schema.names])


def read_typed_rows(log: Sequence[pa.Table], key_group: int, events: pa.Schema | None = None) -> pa.Table:
    """Return a group's log, oldest table first, as rows by ``canonical_schema``.

    ``events`` is a schema that takes all columns of the log. The default is the smallest such schema. Raises
    ``pa.ArrowTypeError`` if a column has no type in common with it.
    """
    columns = reduce(unite_schemas, (table.schema for table in log)) if events is None else events
    columns = columns.remove_metadata()
    turns = accumulate((not continues(table) for table in log), initial=0)
    next(turns)
    shape = canonical_schema(columns)
    tables = [shape.empty_table()]
    for table, turn in zip(log, turns, strict=True):
        ours = [pa.scalar(key_group, pa.int32()), pa.scalar({"turn": turn, **_admission_of(table)}, ADMISSION_TYPE)]
        values = [*align_table(table, columns).columns, *(pa.repeat(value, table.num_rows) for value in ours)]
        tables.append(pa.table(values, schema=shape))
    return pa.concat_tables(tables)


def _admission_of(table: pa.Table) -> dict[str, Any]:
    """Return the admission of the rows of a table of the log: all fields of ``ADMISSION_TYPE`` except the turn."""
    caps = read_admission_caps(table)
    return {
        "late_before_ms": read_admission_threshold(table),
        "caps": None if caps is None else caps._asdict(),
        "columns": sorted(name for name in table.column_names if _is_payload(name)),
    }


def log_of(rows: pa.Table) -> list[pa.Table]:
    """Return the log of one group that ``rows`` by ``canonical_schema`` make.

    The rows may come in any order and from any groups. Rows of one turn and one threshold stay one batch, even if their
    caps or columns put them into several tables.
    """
    events = widen(_inside(rows))
    log: list[pa.Table] = []
    before: tuple[int, int] | None = None
    for admission, positions in _batches(rows):
        came_with = set(admission["columns"])
        kept = events.select([name for name in events.column_names if name in came_with or not _is_payload(name)])
        caps = None if admission["caps"] is None else Caps(**admission["caps"])
        admitted = mark_admitted(take_rows(kept, positions), admission["late_before_ms"], caps)
        first, *others = log_tables(admitted)
        batch = (admission["turn"], admission["late_before_ms"])
        log += [mark_continued(first) if batch == before else first, *others]
        before = batch
    return log


def take_rows(rows: pa.Table, positions: Int64s) -> pa.Table:
    """Return the rows at ``positions``. Positions that ascend without gaps are sliced and not copied."""
    first = int(positions[0]) if len(positions) else 0
    if np.array_equal(positions, np.arange(first, first + len(positions))):
        return rows.slice(first, len(positions))
    return rows.take(pa.array(positions))


def code_admissions(
    rows: pa.Table, renamed: Callable[[Sequence[str]], list[str]] | None = None
) -> tuple[pa.Table, list[str]]:
    """Return canonical rows with a number in place of each admission, and the different admissions as JSON.

    A number has 8 bytes and an admission 130, which cost more than the event itself on its way through Spark.
    ``renamed`` returns the columns that an event has from now on, if it came with the given ones.
    """
    codes, texts = np.zeros(rows.num_rows, np.int64), list[str]()
    for admission, positions in _batches(rows):
        texts.append(json.dumps({**admission, "columns": (renamed or list)(admission["columns"])}))
        codes[positions] = _code_of(texts[-1])
    return rows.set_column(rows.schema.get_field_index(ADMISSION), ADMISSION, pa.array(codes)), texts


def coded_schema(canonical: pa.Schema) -> pa.Schema:
    """Return the ``canonical`` schema with the numbers of ``code_admissions``."""
    place = canonical.get_field_index(ADMISSION)
    return canonical.set(place, canonical.field(place).with_type(pa.int64()))


def decode_admissions(rows: pa.Table, texts: Iterable[str]) -> pa.Table:
    """Return rows of ``code_admissions`` with their admissions as JSON. ``texts``: those of all of its calls.

    Raises ValueError if a number has no text, because a wrong admission would change what is late.
    """
    by_code = {_code_of(text): text for text in texts}
    places = pc.index_in(rows.column(ADMISSION).combine_chunks(), pa.array(list(by_code), pa.int64()))
    if places.null_count:
        raise ValueError(f"{places.null_count} of {rows.num_rows} events have an admission that no text explains")
    told = pa.DictionaryArray.from_arrays(places, pa.array(list(by_code.values()), pa.string()))
    return rows.set_column(rows.schema.get_field_index(ADMISSION), ADMISSION, told)


def _code_of(text: str) -> int:
    """Return the number of an admission. Each task finds the same one, because it follows from the text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)


def comes_back(rows: pa.Table, log: Sequence[pa.Table]) -> bool:
    """Whether ``log`` holds each of ``rows`` unchanged. ``log_of`` made it of ``rows``, and it was encoded since."""
    events = widen(_inside(rows))
    narrow = narrow_schema(events.schema)
    batches = list(_batches(rows))
    order = np.concatenate([np.empty(0, np.int64), *(positions for _, positions in batches)])
    ends = np.cumsum([len(positions) for _, positions in batches])
    if sum(table.num_rows for table in log) != len(order):
        return False
    start = 0
    for table in log:
        positions = order[start : start + table.num_rows]
        admission, _ = batches[int(np.searchsorted(ends, start, side="right"))]
        start += table.num_rows
        told = {"late_before_ms": admission["late_before_ms"], "caps": admission["caps"]}
        told["columns"] = sorted(admission["columns"])  # the turn is now the table's place in the log
        if told != _admission_of(table) or not holds_same(take_rows(events, positions).cast(narrow), table):
            return False
    return True


def _inside(rows: pa.Table) -> pa.Table:
    """Return the columns that an event has in the state, with their names there."""
    events = rows.drop_columns([KEY_GROUP, ADMISSION]).replace_schema_metadata(None)
    return events.rename_columns([_INSIDE.get(name, name) for name in events.column_names])


def _batches(rows: pa.Table) -> Iterator[tuple[dict[str, Any], Int64s]]:
    """Yield each admission and the positions of its rows, in the order of the turns."""
    if not rows.num_rows:
        return
    admissions = rows.column(ADMISSION)
    if pa.types.is_dictionary(admissions.type):
        yield from _batches_by_text(admissions)
        return
    admissions = admissions.cast(ADMISSION_TYPE)  # rows of an earlier release lack its later caps
    told = _number_admissions(admissions)
    order = np.lexsort(told[::-1])
    changes = np.zeros(len(order) - 1, np.bool_)
    for column in told:
        changes |= np.diff(column[order]) != 0
    for positions in np.split(order, np.flatnonzero(changes) + 1):
        yield admissions[int(positions[0])].as_py(), positions


def _batches_by_text(admissions: pa.ChunkedArray) -> Iterator[tuple[dict[str, Any], Int64s]]:
    """Yield the batches as ``_batches`` does. There are few texts, so rows are sorted by one small number."""
    coded = admissions.combine_chunks()
    known = [json.loads(text) for text in coded.dictionary.to_pylist()]
    ranked = sorted(range(len(known)), key=lambda code: (known[code]["turn"], known[code]["late_before_ms"], code))
    codes = np.argsort(ranked)[coded.indices.to_numpy()]
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    for positions in np.split(order, starts[1:]):
        yield known[ranked[codes[positions[0]]]], positions


def _number_admissions(admission: pa.ChunkedArray) -> list[Int64s]:
    """Return the fields of the admissions as numbers, the turn first."""
    caps = pc.struct_field(admission, "caps")
    numbers = [pc.struct_field(admission, name) for name in ("turn", "late_before_ms")]
    numbers += [pc.struct_field(caps, name) for name in Caps._fields]
    # One line for each name, because no column's name has two lines.
    columns = pc.binary_join(pc.struct_field(admission, "columns"), "\n").dictionary_encode()
    return [
        # -1 is free, because no cap is negative
        *(number.cast(pa.int64()).fill_null(-1).to_numpy() for number in numbers),
        caps.is_valid().to_numpy().astype(np.int64),
        np.concatenate([chunk.indices.to_numpy() for chunk in columns.chunks]).astype(np.int64),
    ]


def _is_payload(name: str) -> bool:
    return name.startswith(f"{schema.PAYLOAD}_")


DIVIDED_BYTES: Final = 2**26
"""Bytes of rows that are divided at a time. The more bytes, the fewer shares of each group."""


class PackedLog(NamedTuple):
    """A group's log: its ``blobs``, oldest first, and the number of ``events`` in each.

    ``whole`` says whether the blobs, unpacked again, gave back each row unchanged.
    """

    blobs: list[bytes]
    events: list[int]
    whole: bool


class GroupBlob(NamedTuple):
    """Canonical rows of one new ``group`` as a ``blob``: the number of its ``events``, and of those it cannot keep."""

    group: int
    blob: bytes
    events: int
    without_key: int
    without_timeout: int


def shares(
    batches: Iterable[pa.RecordBatch], group: str, admissions: Sequence[str] | None = None
) -> Iterator[GroupBlob]:
    """Yield canonical rows as shares. The number of the new group of each row is in the column ``group``.

    ``admissions``: the texts of all rows that ``canonical.code_admissions`` made.
    """
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.get_total_buffer_size()
        if size >= DIVIDED_BYTES:
            yield from _divide(waiting, group, admissions)
            waiting, size = [], 0
    if waiting:
        yield from _divide(waiting, group, admissions)


def pack_shares(shares_of_group: Sequence[bytes]) -> PackedLog:
    """Return the log of one group, made of all of its shares in any order."""
    rows = pa.concat_tables(map(decode, shares_of_group)).unify_dictionaries()
    blobs = [encode(table.combine_chunks()) for table in log_of(rows)]
    log = [decode(blob) for blob in blobs]
    return PackedLog(blobs, [table.num_rows for table in log], comes_back(rows, log))


def _divide(batches: list[pa.RecordBatch], group: str, admissions: Sequence[str] | None) -> Iterator[GroupBlob]:
    rows = pa.Table.from_batches(batches).combine_chunks()
    if admissions is not None:
        rows = decode_admissions(rows, admissions)
    groups = rows.column(group).to_numpy()
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    rows = rows.drop_columns([group])
    for positions in np.split(order, starts[1:]):
        ours = take_rows(rows, positions).combine_chunks()
        without_timeout = pc.sum(pc.less(ours.column(schema.TIMEOUT), 1)).as_py() or 0
        without_key = ours.column(schema.KEY).null_count
        yield GroupBlob(int(groups[positions[0]]), encode(ours), ours.num_rows, without_key, without_timeout)
