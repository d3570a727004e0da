"""The state of a stopped stream, out of its own checkpoint, into a new lineage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sessionizer.errors import HalfWrittenBatch
from sessionizer.home.lineage_home import MIGRATIONS
from sessionizer.home.table_places import table_locations
from sessionizer.lineage.applied_migrations import read_applied, record_of_applied
from sessionizer.spark.sinks.half_written import half_written_batch
from sessionizer.spark.sinks.table_shapes import STREAMED
from sessionizer.spark.state.open_events import kept_state, read_timeouts, reading_state
from sessionizer.state.lineages.handover import Handover, records_beside, unread_punctuations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer.home.json_record import JsonObject
    from sessionizer.lineage.kept_spec import LineageSpec
    from sessionizer.spark.state.lineages.migrated_events import MigratedEvents
    from sessionizer.spark.state.lineages.seeding import Seeding
    from sessionizer.state.lineages.origin import Origin
    from sessionizer.state.lineages.standing import Standing


@dataclass(frozen=True, slots=True)
class Reseeding:
    """A new lineage by ``spec`` after the committed batch of ``standing``.

    ``same_source``: whether the source stays, so that its excluded ranges stay excluded. ``records``: other files of
    the lineage, by their names. ``migrated``: the open events in place of those of the state.
    """

    seeding: Seeding
    standing: Standing
    spec: LineageSpec
    origin: Origin
    same_source: bool = True
    records: Mapping[str, JsonObject] = field(default_factory=dict)
    migrated: MigratedEvents | None = None

    def run(self) -> str:
        """Make the new lineage, and return it, active by then. Raises HalfWrittenBatch, UnfaithfulState, LeaseLost."""
        seeding, standing = self.seeding, self.standing
        self._require_whole()
        state = kept_state(seeding.home, standing)
        with reading_state(seeding.spark):
            timeouts = read_timeouts(seeding.spark, state)
        handover = Handover(
            origin=self.origin,
            spec=self.spec,
            kept=standing.kept if self.migrated is None else self.migrated.kept,
            watermark_ms=standing.watermark_ms,
            offset=standing.position.offset,
            seen=standing.seen_files,
            timeouts=timeouts,
            records={
                **records_beside(seeding.home, standing.lineage, same_source=self.same_source),
                **self.records,
                MIGRATIONS: self._applied() if self.migrated is None else self.migrated.record(),
            },
            punctuations=unread_punctuations(seeding.home, standing),
        )
        if self.migrated is None:
            return seeding.run(state, handover)
        self.migrated.decide()
        return seeding.run(self.migrated.migrate(), handover)

    def _applied(self) -> JsonObject:
        return record_of_applied(read_applied(self.seeding.home, self.standing.lineage))

    def _require_whole(self) -> None:
        """Raise HalfWrittenBatch if a later batch has written rows. The new lineage would write them once more."""
        home, standing = self.seeding.home, self.standing
        places = table_locations(home, standing.spec["sink"]["path"])
        tables = [places[name] for name in STREAMED]
        begun = half_written_batch(self.seeding.spark, home.checkpoint(standing.lineage), standing.lineage, tables)
        if begun is not None:
            raise HalfWrittenBatch(home.name, begun)
