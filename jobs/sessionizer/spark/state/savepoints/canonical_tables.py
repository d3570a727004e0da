"""The tables of a savepoint as DataFrames, and its open events as the sessions they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from sessionizer.core.key_group.contents import would_be_schema, would_be_sessions
from sessionizer.core.wire.canonical import KEY_GROUP, log_of
from sessionizer.home.roots import uri_of
from sessionizer.home.stream_home import GROUP_LOGS, OPEN_EVENTS, TIMEOUTS
from sessionizer.lineage.kept_spec import KeptTypes
from sessionizer.spark.query.assembly import rules_of
from sessionizer.spark.state.group_logs import label_groups, whole_logs
from sessionizer.spark.state.open_events import open_event_schema, open_events_of, open_payload
from sessionizer.state.savepoints.manifest import read_saved_spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.core.definition.rules import SessionRules
    from sessionizer.core.wire import schema
    from sessionizer.home.stream_home import SavepointHome
    from sessionizer.state.savepoints.manifest import Manifest

_BLOB_OF_LOG: Final = ("key_group", "number", "of", "blob")


def savepoint_table(spark: SparkSession, home: SavepointHome, part: str) -> DataFrame:
    """Read a table of a canonical savepoint."""
    return spark.read.format("delta").load(uri_of(home.part(part)))


def has_table(manifest: Manifest, part: str) -> bool:
    """Whether a savepoint has the table. Older ones have no logs, and those before an upgrade have no rows."""
    return any(file.path.startswith(f"{part}/") for file in manifest.files)


def read_saved_logs(spark: SparkSession, home: SavepointHome, key_groups: int) -> DataFrame:
    """Read the logs of the ``key_groups`` of a canonical savepoint, by ``rows.INITIAL``."""
    blobs = savepoint_table(spark, home, GROUP_LOGS).select(*_BLOB_OF_LOG)
    return label_groups(blobs, key_groups)


def saved_events(spark: SparkSession, home: SavepointHome, manifest: Manifest) -> DataFrame:
    """Read the open events of a canonical savepoint, by ``canonical_schema`` of the revision that made it.

    Evaluate it in ``few_blobs_at_a_time``, because without rows the events are opened from the logs.
    """
    if has_table(manifest, OPEN_EVENTS):
        return savepoint_table(spark, home, OPEN_EVENTS)
    groups, kept = manifest.key_groups, KeptTypes(manifest.time_mode, manifest.payload_types)
    return open_events_of(whole_logs(read_saved_logs(spark, home, groups), groups), groups, open_event_schema(kept))


def saved_timeouts(spark: SparkSession, home: SavepointHome, manifest: Manifest) -> dict[str, int]:
    """Read the clients' timeouts (ms) that were changed before a canonical savepoint."""
    if manifest.counts is not None and not manifest.counts.timeouts:
        return {}  # most streams change none, and to read an empty table takes a second
    return {row.client: row.timeout_ms for row in savepoint_table(spark, home, TIMEOUTS).collect()}


def open_sessions(spark: SparkSession, home: SavepointHome, manifest: Manifest) -> DataFrame:
    """Return the sessions that are open in a savepoint, by ``would_be_schema``, with their key group."""
    payload = open_payload(KeptTypes(manifest.time_mode, manifest.payload_types))
    rules = rules_of(read_saved_spec(home, manifest))
    shape = from_arrow_schema(would_be_schema(payload), prefer_timestamp_ntz=False)
    events = saved_events(spark, home, manifest)
    return events.groupBy(KEY_GROUP).applyInArrow(_sessions(rules, payload), shape)


def _sessions(rules: SessionRules, payload: schema.Payload) -> Callable[[pa.Table], pa.Table]:
    def sessions(rows: pa.Table) -> pa.Table:
        shape = would_be_schema(payload)
        return pa.concat_tables([shape.empty_table(), *would_be_sessions(log_of(rows), rules, payload)])

    return sessions
