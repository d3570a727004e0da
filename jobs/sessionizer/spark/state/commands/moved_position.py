"""The open sessions of a stopped stream in a new lineage with another position in its source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sessionizer.checkpoint.batch_logs import partitions_of
from sessionizer.checkpoint.names import PARTITIONS
from sessionizer.deployment.running_spec import new_record
from sessionizer.home.clock import epoch_ms
from sessionizer.lineage.excluded_ranges import EXCLUDED_RANGES_FILE
from sessionizer.lineage.source_ids import SOURCE_IDS_FILE, SourceIds
from sessionizer.spark.ingest.kept_types import require_readable_state
from sessionizer.spark.sinks.examine import examine
from sessionizer.spark.state.commands.runner import SparkRunner
from sessionizer.spark.state.lineages.transfer import transfer_state
from sessionizer.state.lineages.origin import Origin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer.control.operation import Operation
    from sessionizer.lineage.excluded_ranges import ExcludedRanges
    from sessionizer.state.commands.switch import Switch
    from sessionizer.state.lineages.committed_batch import CommittedBatch
    from sessionizer.stream_spec.document.stream import StreamSpec


@dataclass(frozen=True, slots=True)
class Move:
    """Position of the new lineage in its source, which ``committed`` has.

    ``excluded_ranges``: those that stay excluded. ``ids``: of each topic that the lineage has a position in.
    """

    committed: CommittedBatch
    excluded_ranges: ExcludedRanges
    ids: Mapping[str, str]


@dataclass(kw_only=True)
class PositionRunner(SparkRunner):
    """Runner of a ``command`` whose new lineage, by ``spec``, has another position in its source."""

    command: Switch
    spec: StreamSpec
    move: Move | None = field(default=None, init=False)

    def start_lineage(self, operation: Operation) -> None:
        """Start the new lineage. Raises HalfWrittenBatch."""
        assert self.move is not None  # noqa: S101  the executor plans first
        committed, excluded_ranges, ids = self.move.committed, self.move.excluded_ranges, self.move.ids
        examined = examine(self.spark, self.spec, self.home.platform)
        require_readable_state(self.home, committed.lineage, self.spec, examined.guarded.payload)
        records = EXCLUDED_RANGES_FILE.content(excluded_ranges) if excluded_ranges else {}
        state, transfer = transfer_state(
            self.spark,
            self.home,
            committed,
            new_record(self.home, self.spec),
            Origin(self.command.name, epoch_ms(), committed.lineage, committed.batch_id),
            same_source=False,
            records={**records, **(SOURCE_IDS_FILE.content(SourceIds(ids)) if ids else {})},
        )
        partitions = partitions_of(committed.settings[PARTITIONS], self.spec.key_groups)
        self.begin(self.spec, examined, partitions, transfer, operation)
        self.made.start(state)
