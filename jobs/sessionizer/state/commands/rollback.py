"""``rollback``: make the lineage before the active one active again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from sessionizer.errors import EventsGone
from sessionizer.state.commands.command import Command, Plan
from sessionizer.state.commands.steps import Activate, DeleteLaterRows, PointOfNoReturn, Stop

if TYPE_CHECKING:
    from sessionizer.state.restores.rollback_plan import RollbackPlan


@dataclass(frozen=True, kw_only=True)
class Rollback(Command):
    """Show what a rollback to the lineage before would do. With --approve DIGEST, do it. Typed again it continues."""

    name: ClassVar = "rollback"
    purpose: ClassVar = "return to the lineage before the last change of the state"
    reads_spec: ClassVar = False
    writes_tables: ClassVar = True

    def plan(self, decision: RollbackPlan) -> Plan[RollbackPlan]:
        """Decide what happens: the rows of the active lineage leave the tables, the one before goes on."""
        gone = decision.replay.missing
        return Plan(
            decision,
            leaves=(decision.leaves, decision.newest_batch),
            steps=(Stop(), PointOfNoReturn(), DeleteLaterRows(), Activate()),
            refusal=EventsGone(decision.stream, gone) if gone else None,
        )
