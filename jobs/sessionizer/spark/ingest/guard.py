"""The guard: every row either becomes an event or gets the reason why not, in Spark's own SQL, before any Python.

A refused row keeps its place in the stream (it must be written to the quarantine in the same batch) but loses its
event time, so it can never move the watermark.

Spark replaces ``current_timestamp()`` by the time in the offset log of the batch, so a replay is judged alike. It would
write the time as a number into the Java text that it generates, which would then be compiled anew in every batch. The
clock is therefore a table of one row that is broadcast to the rows (docs/develop/tuning.md).

The current payload must be able to take the open events of a lineage (docs/adr/0050). Columns may come, go and change
places, and take a type that has every value of the old one. Other changes are refused before anything is written: the
state would be unreadable at the next merge, by the old spec as by the new.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Final, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from sessionizer.checkpoint.log_entries import read_begun_batch
from sessionizer.control.records.erasure_record import read_erasures
from sessionizer.core.definition.erasure import PERSONAL
from sessionizer.core.definition.outcome import QuarantineReason
from sessionizer.core.definition.rules import NEVER_MS
from sessionizer.core.wire import schema
from sessionizer.core.wire.alignment import unfit
from sessionizer.core.wire.erased_keys import NOBODY_ERASED, ErasedKeys, refuse_erased
from sessionizer.errors import InvalidSpec, SpecProblems
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.kept_spec import TYPES_FILE, KeptTypes
from sessionizer.spark.ingest.expressions import (
    check_type,
    find_beyond_years,
    normalize_type,
    require_keepable,
    require_type,
)
from sessionizer.spark.ingest.file_source.lines import FAULT, POSITION, RAW
from sessionizer.spark.internals.trying import try_expression
from sessionizer.stream_spec.document.rules import Mapping
from sessionizer.stream_spec.document.stream import StreamSpec

_NOW_MS: Final = "_now_ms"


class BatchClock:
    """The clock that rows are judged by, in epoch ms: ``instant``, or that of the running micro-batch if it is None."""

    def __init__(self, instant: int | None) -> None:
        self._instant = instant

    def add_clock(self, rows: DataFrame) -> DataFrame:
        """Return ``rows`` over which ``now_ms`` can be evaluated. The clock of a batch is one more column."""
        if self._instant is not None:
            return rows
        # a higher-order function keeps the number out of the generated text of the small table, too
        hidden = F.transform(F.array(F.lit(0)), lambda _: F.unix_millis(F.current_timestamp()))
        clock = rows.sparkSession.range(0, 1, 1, numPartitions=1).select(hidden.getItem(0).alias(_NOW_MS))
        return rows.crossJoin(F.broadcast(clock))

    @property
    def now_ms(self) -> Column:
        """Return the clock's time (bigint), for rows that ``add_clock`` returned."""
        return F.col(_NOW_MS) if self._instant is None else F.lit(self._instant).cast("bigint")


