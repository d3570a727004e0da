"""Columns aligned by name: a table in the columns of another schema, and the schema that takes two tables.

A value is cast only to a type that holds every value of its own: an integer to a longer one, a float to a double, a
decimal to one with no fewer digits on either side of the point. The same holds inside structs, lists and maps. In a
struct, as in a table, the present fields decide: a missing field becomes null, a removed field is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

_INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())


class Unfit(NamedTuple):
    """A part of a column whose type does not fit: its ``path`` inside the column, and both types there."""

    path: tuple[str, ...]
    before: pa.DataType
    now: pa.DataType


def unfit(before: pa.DataType, now: pa.DataType) -> Unfit | None:
    """Return the first part of type ``before`` that does not fit into ``now``, or None if all values fit."""
    if pa.types.is_struct(before) and pa.types.is_struct(now):
        shared = [field for field in before if now.get_field_index(field.name) >= 0]
        parts = [(field.name, field.type, now.field(field.name).type) for field in shared]
    elif pa.types.is_map(before) and pa.types.is_map(now):
        parts = [("key", before.key_type, now.key_type), ("value", before.item_type, now.item_type)]
    elif pa.types.is_list(before) and pa.types.is_list(now):
        parts = [("element", before.value_type, now.value_type)]
    else:
        return None if before.equals(now) or _widens(before, now) else Unfit((), before, now)
    found = ((name, unfit(was, is_)) for name, was, is_ in parts)
    return next((part._replace(path=(name, *part.path)) for name, part in found if part is not None), None)


def _widens(before: pa.DataType, now: pa.DataType) -> bool:
    if before in _INTEGERS and now in _INTEGERS:
        return _INTEGERS.index(before) < _INTEGERS.index(now)
    if pa.types.is_decimal(before) and pa.types.is_decimal(now):
        digits = (before.precision - before.scale, now.precision - now.scale)
        return bool(before.scale <= now.scale and digits[0] <= digits[1])
    return bool(before == pa.float32() and now == pa.float64())


def unite_schemas(one: pa.Schema, other: pa.Schema) -> pa.Schema:
    """Return the columns of both schemas, first those of ``one``, each with the wider type.

    Raises ``pa.ArrowTypeError`` if a column has no common type.
    """
    return pa.schema(_unite_fields(one, other))


def _unite_fields(one: Iterable[pa.Field], other: Iterable[pa.Field]) -> list[pa.Field]:
    types = {field.name: field.type for field in one}
    for field in other:
        types[field.name] = _wider(types[field.name], field.type) if field.name in types else field.type
    return [pa.field(name, kind) for name, kind in types.items()]


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if one.equals(other):
        return one
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return pa.struct(_unite_fields(one, other))
    if pa.types.is_map(one) and pa.types.is_map(other):
        return pa.map_(_wider(one.key_type, other.key_type), _wider(one.item_type, other.item_type))
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(pa.field(one.value_field.name, _wider(one.value_type, other.value_type)))
    if _widens(one, other):
        return other
    if _widens(other, one):
        return one
    raise pa.ArrowTypeError(f"{one} and {other} have no common type")


def align_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return ``table`` in the columns of ``schema``, by name, with its own metadata.

    Raises ``pa.ArrowTypeError`` if a column does not fit.
    """
    if table.schema.equals(schema):
        return table
    batches = []
    for batch in table.combine_chunks().to_batches():
        columns = _align_parts(dict(zip(batch.schema.names, batch.columns, strict=True)), schema, batch.num_rows)
        batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
    return pa.Table.from_batches(batches, schema).replace_schema_metadata(table.schema.metadata)


def _align_parts(parts: Mapping[str, pa.Array], fields: Iterable[pa.Field], count: int) -> list[pa.Array]:
    """Return an array for each of ``fields``, in its type. A missing one is ``count`` nulls."""
    return [
        align_values(parts[field.name], field.type) if field.name in parts else pa.nulls(count, field.type)
        for field in fields
    ]


def align_values(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return ``values`` in the type ``kind``. Raises ``pa.ArrowTypeError`` if they do not fit."""
    if values.type.equals(kind):
        return values
    if (reason := unfit(values.type, kind)) is not None:
        message = f"{reason.before} does not go into {reason.now} ({'.'.join(reason.path) or 'the column'})"
        raise pa.ArrowTypeError(message)
    mask = values.is_null()
    if pa.types.is_struct(kind):
        parts = dict(zip((field.name for field in values.type), values.flatten(), strict=True))
        return pa.StructArray.from_arrays(_align_parts(parts, kind, len(values)), fields=list(kind), mask=mask)
    if not (pa.types.is_map(kind) or pa.types.is_list(kind)):
        return values.cast(kind)
    offsets = pa.array(values.offsets.to_numpy(zero_copy_only=False))  # for a slice Arrow accepts no mask
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(offsets, align_values(values.values, kind.value_type), type=kind, mask=mask)
    keys, items = align_values(values.keys, kind.key_type), align_values(values.items, kind.item_type)
    return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=mask)


_BITS: Final = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}


def holds_same(given: pa.Table, found: pa.Table) -> bool:
    """Whether two tables of events are the same. ``found`` lacks the columns that its events came without."""
    again = align_table(found, given.schema)
    columns = zip(given.columns, again.columns, strict=True)
    return all(is_identical(before.combine_chunks(), now.combine_chunks()) for before, now in columns)


def is_identical(one: pa.Array, other: pa.Array) -> bool:
    """Whether both arrays are of one type and equal bit by bit. Arrow's own comparison treats NaNs as unequal."""
    if one.equals(other):
        return True
    if one.type != other.type or not one.is_valid().equals(other.is_valid()):
        return False
    kind = one.type
    if kind in _BITS:
        return bool(one.fill_null(0).view(_BITS[kind]).equals(other.fill_null(0).view(_BITS[kind])))
    if pa.types.is_struct(kind):
        return all(map(is_identical, one.flatten(), other.flatten()))
    if pa.types.is_map(kind):
        entries = pa.list_(pa.struct([kind.key_field, kind.item_field]))
        one, other = one.cast(entries), other.cast(entries)
    if pa.types.is_list(one.type):
        same_lengths = pc.list_value_length(one).equals(pc.list_value_length(other))
        return same_lengths and is_identical(one.flatten(), other.flatten())
    return False
