"""``restore``: go back to a savepoint, in a new lineage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from sessionizer.errors import EventsGone, InvalidSpec
from sessionizer.home.names import IDENTIFIER_PATTERN
from sessionizer.state.commands.canary_options import ROLL_BACK_IF_FAILED, canary_option, roll_back_option, terms_of
from sessionizer.state.commands.command import Command, Plan, option
from sessionizer.state.commands.steps import (
    Activate,
    DeleteLaterRows,
    KeepExcludedRanges,
    PointOfNoReturn,
    Stop,
    new_lineage,
)
from sessionizer.state.restores.typed_range import FLAG as EXCLUDE

if TYPE_CHECKING:
    from sessionizer.lineage.canary.judge import CanaryTerms
    from sessionizer.state.restores.restore_plan import RestorePlan


@dataclass(frozen=True, kw_only=True)
class Restore(Command):
    """Show what a restore would do. With --approve DIGEST, do it. Typed again it continues."""

    name: ClassVar = "restore"
    purpose: ClassVar = "return to a savepoint"
    reads_spec: ClassVar = False
    writes_tables: ClassVar = True
    when_impossible: ClassVar = (
        f"{Command.when_impossible}. Or choose a savepoint that needs none of it: "
        "`sessionizer savepoint list {stream}`"
    )

    savepoint: str | None = option(
        "SAVEPOINT",
        "Savepoint",
        "id of the savepoint, as `sessionizer savepoint list STREAM` or the note of the run that made it shows it",
        pattern=f"^({IDENTIFIER_PATTERN})?$",
    )
    time: str | None = option(
        "--time",
        "Or a time",
        "instead of an id: the newest savepoint at or before this moment",
        is_moment=True,
        is_recorded=False,
    )
    exclude: tuple[str, ...] = option(
        EXCLUDE,
        "Exclude",
        "range of the source whose rows go to quarantine. Files: a name or glob, or "
        "modified:2026-11-23T10:00/2026-11-23T11:00 for those that were changed last in that time (UTC). Kafka: "
        "topic:partition:from-to, or topic:2026-11-23T10:00/2026-11-23T11:00 for all its partitions. Delta: "
        "version:from-to. What follows the - or / is not in the range",
        default=(),
        metavar="RANGE",
    )
    folder: str | None = option(
        "--in",
        "In",
        "place of the savepoint, if not with the stream's data: a folder or URI that holds a folder of savepoints per "
        "stream",
    )
    canary: int = canary_option()
    roll_back_if_failed: bool = roll_back_option()

    def plan(self, decision: RestorePlan) -> Plan[RestorePlan]:
        """Decide what happens, in order."""
        chosen = decision.decision
        return Plan(
            decision,
            leaves=(chosen.leaves, decision.newest_batch),
            steps=(
                *((KeepExcludedRanges(),) if chosen.excluded_ranges else ()),
                Stop(),
                *new_lineage(chosen.canary),
                PointOfNoReturn(),
                DeleteLaterRows(),
                Activate(),
            ),
            refusal=_refusal(decision),
        )

    @property
    def terms(self) -> CanaryTerms | None:
        """Terms of the new lineage's canary, None for no canary. Raises InvalidSpec."""
        return terms_of(self.canary, roll_back_if_failed=self.roll_back_if_failed, like_before=False)


def _refusal(plan: RestorePlan) -> EventsGone | InvalidSpec | None:
    """Return the error that makes the restore impossible, None if it is possible."""
    chosen, gone = plan.decision, plan.replay.missing
    if gone:
        return EventsGone(chosen.stream, gone)
    if chosen.canary is not None and chosen.canary.goes_back and not plan.leads_back:
        allowed = (
            f"Omit it, because no rollback undoes this restore: it leaves lineage {chosen.leaves}, which has no batch"
        )
        return InvalidSpec(ROLL_BACK_IF_FAILED, "given", allowed)
    return None
