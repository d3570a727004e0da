"""Payloads of every type that can be kept, as events of the definition have them and as Arrow and Spark do.

A value is plain Python as ``core.plain_values`` has it, but hashable: a struct is a ``Struct``, lists and maps are
tuples, instants and days are counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from sessionizer.core.definition.plain_values import format_value

NAN: Final = float("nan")
INSTANT: Final = pa.timestamp("us", tz="UTC")
YEAR_9999_US: Final = 253_370_764_800_000_000
YEAR_2_US: Final = -62_104_060_800_000_001
"""Near the ends of what readers have a value for, and no whole ms. Days and instants beyond are quarantined."""
DAY_IN_9999: Final = 2_932_532
DAY_IN_2: Final = -718_797


class Struct(dict[str, Any]):
    def __hash__(self) -> int:  # type: ignore[override]  # as no one changes it
        return hash(format_value(self))


@dataclass(frozen=True, slots=True)
class Column:
    """A payload column: the types that it may have, each wider than the one before, and values for the first."""

    name: str
    types: tuple[pa.DataType, ...]
    values: tuple[Any, ...]


_PLACE: Final = (
    pa.struct([("n", pa.int8()), ("at", INSTANT)]),
    pa.struct([("at", INSTANT), ("n", pa.int64()), ("new", pa.string())]),
    pa.struct([("n", pa.int64())]),
)
"""Fields of a struct come, go and change places."""

CATALOGUE: Final = (
    Column("action", (pa.string(),), ("view", "buy", "", "\N{SMILING FACE WITH SUNGLASSES}'\"\\")),
    Column("amount", (pa.int8(), pa.int32(), pa.int64()), (9, 10, -128)),
    Column("ratio", (pa.float32(), pa.float64()), (NAN, -0.0, 0.0, float("inf"), 1.5)),
    Column("price", (pa.decimal128(5, 2), pa.decimal128(12, 4)), (Decimal("-0.10"), Decimal("999.99"))),
    Column("at", (INSTANT,), (YEAR_9999_US, YEAR_2_US, 0)),
    Column("local_at", (pa.timestamp("us"),), (YEAR_9999_US, YEAR_2_US, 1)),
    Column("day", (pa.date32(),), (DAY_IN_9999, DAY_IN_2, 0)),
    Column("raw", (pa.binary(),), (b"\xff\x00", b"", b"a")),
    Column("flag", (pa.bool_(),), (True, False)),
    Column("place", _PLACE, (Struct(n=1, at=YEAR_9999_US), Struct(n=None, at=None), Struct(n=2, at=-1))),
    Column("tags", tuple(map(pa.list_, _PLACE)), ((), (None, Struct(n=1, at=0)), (Struct(n=1, at=YEAR_9999_US),))),
    Column(
        "marks",
        (pa.map_(pa.string(), pa.float32()), pa.map_(pa.string(), pa.float64())),
        ((), (("a", NAN), ("b", None)), (("a", -0.0),)),
    ),
)  # fmt: skip
COLUMNS: Final[Mapping[str, Column]] = {column.name: column for column in CATALOGUE}


def arrow_column(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
    """Plain values in a column of ``kind``; of a struct those fields that it has."""
    return pa.array([fitting(value, kind) for value in values], _counted(kind)).cast(kind)


def _counted(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _counted(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_counted(kind.value_type))
    if pa.types.is_date32(kind):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(kind) else kind


def shown(values: Mapping[str, Any], payload: Sequence[pa.Field] | None = None) -> str:
    """The payload of an event as text, without what is null; by the columns of ``payload``, if one is given."""
    if payload is not None:
        values = {field.name: fitting(values.get(field.name), field.type) for field in payload}
    return format_value(dict(values))


def fitting(value: Any, kind: pa.DataType) -> Any:
    """``value`` as it comes in a column of ``kind``: without the fields of structs that there are not."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return Struct({field.name: fitting(value.get(field.name), field.type) for field in kind})
    if pa.types.is_map(kind):
        return tuple((key, fitting(part, kind.item_type)) for key, part in value)
    if pa.types.is_list(kind):
        return tuple(fitting(part, kind.value_type) for part in value)
    return value
