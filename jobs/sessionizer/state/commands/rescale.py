"""``rescale``: divide the open sessions into other key groups and partitions, in a new lineage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from sessionizer.state.commands.canary_options import canary_option, roll_back_option, terms_of
from sessionizer.state.commands.command import Command, Plan, option
from sessionizer.state.commands.steps import Activate, Stop, new_lineage
from sessionizer.state.lineages.rescale_plan import RescalePlan, plan_rescale
from sessionizer.stream_spec.document.stream import MOST_KEY_GROUPS

if TYPE_CHECKING:
    from sessionizer.lineage.canary.judge import CanaryTerms
    from sessionizer.state.lineages.committed_batch import CommittedBatch


@dataclass(frozen=True, kw_only=True)
class Rescale(Command):
    """Show how a stream's state would be divided anew. With --approve DIGEST, do it. Typed again it continues."""

    name: ClassVar = "rescale"
    purpose: ClassVar = "divide the state anew"

    key_groups: int | None = option(
        "--key-groups",
        "Key groups",
        "number of key groups. Without it: the number in the stream's file",
        min=1,
        max=MOST_KEY_GROUPS,
    )
    partitions: int | None = option(
        "--partitions",
        "Partitions",
        "number of partitions, each a task of a batch. Without it: the number stays as it is",
        min=1,
    )
    canary: int = canary_option()
    roll_back_if_failed: bool = roll_back_option()

    def plan(self, stream: str, committed: CommittedBatch, key_groups_of_file: int) -> Plan[RescalePlan]:
        """Decide the division. Raises InvalidSpec."""
        groups = key_groups_of_file if self.key_groups is None else self.key_groups
        division = plan_rescale(stream, committed, groups, self.partitions, self.terms)
        return Plan(
            division,
            leaves=(division.lineage, division.batch_id),
            steps=(Stop(), *new_lineage(self.terms), Activate()),
            is_needed=division.changes_something,
        )

    @property
    def terms(self) -> CanaryTerms | None:
        """Terms of the new lineage's canary, None for no canary. Raises InvalidSpec."""
        return terms_of(self.canary, roll_back_if_failed=self.roll_back_if_failed)
