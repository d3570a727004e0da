"""Plan of a rescale, as data: shown first, approved by its digest, checked again when it runs.

The digest covers the decision, not how far the stream has come. A stream that runs on meanwhile moves its state all the
same, after its last batch.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sessionizer.checkpoint.names import PARTITIONS
from sessionizer.control.plan_changes import DigestOfDecided
from sessionizer.counts import count_text
from sessionizer.errors import InvalidSpec
from sessionizer.lineage.canary.judge import USUAL, digest_terms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sessionizer.lineage.canary.judge import CanaryTerms
    from sessionizer.state.lineages.committed_batch import CommittedBatch


@dataclass(frozen=True, slots=True)
class Division:
    """Division of the state into key groups, and of these into partitions. A partition is a task in a batch."""

    key_groups: int
    partitions: int

    def __str__(self) -> str:
        """Format both numbers as text."""
        return f"{count_text(self.key_groups, 'key group')} in {count_text(self.partitions, 'partition')}"

    @property
    def remark(self) -> str | None:
        """Warning for the user of this division, None if there is none."""
        if self.key_groups % self.partitions == 0:
            return None
        return f"some partitions get more key groups, because {self.partitions} does not divide {self.key_groups}"


@dataclass(frozen=True, slots=True)
class RescalePlan(DigestOfDecided):
    """A decision: ``stream`` leaves ``lineage`` after ``batch_id`` or a later one.

    ``canary``: terms of the new lineage.
    """

    stream: str
    lineage: str
    batch_id: int
    before: Division
    now: Division
    canary: CanaryTerms | None = USUAL

    @property
    def changes_something(self) -> bool:
        """Whether there is anything to do."""
        return self.before != self.now

    @property
    def decided(self) -> Mapping[str, Any]:
        """Fields that the digest covers."""
        decided = asdict(self)
        del decided["batch_id"], decided["canary"]
        return {**decided, **digest_terms(self.canary)}

    def to_json(self) -> dict[str, Any]:
        """Return the plan for programs."""
        return {**asdict(self), "digest": self.digest}

    def lines(self) -> Iterator[str]:
        """Yield the plan as text, line by line."""
        if not self.changes_something:
            yield f"stream {self.stream} has {self.now} already, so there is nothing to change"
            return
        yield f"stream {self.stream} continues with its state divided anew"
        yield f"  from  lineage {self.lineage}, after batch {self.batch_id}: {self.before}. It is kept"
        yield f"  to    a new lineage: {self.now}"
        if self.now.remark is not None:
            yield f"        {self.now.remark}"
        yield "  no table is changed, no session is closed, and no event is read twice"


def plan_rescale(
    stream: str,
    committed: CommittedBatch,
    key_groups: int | None,
    partitions: int | None,
    canary: CanaryTerms | None = USUAL,
) -> RescalePlan:
    """Make the plan of a rescale. None keeps a number as it is. ``canary``: of the new lineage.

    Raises InvalidSpec for more partitions than key groups.
    """
    before = Division(int(committed.spec["key_groups"]), int(committed.settings[PARTITIONS]))
    groups = before.key_groups if key_groups is None else key_groups
    if partitions is not None and partitions > groups:
        raise InvalidSpec("--partitions", partitions, f"at most {groups}, because a key group is in one partition")
    now = Division(groups, min(before.partitions, groups) if partitions is None else partitions)
    return RescalePlan(stream, committed.lineage, committed.batch_id, before, now, canary)
