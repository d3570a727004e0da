"""A verb as its command carries it out, in the Spark of the tests: typed again it goes on, and then does no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sessionizer.control.execution import execute
from sessionizer.control.maintenance import Maintenance, hold_lease
from sessionizer.control.operation import Operation, new_operation
from sessionizer.control.records.operation_record import Ending, pending_operation, read_operations

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.control.execution import StepRunner
    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.state.commands.command import Plan

BY = "ann"


def done_before(home: StreamHome, verb: str) -> OperationRecord | None:
    """The newest operation of the verb that is over: nobody types one again whose end was seen."""
    done = [each for each in read_operations(home) if each.verb == verb and each.outcome is Ending.DONE]
    return done[-1] if done else None


def typed(
    home: StreamHome, verb: str, approve: Callable[[], Plan[Any]], runner: StepRunner, *, savepoint: str = ""
) -> OperationRecord:
    """The record, done. ``approve``: gives the plan, unless it was approved before."""
    done = done_before(home, verb)
    if done is not None:
        return done
    begun = pending_operation(home)
    if begun is None:
        plan = approve()
        begun = new_operation(home, verb, plan.digest, BY, plan.leaves, savepoint=savepoint)
    job = Maintenance(f"{verb}-{begun.id}", BY, "tests", begun.wanted)
    with hold_lease(home, job, 10, lambda _: None) as lease:
        return execute(Operation(home, begun, lease.check), runner)


def approved(home: StreamHome, verb: str, plan: Plan[Any], *, digest: str | None = None) -> Operation:
    """An operation of a plan that a user approved, without a lease. ``digest``: of another plan."""
    return Operation(home, new_operation(home, verb, digest or plan.digest, BY, plan.leaves), lambda: None)
