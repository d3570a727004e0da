"""``sessionizer rescale``: the state in other key groups. Shows the plan first, and does what is approved."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from sessionizer.cli.places import AsJson, Data, Home, Master, Stream, Streams, spark_master, stream_home, stream_spec
from sessionizer.cli.terminal import named_failures, say, started_spark
from sessionizer.control.lease.lease import acquire
from sessionizer.control.records.desired_state import DesiredState, read_desired
from sessionizer.control.records.operation_record import require_no_operation
from sessionizer.errors import PlanChanged, StreamWanted
from sessionizer.home.clock import epoch_ms
from sessionizer.home.names import minted_id
from sessionizer.state.lineages.rescale_plan import plan_rescale
from sessionizer.state.lineages.standing import standing_of
from sessionizer.stream_spec.document.stream import MOST_KEY_GROUPS

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.state.lineages.rescale_plan import RescalePlan

KeyGroups = Annotated[
    int | None,
    typer.Option(help="Number of key groups; what the spec's file says if not given.", min=1, max=MOST_KEY_GROUPS),
]
Partitions = Annotated[
    int | None, typer.Option(help="Number of partitions, each a task of a batch; as it is if not given.", min=1)
]


def rescale(  # noqa: PLR0913  one parameter per option
    stream: Stream,
    *,
    key_groups: KeyGroups = None,
    partitions: Partitions = None,
    approve: Annotated[str | None, typer.Option(metavar="DIGEST", help="Carry the plan of this digest out.")] = None,
    as_json: AsJson = False,
    streams: Streams = None,
    home: Home = None,
    data: Data = None,
    master: Master = None,
) -> None:
    """Show how the state of a stopped stream would be divided anew; with --approve DIGEST, or a typed yes, do it."""
    where, in_file = stream_home(home, stream, data), stream_spec(streams, stream).key_groups
    _require_free(where)
    groups = in_file if key_groups is None else key_groups
    plan = plan_rescale(stream, standing_of(where), groups, partitions)
    _show(plan, as_json=as_json)
    if not plan.changes_something or not _approved(plan, approve):
        return
    lineage = _carried_out(where, plan, master)
    typer.echo(f"stream {stream} goes on in lineage {lineage}: {plan.now}")
    if groups != in_file:
        say(f"note: its file says key_groups: {in_file}. Write {groups} there, or the next --apply is refused")


def _require_free(where: StreamHome) -> None:
    """Raises StreamWanted where a supervisor would start the stream meanwhile, and OperationPending."""
    require_no_operation(where)
    desired = read_desired(where)
    if desired.at and desired.state is DesiredState.RUNNING:
        raise StreamWanted(where.name, desired.by)


def _show(plan: RescalePlan, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(plan.to_json(), indent=1))
    elif not plan.changes_something:
        typer.echo(f"stream {plan.stream} has {plan.now} already: there is nothing to do")
    else:
        for line in plan.lines():
            typer.echo(line)


def _approved(plan: RescalePlan, digest: str | None) -> bool:
    """Whether it may be done. Raises PlanChanged for the digest of another plan."""
    if digest is not None:
        if digest != plan.digest:
            raise PlanChanged(plan.stream, digest, plan.digest)
        return True
    if sys.stdin.isatty():
        return bool(typer.confirm("do so?"))
    say(f"to do so: the same command with --approve {plan.digest}")
    return False


def _carried_out(where: StreamHome, plan: RescalePlan, master: str | None) -> str:
    """The new lineage. Raises LeaseHeld while a driver runs, and as ``carry_out``."""
    from sessionizer.spark.state.rescaling import VERB, carry_out  # noqa: PLC0415  fast --help

    lease = acquire(where, f"{VERB}-{minted_id(epoch_ms())}", say=say)
    try:
        say(f"starting Spark for a rescale of {plan.stream}")
        spark = started_spark(f"sessionizer {VERB} {plan.stream}", spark_master(master))
        with named_failures(plan.stream):
            lineage = carry_out(spark, where, plan, lease.check, lambda step: say(f"new lineage: {step}"))
        spark.stop()
    finally:
        lease.release()
    return lineage
