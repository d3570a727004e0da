"""A verb that changes a stream's state: shown as a plan, approved by its digest, carried out with the stream held."""

from __future__ import annotations

import getpass
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeAlias

import typer

from sessionizer.cli.terminal import say
from sessionizer.control.maintenance import Maintenance, held_for
from sessionizer.control.operation import Operation
from sessionizer.control.records.operation_record import OperationRecord, pending_operation
from sessionizer.errors import OperationPending, PlanChanged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sessionizer.control.lease.lease import Lease
    from sessionizer.home.stream_home import StreamHome

Approve: TypeAlias = Annotated[str | None, typer.Option(metavar="DIGEST", help="Carry the plan of this digest out.")]
Wait: TypeAlias = Annotated[float, typer.Option(help="Seconds to wait for the running batch to end.", min=1)]
By: TypeAlias = Annotated[str | None, typer.Option(help="Who approves; else you.")]


class Plan(Protocol):
    """What a verb would do."""

    def to_json(self) -> dict[str, Any]:
        """For programs."""

    def lines(self) -> Iterable[str]:
        """For people."""


def begun_already(where: StreamHome, verb: str, savepoint: str = "") -> OperationRecord | None:
    """The record of such an operation that was begun and is not over. Raises OperationPending for any other."""
    pending = pending_operation(where)
    if pending is not None and (pending.verb, pending.savepoint) != (verb, savepoint):
        raise OperationPending(where.name, pending.verb, pending.savepoint, pending.step)
    return pending


def show(plan: Plan, digest: str | None, *, as_json: bool) -> None:
    """Print the plan; ``digest`` is None where it cannot be carried out, or is about to be."""
    if as_json:
        typer.echo(json.dumps(plan.to_json(), indent=1))
        return
    for line in plan.lines():
        typer.echo(line)
    if digest is not None:
        typer.echo(f"to do so: the same command with --approve {digest}")


def is_approved(stream: str, approve: str | None, digest: str) -> bool:
    """Whether the plan of ``digest`` may be carried out. Raises PlanChanged where another one was approved."""
    if approve is not None and approve != digest:
        raise PlanChanged(stream, approve, digest)
    return approve is not None


def given(options: Mapping[str, object]) -> list[str]:
    """What of the ``options`` was given, as it was typed: for the record of the operation."""
    words = ((name,) if value is True else (name, str(value)) for name, value in options.items() if value)
    return [word for pair in words for word in pair]


def approver(by: str | None) -> str:
    """Who approves."""
    return by or getpass.getuser()


@contextmanager
def under_way(where: StreamHome, record: OperationRecord, why: str, wait_s: float) -> Iterator[tuple[Lease, Operation]]:
    """In here the stream is ours, for the operation of ``record``. Raises as ``held_for``."""
    job = Maintenance(f"{record.verb}-{record.id}", record.by, why, record.wanted)
    with held_for(where, job, wait_s, say) as lease:
        yield lease, Operation(where, record)
