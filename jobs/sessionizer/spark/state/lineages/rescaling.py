"""Execution of a rescale: the state of a stopped stream in other key groups and partitions, in a new lineage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.records.operation_record import Reached
from sessionizer.errors import PlanChanged
from sessionizer.home.clock import epoch_ms
from sessionizer.lineage.kept_spec import LineageSpec, read_lineage_spec
from sessionizer.spark.sinks.examine import examine
from sessionizer.spark.state.lineages.reseeding import Reseeding
from sessionizer.spark.state.lineages.seeding import Seeding
from sessionizer.state.lineages.origin import Origin, activated_by
from sessionizer.state.lineages.rescale_plan import VERB, plan_rescale
from sessionizer.state.lineages.standing import standing_of
from sessionizer.stream_spec.loading.spec_file import recorded_spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from sessionizer.control.lease.lease import Lease
    from sessionizer.control.operation import Operation
    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.state.lineages.handover import Step
    from sessionizer.state.lineages.rescale_plan import RescalePlan


def rescaled(
    spark: SparkSession,
    plan: RescalePlan,
    lease: Lease,
    operation: Operation,
    after: Callable[[Step], None],
) -> OperationRecord:
    """Carry ``plan`` out to its end, and return the record.

    Raises PlanChanged, HalfWrittenBatch, UnfaithfulState, and the errors of ``standing_of``. Then the stream is as it
    was.
    """
    lineage = activated_by(operation.home, operation.record)
    if lineage is None:
        with operation.abandoned_if_it_fails(before=Reached.ACTIVATED):
            if plan.digest != operation.record.digest:  # typed again with other options
                raise PlanChanged(operation.home.name, operation.record.digest, plan.digest)
            operation.reached(Reached.STOPPED)
            lineage = carry_out(spark, operation.home, plan, lease.check, after)
    return operation.finish(lineage)


def carry_out(
    spark: SparkSession,
    home: StreamHome,
    plan: RescalePlan,
    permit: Callable[[], None],
    after: Callable[[Step], None] = lambda _: None,
) -> str:
    """Rescale a stream whose lease is ours as long as ``permit`` returns.

    Returns the new lineage, which is active by then.

    Raises PlanChanged if ``plan`` is outdated, HalfWrittenBatch, UnfaithfulState, and the errors of ``standing_of``,
    which keep a stream from being saved. Then the stream is as it was.
    """
    standing = standing_of(home)
    found = plan_rescale(home.name, standing, plan.now.key_groups, plan.now.partitions, plan.trial)
    if found.digest != plan.digest:
        raise PlanChanged(home.name, plan.digest, found.digest)
    document = {**standing.spec, "key_groups": plan.now.key_groups}
    spec = recorded_spec(document, home.lineage(standing.lineage).spec)
    examined = examine(spark, spec, home.platform)
    seeding = Seeding(spark, home, spec, examined, plan.now.partitions, permit=permit, after=after, trial=plan.trial)
    kept, now = read_lineage_spec(home, standing.lineage), epoch_ms()
    # an approval of the file's spec that waits for the next driver is not used up by this
    record = LineageSpec(document, now, kept.desired_at if kept else 0)
    return Reseeding(seeding, standing, record, Origin(VERB, now, standing.lineage, standing.batch_id)).run()
