"""Rows that a migration leaves as they are: sessions that were over before it, and conflicting duplicates.

They are kept in a folder of the command until the new lineage is active. Then they are written into the tables that the
old spec names, as batch 0 of the new lineage. A table takes that batch once, so a killed command does it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sessionizer.core.wire import rows
from sessionizer.home.data_files import list_names, remove_tree
from sessionizer.home.roots import uri_of
from sessionizer.lineage.batch_log import BatchLog, table_key
from sessionizer.spark.ingest.guard import arrow_fields
from sessionizer.spark.sinks.measures import GuardedAggregates
from sessionizer.spark.sinks.write import Sinks

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from sessionizer.core.wire import schema
    from sessionizer.home.roots import DataPath
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.lineage.kept_spec import KeptTypes
    from sessionizer.stream_spec.document.stream import StreamSpec

DECIDED: Final = "decided"
"""Folder with rows of ``rows.EMITTED``: what the key groups came to before the migration."""
_SEED_BATCH: Final = 0


def payload_so_far(spec: StreamSpec, kept: KeptTypes) -> schema.Payload:
    """Return the payload columns of the ``spec`` so far, in the newest of the types that each had."""
    types = {name: kept.payload[name][-1] for name in spec.mapping.payload if name in kept.payload}
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types.items()]
    return arrow_fields(StructType.fromJson({"type": "struct", "fields": fields}))


def write_finished_rows(
    spark: SparkSession,
    home: StreamHome,
    lineage: str,
    before: tuple[StreamSpec, KeptTypes],
    folder: DataPath,
    permit: Callable[[], None],
) -> None:
    """Write the finished rows in ``folder`` as batch 0 of ``lineage``, then remove the folder.

    ``before``: the spec and the types of the lineage that the rows come from. Without a folder nothing is left to do.
    Raises LeaseLost, and the errors of the tables.
    """
    if not list_names(folder):
        return
    spec, kept = before
    sinks = Sinks(
        lineage,
        home.streamed_locations(spec.sink.path),
        payload_so_far(spec, kept),
        GuardedAggregates.of(spark, spec.measures),
        spec.sink.keep_events,
        permit,
        stream=spec.name,
        begun=_SEED_BATCH,
    )
    decided = spark.read.schema(rows.EMITTED).parquet(uri_of(folder / DECIDED))
    counts = sinks.write(decided.where(F.col("kind").isin(rows.SESSIONS, rows.QUARANTINE)), _SEED_BATCH)
    written = [table_key(spec.sink.path, table) for table in counts.tables]
    BatchLog(home.lineage(lineage).batches).note_rows(_SEED_BATCH, written)
    remove_tree(folder)
