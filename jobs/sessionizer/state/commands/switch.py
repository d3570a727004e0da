"""``switch``: continue the open sessions with another source, or with the same one without its lost events."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, TypeVar

from sessionizer.errors import EventsUnread, InvalidSpec
from sessionizer.state.commands.canary_options import canary_option, roll_back_option, terms_of
from sessionizer.state.commands.command import Command, Plan, option
from sessionizer.state.commands.steps import Activate, Stop, new_lineage
from sessionizer.state.lineages.loss_plan import LossPlan
from sessionizer.state.lineages.switch_plan import Start, SwitchPlan

if TYPE_CHECKING:
    from sessionizer.lineage.canary.judge import CanaryTerms


Moved = TypeVar("Moved", bound=SwitchPlan | LossPlan)


@dataclass(frozen=True, kw_only=True)
class Switch(Command):
    """Show what a switch to the source in the file would do. With --approve DIGEST, do it."""

    name: ClassVar = "switch"
    purpose: ClassVar = "continue with the source that the file names now"
    needed: ClassVar = ("start_at",)

    start_at: str | None = option(
        "--start-at",
        "Where the new source begins",
        "position at which the new source begins: earliest, latest, or a moment such as 2026-11-23T10:00 (UTC)",
        examples=("earliest", "latest"),
    )
    accept_loss: bool = option(
        "--accept-loss",
        "Or accept the loss",
        "continue with the same source, without the events that are gone",
        default=False,
    )
    leave_unread: bool = option(
        "--leave-unread", "Leave unread", "switch although the old source has unread events", default=False
    )
    canary: int = canary_option()
    roll_back_if_failed: bool = roll_back_option()

    @property
    def terms(self) -> CanaryTerms | None:
        """Terms of the new lineage's canary, None for no canary. Raises InvalidSpec."""
        return terms_of(self.canary, roll_back_if_failed=self.roll_back_if_failed)

    def plan(self, decision: Moved, *, is_stopped: bool = False) -> Plan[Moved]:
        """Decide what the stream leaves. Events of the old source that a stopped stream did not read forbid it."""
        terms, refusal = self.terms, None
        if isinstance(decision, SwitchPlan):
            # events that a new source brings once more are late on purpose
            terms = terms and replace(terms, judges_late=False)
            if is_stopped and decision.unread.items and not self.leave_unread:
                refusal = EventsUnread(decision.stream, decision.unread.items, decision.unread.unit)
        return Plan(
            decision,
            leaves=(decision.lineage, decision.batch_id),
            steps=(Stop(), *new_lineage(terms), Activate()),
            refusal=refusal,
        )

    def start(self) -> Start | None:
        """Return the position at which another source begins, None to keep the source. Raises InvalidSpec."""
        if not self.accept_loss:
            if self.start_at is None:
                allowed = "earliest, latest or a moment. Or add --accept-loss for the same source"
                raise InvalidSpec("--start-at", None, allowed)
            return Start.of(self.start_at)
        if self.start_at is not None:
            allowed = "Omit it, because --accept-loss continues with the same source"
            raise InvalidSpec("--start-at", self.start_at, allowed)
        if self.leave_unread:
            allowed = "Omit it, because --accept-loss reads all events that are left"
            raise InvalidSpec("--leave-unread", "given", allowed)
        return None
