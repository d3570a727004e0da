"""The rows of any other query's state, as Spark's own reader of states returns them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.storagelevel import StorageLevel

from sessionizer.errors import InvalidSpec, SourceUnreachable
from sessionizer.home.roots import folder_at, uri_of
from sessionizer.inspection.inspect import inspect
from sessionizer.spark.internals.java_errors import JavaError, java_message
from sessionizer.spark.state.foreign_rows import parts_of, state_format
from sessionizer.spark.state.open_events import reading_state
from sessionizer.state.seeds.seed_plan import CHECKPOINT, HistoryPlace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.inspection.inspect import Inspection


@dataclass(frozen=True, slots=True)
class StateRows:
    """A part of the state at ``location`` after ``batch_id``. ``options``: those of Spark's reader."""

    location: str
    batch_id: int
    state_format: int | None
    options: tuple[tuple[str, str], ...]


def state_at(given: str, part: str | None, field: str) -> tuple[HistoryPlace, StateRows]:
    """Return the state in ``given``: ``checkpoint:`` and a path or URI.

    ``part``: ``OPERATOR/NAME`` if there are several.

    Raises InvalidSpec if there is none, or more than one and none is named, and StoreUnreachable.
    """
    folder = folder_at(given.removeprefix(CHECKPOINT), field)
    found = inspect(folder)
    if found is None or found.checkpoint.committed is None:
        raise InvalidSpec(field, given, f"{CHECKPOINT} and the checkpoint of a query with a committed batch")
    name, options = _part(found, part)
    batch = found.checkpoint.committed
    rows = StateRows(uri_of(folder), batch, found.checkpoint.state_format, tuple(options.items()))
    return HistoryPlace("checkpoint", uri_of(folder), f"{name} after batch {batch}"), rows


def _part(found: Inspection, wanted: str | None) -> tuple[str, dict[str, str]]:
    parts = {
        f"{operator.number}/{variable or store}": {**options, "operatorId": str(operator.number)}
        for operator in found.checkpoint.operators.values()
        for store, variable, options in parts_of(operator)
    }
    if wanted is None and len(parts) == 1:
        return next(iter(parts.items()))
    if wanted not in parts:
        raise InvalidSpec("--table", wanted, f"one part of the state: {', '.join(parts) or 'it has none'}")
    return wanted, parts[wanted]


def read_state(spark: SparkSession, state: StateRows) -> DataFrame:
    """Read its rows and keep them on disk, because Spark reads a state by the session's settings.

    Raises SourceUnreachable.
    """
    reader = spark.read.format("statestore").option("batchId", state.batch_id).options(**dict(state.options))
    with reading_state(spark), state_format(spark, state.state_format):
        try:
            rows = reader.load(state.location).persist(StorageLevel.DISK_ONLY)
            rows.count()
        except (PySparkException, JavaError) as error:
            raise SourceUnreachable(state.location, java_message(error)) from error
    return rows
