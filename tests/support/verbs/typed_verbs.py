"""A verb as its command carries it out, in the Spark of the tests: typed again it goes on, and then does no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.maintenance import Maintenance, held_for
from sessionizer.control.operation import Operation, new_operation
from sessionizer.control.records.operation_record import Ending, pending_operation, read_operations

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.control.lease.lease import Lease
    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.home.stream_home import StreamHome

BY = "ann"


def done_before(home: StreamHome, verb: str) -> OperationRecord | None:
    """The newest operation of the verb that is over: nobody types one again whose end was seen."""
    done = [each for each in read_operations(home) if each.verb == verb and each.outcome is Ending.DONE]
    return done[-1] if done else None


def typed(
    home: StreamHome,
    verb: str,
    approve: Callable[[], tuple[str, tuple[str, int]]],
    carry_out: Callable[[Operation, Lease], OperationRecord],
    *,
    savepoint: str = "",
) -> OperationRecord:
    """The record, done. ``approve``: gives the digest of the plan, and the lineage that is left with its batch."""
    done = done_before(home, verb)
    if done is not None:
        return done
    begun = pending_operation(home)
    if begun is None:
        digest, leaves = approve()
        begun = new_operation(home, verb, digest, BY, leaves, savepoint=savepoint)
    job = Maintenance(f"{verb}-{begun.id}", BY, "tests", begun.wanted)
    with held_for(home, job, 10, lambda _: None) as lease:
        return carry_out(Operation(home, begun, lease.check), lease)
