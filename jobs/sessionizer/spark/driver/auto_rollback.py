"""Automatic rollback: the driver makes the lineage before active again, if the user approved that for a failed canary.

It is the same rollback that a user types, under the lease of the driver that is about to start, before its query. If it
is killed anywhere, the next driver resumes it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sessionizer.control.execution import Step, execute
from sessionizer.control.lease import Lease
from sessionizer.control.openlineage.reporter import RunReporter, command_run
from sessionizer.control.operation import Operation, new_operation
from sessionizer.control.records.operation_record import OperationRecord, pending_operation
from sessionizer.errors import StreamMovedOn
from sessionizer.home.roots import is_local
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.canary.canary_record import BY_CANARY, canary_of_active, read_canary
from sessionizer.lineage.canary.judge import CanaryOutcome
from sessionizer.lineage.fingerprint import require_data_here
from sessionizer.spark.driver.heartbeat_writer import HeartbeatWriter
from sessionizer.spark.driver.options import DriverOptions
from sessionizer.spark.failures.query_failure import is_transient_failure
from sessionizer.spark.session import spark_session
from sessionizer.spark.state.commands.restores import RollbackRunner
from sessionizer.state.commands.restores import Rollback
from sessionizer.state.commands.steps import PointOfNoReturn


def roll_back_if_due(home: StreamHome, lease: Lease, options: DriverOptions, say: Callable[[str], None]) -> None:
    """Roll back to the lineage before if the active one failed its canary and the user approved a rollback.

    A user may promote the lineage meanwhile, because Spark takes long to start. Then it is kept. Raises NoWayBack,
    EventsGone and other errors that end a rollback. Then a user has to decide.
    """
    pending, canary = pending_operation(home), canary_of_active(home)
    is_begun = pending is not None and pending.verb == Rollback.name and pending.by.startswith(BY_CANARY)
    if not is_begun and (canary is None or not canary.goes_back or pending is not None):
        return
    if (active := active_lineage(home)) is not None:
        require_data_here(home, active)  # an older release may leave a lineage that it cannot read
    with HeartbeatWriter(home, lease).keep_beating(works=True):
        spark = spark_session(f"sessionizer {home.name}", options.master, local_data=is_local(home.data))
        if canary is not None and canary.goes_back:
            say(f"lineage {canary.lineage} failed its canary ({canary.reason}): rolling back")
        runner = CanaryRollbackRunner(spark=spark, home=home, say=say, command=Rollback())
        record = pending or _approve_rollback(runner)
        try:
            run = record.verb, record.id, record.begun_at, record.lineage_from
            with RunReporter(lambda: command_run(home, *run), say):
                done = execute(Operation(home, record, lease.check, is_transient_failure), runner)
        except StreamMovedOn as promoted:
            say(f"no rollback: {promoted.cause}")
            return
    say(f"back in lineage {done.lineage_to} ({done.seconds} s). Lineage {record.lineage_from} is kept for inspection")


@dataclass(kw_only=True)
class CanaryRollbackRunner(RollbackRunner):
    """Runner of the rollback of a failed canary, which a promotion prevents up to the point of no return.

    A promotion is refused once the rollback has a record, and this looks for one after that. So none is overlooked.
    """

    def run(self, step: Step, operation: Operation) -> str | None:
        """Run a step. Raises StreamMovedOn, before a row is deleted, if the lineage was promoted meanwhile."""
        record = operation.record
        canary = read_canary(self.home, record.lineage_from) if isinstance(step, PointOfNoReturn) else None
        if canary is not None and canary.outcome is CanaryOutcome.PROMOTED:
            cause = f"{canary.by} promoted lineage {record.lineage_from}"
            raise StreamMovedOn(self.home.name, record.digest, cause)
        return super().run(step, operation)


def _approve_rollback(runner: RollbackRunner) -> OperationRecord:
    plan = runner.look()
    plan.require_possible()
    by = f"{BY_CANARY}{plan.leaves[0]}"
    return new_operation(runner.home, Rollback.name, plan.digest, by, plan.leaves, decided=plan.decided)