REASON = "reason"
EVENT_TIME = "event_time"
INTEGERS: Final = ("byte", "short", "integer", "long")
_TYPED: Final = {
    "event_time": (("timestamp", "timestamp_ntz", "date"), "For epoch milliseconds write timestamp_millis(...)"),
    "closes": (("boolean",), "For example: type = 'logout'"),
    "timeout_ms": (INTEGERS, "It is in milliseconds, for example cast(timeout_s * 1000 as bigint)"),
}
"""Fields of a mapping that must have one of some types, and an example."""
_READ: Final = frozenset({RAW, POSITION, FAULT})
Checks: TypeAlias = "list[tuple[Column, QuarantineReason]]"
"""The possible faults of a row, with their reasons."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """Guarded ``rows``: event columns, ``reason``, ``_raw``, ``_position`` and ``event_time``.

    ``event_time`` moves the watermark: null when refused, never beyond the batch's clock. ``payload``: the types of
    these columns. ``erased``: keys whose rows are still to be refused, as they leave Spark for Python.
    """

    rows: DataFrame
    payload: StructType
    erased: ErasedKeys = NOBODY_ERASED

    @property
    def payload_fields(self) -> schema.Payload:
        """Payload columns as Arrow fields."""
        return arrow_fields(self.payload)

    def refusing_erased(self, erased: ErasedKeys) -> Guarded:
        """Return the rows of a table with those of ``erased`` keys refused. A stream does it where rows are packed."""
        if not erased:
            return self

        def refuse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return (refuse_erased(batch, erased) for batch in batches)

        # a redaction makes any of them null
        columns = StructType([StructField(each.name, each.dataType) for each in self.rows.schema])
        return Guarded(self.rows.mapInArrow(refuse, columns), self.payload)


def arrow_fields(columns: StructType) -> list[pa.Field]:
    """Convert Spark columns to the Arrow fields that Spark itself exchanges with Python."""
    return list(to_arrow_schema(columns, timezone="UTC"))


def guard(rows: DataFrame, spec: StreamSpec) -> Guarded:
    """Map source rows to events. Raises InvalidSpec for an expression that does not fit the source."""
    payload = _check(rows, spec.mapping)
    clock = BatchClock(None if rows.isStreaming else epoch_ms())
    # Mapped first, judged after: the reason below then reads columns, and no expression is evaluated twice.
    mapped = rows.select(*_map_columns(rows, spec), RAW, POSITION, FAULT)
    has_watermark, source = spec.rules.clock.has_watermark, spec.source
    # the size and the encoding of a line were checked before it was parsed
    as_line = source.format == "socket" or (source.format == "files" and source.encoding in {"json", "text"})
    reason = _reason(spec, clock, [] if as_line else _value_checks(mapped, spec), _year_checks(mapped))
    judged = clock.add_clock(mapped).withColumn(REASON, reason)
    valid = F.col(REASON).isNull()
    arrival = F.timestamp_millis(clock.now_ms)
    # what moves the watermark: a client whose clock is ahead must not make the events of others late
    event_time = F.when(valid, F.least(F.col(EVENT_TIME), arrival)) if has_watermark else arrival
    raw = F.col(RAW) if as_line else F.coalesce(F.col(RAW), _format_as_json(mapped))
    refused_only = [F.when(~valid, raw).alias(RAW), F.when(~valid, F.col(POSITION)).alias(POSITION)]
    if has_watermark:
        clocks = [F.unix_millis(EVENT_TIME).alias(schema.CLOCK)]
    else:
        clocks = [clock.now_ms.alias(schema.CLOCK), F.coalesce(F.unix_millis(EVENT_TIME), F.lit(0)).alias(schema.TIE)]
    own = [schema.EVENT_ID, schema.CLOSES, schema.TIMEOUT]
    named = ((f"{schema.PAYLOAD}_{field.name}", field.dataType) for field in payload)
    columns = [F.col(name).cast(kind).alias(name) for name, kind in named]
    rest: list[Column | str] = [*own, *columns, REASON, *refused_only, event_time.alias(EVENT_TIME)]
    return Guarded(judged.select(schema.KEY, schema.CLIENT, *clocks, *rest), payload)


def _check(rows: DataFrame, mapping: Mapping) -> StructType:
    """Return the payload's types. Raises InvalidSpec for the first field that does not fit, with the others."""
    misfits = SpecProblems()
    for name in ("key", "client", "event_id"):
        if (sql := getattr(mapping, name)) is not None:
            with misfits.noted():
                check_type(rows, f"mapping.{name}", sql)
    for name, (kinds, example) in _TYPED.items():
        if (sql := getattr(mapping, name)) is not None:
            with misfits.noted():
                require_type(rows, f"mapping.{name}", sql, kinds, example)
    payload = StructType()
    for name, sql in mapping.payload.items():
        with misfits.noted():
            payload = payload.add(name, normalize_type(require_keepable(rows, f"mapping.payload.{name}", sql)))
    misfits.raise_them()
    return payload


def _map_columns(rows: DataFrame, spec: StreamSpec) -> list[Column]:
    def optional(sql: str | None, kind: str) -> Column:
        return F.lit(None).cast(kind) if sql is None else try_expression(rows, sql).cast(kind)

    mapping = spec.mapping
    timeout = optional(mapping.timeout_ms, "bigint")
    # sums with a clock would overflow. ``least`` takes a null for absent
    capped = F.when(timeout > NEVER_MS, F.lit(NEVER_MS)).otherwise(timeout)
    return [
        optional(mapping.key, "string").alias(schema.KEY),
        optional(mapping.client, "string").alias(schema.CLIENT),
        optional(mapping.event_time, "timestamp").alias(EVENT_TIME),
        optional(mapping.event_id, "string").alias(schema.EVENT_ID),
        F.coalesce(optional(mapping.closes, "boolean"), F.lit(False)).alias(schema.CLOSES),  # noqa: FBT003  lit has no keyword
        capped.alias(schema.TIMEOUT),
        *(try_expression(rows, sql).alias(f"{schema.PAYLOAD}_{name}") for name, sql in mapping.payload.items()),
    ]


def _value_checks(mapped: DataFrame, spec: StreamSpec) -> Checks:
    """Return the checks of a line as a whole, here by the values that are kept of a row."""
    kept = [field for field in mapped.schema if field.name not in _READ]
    texts = [F.col(field.name) for field in kept if isinstance(field.dataType, StringType)]
    sizes = [F.octet_length(field.name) for field in kept if isinstance(field.dataType, StringType | BinaryType)]
    size = reduce(operator.add, (F.coalesce(size, F.lit(0)) for size in sizes))
    invalid = reduce(operator.or_, (~F.coalesce(F.is_valid_utf8(text), F.lit(True)) for text in texts))  # noqa: FBT003
    return [(size > spec.rules.max_event_bytes, QuarantineReason.OVERSIZED), (invalid, QuarantineReason.INVALID_UTF8)]


