"""Check that the open events of a lineage can be read by the current payload (docs/adr/0050).

Columns may come, go and change places, and take a type that has every value of the old one. Other changes are refused
before anything is written: the state would be unreadable at the next merge, by the old spec as by the new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructType

from sessionizer.checkpoint.log_entries import read_begun_batch
from sessionizer.core.wire.alignment import unfit
from sessionizer.errors import InvalidSpec
from sessionizer.lineage.kept_spec import TYPES_FILE, KeptTypes
from sessionizer.spark.ingest.guard import arrow_fields

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructField

    from sessionizer.home.stream_home import StreamHome
    from sessionizer.stream_spec.document.stream import StreamSpec

TIME_MODE: Final = "rules.time_mode"


def require_readable_state(home: StreamHome, lineage: str | None, spec: StreamSpec, payload: StructType) -> None:
    """Raise InvalidSpec if the state of ``lineage`` may hold values that ``spec`` cannot take. Writes nothing.

    ``payload``: the types that the columns of ``spec`` have. Raises DamagedFile if the record of types is lost.
    """
    kept = TYPES_FILE.of(home, lineage).require() if lineage else None
    if kept is None or lineage is None or read_begun_batch(home.checkpoint(lineage)) is None:
        return
    if kept.time_mode != spec.rules.clock:
        allowed = f"{kept.time_mode!r}, the clock of this stream's state, or start another stream for another clock"
        raise InvalidSpec(TIME_MODE, str(spec.rules.clock), allowed)
    require_in_reach(payload, kept)


def require_in_reach(payload: StructType, kept: KeptTypes) -> None:
    """Raise InvalidSpec if a column of ``payload`` cannot take the types that open events may have, by ``kept``."""
    for column in payload:
        for before in kept.payload.get(column.name, []):
            _require_in_reach(column, StructType.fromJson(struct_of(column.name, before))[column.name])


def types_of(payload: StructType) -> dict[str, object]:
    """Return the types of its columns as Spark writes them in JSON."""
    return {field.name: field.dataType.jsonValue() for field in payload}


def _require_in_reach(now: StructField, before: StructField) -> None:
    found = unfit(*(arrow_fields(StructType([column]))[0].type for column in (before, now)))
    if found is not None:
        inside = f" at {'.'.join(found.path)}" if found.path else ""
        allowed = (
            f"{sql_type(found.before)}{inside}, which open events may have, or a type that has each of its values. "
            "Give a column of another type another name"
        )
        raise InvalidSpec(f"mapping.payload.{now.name}", sql_type(found.now), allowed)


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
