"""The open sessions of a stopped stream in a new lineage with another position in its source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sessionizer.deployment.running_spec import new_record
from sessionizer.home.clock import epoch_ms
from sessionizer.home.lineage_home import LEFT_OUT, SOURCE_IDS
from sessionizer.lineage.checkpoint import PARTITIONS, partitions_of
from sessionizer.lineage.source_ids import record_of_ids
from sessionizer.spark.ingest.kept_types import require_readable_state
from sessionizer.spark.sinks.examine import examine
from sessionizer.spark.state.lineages.reseeding import Reseeding
from sessionizer.spark.state.lineages.seeding import Seeding
from sessionizer.state.lineages.origin import Origin
from sessionizer.state.lineages.switch_plan import VERB

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from sessionizer.home.json_record import JsonObject
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.lineage.left_out import LeftOut
    from sessionizer.lineage.trial.judging import Terms
    from sessionizer.state.lineages.handover import Step
    from sessionizer.state.lineages.standing import Standing
    from sessionizer.stream_spec.document.stream import StreamSpec


@dataclass(frozen=True, slots=True)
class Moving:
    """A move. ``spec``: the spec of the new lineage. ``permit`` returns only while the lease is known to be ours."""

    spark: SparkSession
    home: StreamHome
    spec: StreamSpec
    permit: Callable[[], None]
    after: Callable[[Step], None]
    trial: Terms | None = None
    ids: Mapping[str, str] = field(default_factory=dict)
    """The identity of each topic that the new lineage has a position in."""

    def run(self, standing: Standing, left_out: LeftOut) -> str:
        """Make the new lineage, whose source stands as ``standing`` says, and activate it.

        ``left_out``: the ranges of the source that stay left out. Raises HalfWrittenBatch, UnfaithfulState.
        """
        examined = examine(self.spark, self.spec, self.home.platform)
        require_readable_state(self.home, standing.lineage, self.spec, examined.guarded.payload)
        partitions = partitions_of(standing.settings[PARTITIONS], self.spec.key_groups)
        seeding = Seeding(
            self.spark,
            self.home,
            self.spec,
            examined,
            partitions,
            permit=self.permit,
            after=self.after,
            trial=self.trial,
        )
        origin = Origin(VERB, epoch_ms(), standing.lineage, standing.batch_id)
        record = new_record(self.home, self.spec)
        records: dict[str, JsonObject] = {LEFT_OUT: left_out.record()} if left_out else {}
        if self.ids:
            records[SOURCE_IDS] = record_of_ids(self.ids)
        return Reseeding(seeding, standing, record, origin, same_source=False, records=records).run()
