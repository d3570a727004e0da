"""Plan of a rollback, as data: the lineage before the active one resumes from where it was left.

Its checkpoint was not touched since. The rows of the active lineage leave the tables, and the source is read again from
the position of the lineage before.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sessionizer.control.plan_changes import DecidedFields, DigestOfDecided
from sessionizer.state.restores.restore_plan import consequences, describe_left

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sessionizer.state.restores.restore_plan import Replay
    from sessionizer.state.restores.row_changes import RowsOfTable


@dataclass(frozen=True, slots=True)
class RollbackPlan(DigestOfDecided):
    """A decision: ``stream`` leaves the lineage that a ``verb`` made, at its ``newest_batch``.

    It resumes ``lineage`` after ``batch_id``. ``tables``: the rows that leave them. ``replay``: what is read again.
    ``remarks``: on the excluded ranges of it, and on the programs that the lineage needs.
    """

    stream: str
    leaves: str
    verb: str
    newest_batch: int
    lineage: str
    batch_id: int
    tables: tuple[RowsOfTable, ...]
    replay: Replay
    remarks: tuple[str, ...] = ()

    @property
    def decided(self) -> Mapping[str, Any]:
        """Fields that the digest covers."""
        return decide_rollback(self.stream, self.leaves, self.lineage).decided

    def to_json(self) -> dict[str, Any]:
        """Return the plan for programs."""
        return {**asdict(self), "digest": self.digest}

    def lines(self) -> Iterator[str]:
        """Yield the plan as text, line by line."""
        yield f"stream {self.stream} returns to the lineage that it had before the {self.verb}"
        yield f"  from  lineage {self.leaves}, {describe_left(self.newest_batch)}"
        yield f"  to    lineage {self.lineage}, after batch {self.batch_id}: its own state, spec and source"
        for remark in self.remarks:
            yield f"        {remark}"
        yield from consequences(self.tables, self.replay)


def decide_rollback(stream: str, leaves: str, lineage: str) -> DecidedFields:
    """Return the decision of a plan before it is made: no table is read."""
    return DecidedFields({"stream": stream, "leaves": leaves, "lineage": lineage})
