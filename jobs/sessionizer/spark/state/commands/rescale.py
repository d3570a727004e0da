"""Runner of a rescale: the state of a stopped stream in other key groups and partitions, in a new lineage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sessionizer.home.clock import epoch_ms
from sessionizer.lineage.kept_spec import SPEC_FILE, LineageSpec
from sessionizer.spark.sinks.examine import examine
from sessionizer.spark.state.commands.runner import SparkRunner
from sessionizer.spark.state.lineages.transfer import transfer_state
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.lineages.origin import Origin
from sessionizer.stream_spec.loading.spec_file import parse_recorded_spec

if TYPE_CHECKING:
    from sessionizer.control.operation import Operation
    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.state.commands.command import Plan
    from sessionizer.state.commands.rescale import Rescale
    from sessionizer.state.lineages.committed_batch import CommittedBatch
    from sessionizer.state.lineages.rescale_plan import RescalePlan


@dataclass(kw_only=True)
class RescaleRunner(SparkRunner):
    """Runner of ``command``. ``key_groups``: the number in the stream's file."""

    command: Rescale
    key_groups: int
    _found: tuple[CommittedBatch, RescalePlan] | None = field(default=None, init=False)

    def plan_again(self, record: OperationRecord) -> Plan[RescalePlan]:  # noqa: ARG002  the interface
        """Make the plan. Raises the errors of ``read_committed_batch``, which keep a stream from being saved."""
        committed = read_committed_batch(self.home)
        plan = self.command.plan(self.home.name, committed, self.key_groups)
        self._found = committed, plan.decision
        return plan

    def start_lineage(self, operation: Operation) -> None:
        """Start the new lineage. An approval of the file's spec that waits for the next driver stays."""
        assert self._found is not None  # noqa: S101  the executor plans first
        (committed, decision), now = self._found, epoch_ms()
        document = {**committed.spec, "key_groups": decision.now.key_groups}
        spec = parse_recorded_spec(document, SPEC_FILE.of(self.home, committed.lineage).path)
        kept = SPEC_FILE.of(self.home, committed.lineage).require()
        state, transfer = transfer_state(
            self.spark,
            self.home,
            committed,
            LineageSpec(document, now, kept.desired_at if kept else 0, rescaled_over=self.key_groups),
            Origin(self.command.name, now, committed.lineage, committed.batch_id),
        )
        self.begin(spec, examine(self.spark, spec, self.home.platform), decision.now.partitions, transfer, operation)
        self.made.start(state)
