"""``upgrade``: continue a stream by its file and by the programs that are installed here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sessionizer.state.commands.apply import Apply
from sessionizer.state.commands.canary_options import terms_of
from sessionizer.state.commands.command import option
from sessionizer.state.commands.steps import NotePrograms, Prove

if TYPE_CHECKING:
    from sessionizer.control.execution import Step
    from sessionizer.deployment.upgrade_plan import UpgradeRequest
    from sessionizer.lineage.canary.judge import CanaryTerms
    from sessionizer.stream_spec.document.stream import Upgrades


@dataclass(frozen=True, kw_only=True)
class Upgrade(Apply):
    """Show what an upgrade to the file and the installed release would do. With --approve DIGEST, do it.

    The plan needs no Spark, and the stream runs on meanwhile. With --deep Spark also checks the columns and the SQL.
    """

    name: ClassVar = "upgrade"
    purpose: ClassVar = "continue with the file's changed spec and the installed release"
    takes_programs: ClassVar[bool] = True

    prove: bool = option(
        "--prove",
        "Prove first",
        "replay recorded batches first, and do nothing if a row differs that no changed field explains",
        default=False,
    )
    stateless: bool = option(
        "--stateless",
        "Without the open sessions",
        "leave the open sessions behind, in a new lineage: they are lost, and the plan counts them",
        default=False,
    )
    deep: bool = option(
        "--deep", None, "have Spark check columns and SQL for the plan as well", default=False, is_recorded=False
    )

    @classmethod
    def make_for_window(cls, upgrades: Upgrades) -> Self:
        """Return the upgrade that a maintenance window begins, as the spec has it."""
        batches: dict[str, Any] = {} if upgrades.canary is None else {"canary": upgrades.canary, "new_lineage": True}
        return cls(prove=upgrades.prove, roll_back_if_failed=upgrades.roll_back_if_failed, **batches)

    @property
    def request(self) -> UpgradeRequest:
        """Request that the plan is made for. Raises InvalidSpec."""
        return replace(super().request, prove=self.prove, stateless=self.stateless)

    @property
    def terms(self) -> CanaryTerms | None:
        """Terms of a new lineage's canary. One without open sessions is not compared by its sessions."""
        return terms_of(self.canary, roll_back_if_failed=self.roll_back_if_failed, like_before=not self.stateless)

    @property
    def first_steps(self) -> tuple[Step, ...]:
        """Steps that precede the stop of the driver."""
        return (Prove(),) if self.prove else ()

    @property
    def last_steps(self) -> tuple[Step, ...]:
        """Steps that follow the decisive change: a lineage that goes on in place gets the installed programs."""
        return (NotePrograms(), *super().last_steps)
