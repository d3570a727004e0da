"""The tables of a stream, there and its own: made where they are not, claimed where they have no owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.home.data_files import names_in
from sessionizer.home.platform_home import owner_name
from sessionizer.home.table_places import table_locations
from sessionizer.spark.sinks.table_owner import claim_tables, require_ours
from sessionizer.spark.sinks.table_shapes import STREAMED
from sessionizer.spark.sinks.tables import ensure_tables

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from sessionizer.home.stream_home import StreamHome
    from sessionizer.spark.sinks.table_shapes import TableShape
    from sessionizer.stream_spec.document.stream import StreamSpec


def streamed_tables(home: StreamHome, spec: StreamSpec) -> dict[str, str]:
    """The tables that batches write: name to location."""
    locations = table_locations(home, spec.sink.path)
    return {name: locations[name] for name in STREAMED}


def have_tables(spark: SparkSession, home: StreamHome, spec: StreamSpec, shapes: Iterable[TableShape]) -> None:
    """Have the tables of the stream, which no other one writes. Raises TableOwned, and as ``ensure_tables``."""
    owner, ours = owner_name(home.name, home.control_base), streamed_tables(home, spec)
    claim_tables(spark, ours, owner, set(names_in(home.lineages)))
    ensure_tables(spark, shapes, ours, owner)
    require_ours(spark, ours, owner)