def _year_checks(mapped: DataFrame) -> Checks:
    """Return the checks of years, for the payload only, because other columns are bounded by rules or hold no time."""
    payload = [field for field in mapped.schema if field.name.startswith(f"{schema.PAYLOAD}_")]
    found = [find_beyond_years(F.col(f"`{field.name}`"), field.dataType) for field in payload]
    return [(beyond, QuarantineReason.YEAR_OUT_OF_RANGE) for beyond in found if beyond is not None]


def _format_as_json(mapped: DataFrame) -> Column:
    names = [name for name in mapped.columns if name not in _READ]
    columns = [F.col(name).alias(name.removeprefix(f"{schema.PAYLOAD}_")) for name in names]
    return F.make_valid_utf8(F.to_json(F.struct(*columns)))


def _reason(spec: StreamSpec, clock: BatchClock, value_checks: Checks, year_checks: Checks) -> Column:
    reason, at = F.when(F.col(FAULT).isNotNull(), F.col(FAULT)), F.unix_millis(EVENT_TIME)
    of_time: Checks = [
        (F.col(EVENT_TIME).isNull(), QuarantineReason.NULL_EVENT_TIME),
        (at <= 0, QuarantineReason.NON_POSITIVE_EVENT_TIME),
        (at > clock.now_ms + F.lit(spec.rules.future_tolerance_ms), QuarantineReason.FUTURE_EVENT_TIME),
    ]
    checks = [
        *value_checks,
        (F.col(schema.KEY).isNull(), QuarantineReason.NULL_KEY),
        (F.col(schema.EVENT_ID).isNull(), QuarantineReason.NULL_EVENT_ID),
        *(of_time if spec.rules.clock.has_watermark else []),
        (F.col(schema.TIMEOUT) <= 0, QuarantineReason.NON_POSITIVE_TIMEOUT),
        *year_checks,
    ]
    for wrong, name in checks:
        reason = reason.when(wrong, F.lit(name.value))
    return reason


def require_readable_state(home: StreamHome, lineage: str | None, spec: StreamSpec, payload: StructType) -> None:
    """Raise InvalidSpec if the state of ``lineage`` may hold values that ``spec`` cannot take, or DamagedFile."""
    require_erased_columns(home, payload)
    kept = TYPES_FILE.of(home, lineage).require() if lineage else None
    if kept is not None and lineage is not None and read_begun_batch(home.checkpoint(lineage)) is not None:
        require_fitting(spec, payload, kept)


def require_erased_columns(home: StreamHome, payload: StructType) -> None:
    """Raise InvalidSpec if people were erased by a column that ``payload`` lacks: a replay would bring them back."""
    for column in {each.column for each in read_erasures(home)}.difference(PERSONAL):
        found = payload[column].dataType.simpleString() if column in payload.names else None
        if found != "string":
            raise InvalidSpec(f"mapping.payload.{column}", found, "a text, because people were erased by this column")


def require_fitting(spec: StreamSpec, payload: StructType, kept: KeptTypes) -> None:
    """Raise InvalidSpec if ``spec`` with this ``payload`` cannot take open events as they are by ``kept``."""
    if kept.time_mode != spec.rules.clock:
        allowed = f"{kept.time_mode!r}, the clock of this stream's state, or start another stream for another clock"
        raise InvalidSpec("rules.time_mode", str(spec.rules.clock), allowed)
    require_in_reach(payload, kept)


def require_in_reach(payload: StructType, kept: KeptTypes) -> None:
    """Raise InvalidSpec if a column of ``payload`` cannot take the types that open events may have, by ``kept``."""
    for column in payload:
        for before in kept.payload.get(column.name, []):
            old = StructType.fromJson(struct_of(column.name, before))[column.name]
            if (found := unfit(*(arrow_fields(StructType([each]))[0].type for each in (old, column)))) is not None:
                inside = f" at {'.'.join(found.path)}" if found.path else ""
                allowed = (
                    f"{sql_type(found.before)}{inside}, which open events may have, or a type that has each of its "
                    "values. Give a column of another type another name"
                )
                raise InvalidSpec(f"mapping.payload.{column.name}", sql_type(found.now), allowed)


def types_of(payload: StructType) -> dict[str, object]:
    """Return the types of its columns as Spark writes them in JSON."""
    return {field.name: field.dataType.jsonValue() for field in payload}


def sql_type(kind: pa.DataType) -> str:
    """Name the type as Spark does."""
    return from_arrow_type(kind).simpleString()


def remember_types(home: StreamHome, lineage: str, spec: StreamSpec, payload: StructType) -> None:
    """Record that events of these types come into the state of ``lineage`` from now on. Raises UnwritablePath."""
    kept = TYPES_FILE.of(home, lineage).require() if read_begun_batch(home.checkpoint(lineage)) is not None else None
    kept = kept or KeptTypes(str(spec.rules.clock))
    more = kept.add_payload(types_of(payload))
    if more != kept or not kept.payload:
        TYPES_FILE.of(home, lineage).write(more)


def struct_of(name: str, kind: object) -> dict[str, object]:
    """Return a type in JSON as the struct that ``fromJson`` takes."""
    return {"type": "struct", "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}}]}
