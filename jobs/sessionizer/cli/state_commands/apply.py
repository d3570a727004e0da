"""``sessionizer apply`` and ``upgrade``: continue a stream by its file, ``upgrade`` by the installed programs as well.

Each shows the plan first, then does the approved plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from sessionizer.cli.places import stream_home, stream_spec
from sessionizer.cli.savepoint_words import savepoints_folder
from sessionizer.cli.state_commands.operation_run import carry_out
from sessionizer.cli.state_commands.operations import (
    Offer,
    approver,
    begun_already,
    carried_out,
    goes_on,
    is_approved,
    taken_up,
    working_spark,
)
from sessionizer.cli.state_commands.typed import Shared, command_line
from sessionizer.cli.terminal import say
from sessionizer.control.operation import new_operation
from sessionizer.deployment.upgrade_plan import UpgradeRequest
from sessionizer.deployment.upgrade_planning import plan_upgrade
from sessionizer.state.commands.apply import Apply
from sessionizer.state.commands.upgrade import Upgrade
from sessionizer.state.downtime import downtime_of
from sessionizer.state.lineages.standing import standing_of

if TYPE_CHECKING:
    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.deployment.upgrade_plan import UpgradePlan
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.stream_spec.document.stream import StreamSpec

NOT_LOOKED_AT = "columns and SQL are not checked: Spark does that before the stream is stopped, or now with --deep"


def run(command: Apply, shared: Shared) -> None:
    """Show the plan, or carry out the approved one."""
    where = stream_home(shared.home, shared.stream, shared.data)
    spec, record = stream_spec(shared.streams, shared.stream), begun_already(where, command.name)
    if record is None and _is_settled_without_spark(command, shared, where, spec):
        return
    from sessionizer.spark.failures.passing import tried_again  # noqa: PLC0415  fast --help
    from sessionizer.spark.state.lineages.applying import Applying  # noqa: PLC0415  fast --help

    with working_spark(command.name, where, shared.master) as spark:
        folder = savepoints_folder(where, command.folder)
        wanted = _request(command)
        applying = Applying(spark, where, spec, folder, wanted.anew, wanted.trial, wanted.verb, wanted.accepted)
        if record is None:
            record = _approved(command, shared, where, tried_again(applying.plan, say))
        elif not goes_on(shared.stream, shared.approve, record):
            return
        if record is None:
            return
        record = carry_out(
            where,
            record,
            f"{command.name} of the stream",
            shared.wait,
            lambda lease, operation: applying.run(operation, lease.check, say),
        )
    typer.echo(f"stream {shared.stream} goes on by its file in lineage {record.lineage_to} ({record.seconds} s)")


def _is_settled_without_spark(command: Apply, shared: Shared, where: StreamHome, spec: StreamSpec) -> bool:
    """Show the plan if that is all there is to do, and return whether it was."""
    standing = standing_of(where, any_engine=isinstance(command, Upgrade))
    plan = plan_upgrade(where, (standing.lineage, standing.batch_id), spec, _request(command))
    if not plan.changes_something and carried_out(where, command.name, shared.approve):
        return True
    is_shown_only = isinstance(command, Upgrade) and not (command.deep or shared.approve)
    if plan.is_possible and not is_shown_only:
        is_approved(shared.stream, shared.approve, plan.digest)
        return False
    if taken_up(where, _offer(command, where, plan), shared.approve, shared.keep_plan, as_json=shared.as_json):
        plan.require_possible()
    if plan.is_possible and not shared.as_json:
        typer.echo(f"  {NOT_LOOKED_AT}")
    return True


def _approved(command: Apply, shared: Shared, where: StreamHome, plan: UpgradePlan) -> OperationRecord | None:
    """Show the plan that Spark has checked. Return the operation's record, None if the plan is not approved."""
    offer = _offer(command, where, plan)
    is_taken = taken_up(where, offer, shared.approve, shared.keep_plan, as_json=shared.as_json)
    if not is_taken or not plan.changes_something:
        return None
    plan.require_possible()
    leaves = (plan.lineage, plan.batch_id)
    return new_operation(where, command.name, plan.digest, approver(shared.by), leaves, options=command.recorded())


def _request(command: Apply) -> UpgradeRequest:
    return UpgradeRequest(command.name, tuple(sorted(set(command.accept))), command.anew, command.terms)


def _offer(command: Apply, where: StreamHome, plan: UpgradePlan) -> Offer:
    return Offer(
        verb=command.name,
        plan=plan,
        digest=plan.digest,
        possible=plan.is_possible,
        options=command.recorded(),
        trial=command.terms if plan.anew else None,
        down=downtime_of(where, command.name),
    )


apply = command_line(Apply, run)
upgrade = command_line(Upgrade, run)
