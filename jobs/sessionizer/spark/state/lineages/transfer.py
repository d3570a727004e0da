"""The state of a stopped stream, out of its own checkpoint, for a new lineage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.errors import HalfWrittenBatch
from sessionizer.lineage.applied_migrations import MIGRATIONS_FILE, AppliedMigrations, read_applied
from sessionizer.spark.sinks.examine import half_written_batch
from sessionizer.spark.state.open_events import describe_state, read_state_timeouts, reading_state
from sessionizer.state.lineages.state_transfer import StateTransfer, records_beside, unread_punctuations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from sessionizer.home.json_record import JsonObject
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.lineage.kept_spec import LineageSpec
    from sessionizer.spark.state.lineages.initial_log import DividedEvents
    from sessionizer.spark.state.lineages.migrated_events import MigratedEvents
    from sessionizer.spark.state.open_events import KeptState
    from sessionizer.state.lineages.committed_batch import CommittedBatch
    from sessionizer.state.lineages.origin import Origin


def transfer_state(  # noqa: PLR0913  what a lineage begins with
    spark: SparkSession,
    home: StreamHome,
    committed: CommittedBatch,
    spec: LineageSpec,
    origin: Origin,
    *,
    same_source: bool = True,
    records: Mapping[str, JsonObject] | None = None,
    migrated: MigratedEvents | None = None,
) -> tuple[KeptState | DividedEvents, StateTransfer]:
    """Return the state after the committed batch of ``committed``, for a new lineage by ``spec``.

    ``same_source``: whether the source stays, so that its excluded ranges stay excluded. ``records``: other
    files of the lineage, by their names. ``migrated``: the open events in place of those of the state, which are
    migrated now. Raises HalfWrittenBatch, MigrationRefused.
    """
    _require_whole(spark, home, committed)
    state = describe_state(home, committed)
    if migrated is None:
        kept, applied = committed.kept, read_applied(home, committed.lineage)
        with reading_state(spark):
            timeouts = read_state_timeouts(spark, state)
    else:
        kept, applied, timeouts = migrated.kept, migrated.applied(), migrated.timeouts()
    transfer = StateTransfer(
        origin=origin,
        spec=spec,
        kept=kept,
        watermark_ms=committed.watermark_ms,
        offset=committed.position.offset,
        seen=committed.seen_files,
        timeouts=timeouts,
        records={
            **records_beside(home, committed.lineage, same_source=same_source),
            **(records or {}),
            **MIGRATIONS_FILE.content(AppliedMigrations(applied)),
        },
        punctuations=unread_punctuations(home, committed),
    )
    if migrated is None:
        return state, transfer
    migrated.decide()
    return migrated.migrate(int(spec.document["key_groups"])), transfer


def _require_whole(spark: SparkSession, home: StreamHome, committed: CommittedBatch) -> None:
    """Raise HalfWrittenBatch if a later batch has written rows. The new lineage would write them once more."""
    written = home.streamed_locations(committed.spec["sink"]["path"]).values()
    begun = half_written_batch(spark, home, committed.lineage, written)
    if begun is not None:
        raise HalfWrittenBatch(home.name, begun)
