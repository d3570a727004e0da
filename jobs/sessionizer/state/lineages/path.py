"""The path of a state: the batches, lineage by lineage, whose rows the tables hold while that state is active.

A lineage begins after a batch of its parent. So the state of a lineage stands for a path: the oldest lineage up to the
batch where the next one began, and so on. Every row of a table names its lineage and batch. Each command keeps one
invariant: when it ends, the tables hold exactly the rows on the path of the active lineage (docs/adr/0136).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from sessionizer.home.json_record import JsonRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer.state.lineages.origin import Origin

BEFORE_THE_FIRST: Final = -1


@dataclass(frozen=True, slots=True)
class Segment(JsonRecord):
    """The batches of ``lineage`` up to and with ``until``. None means all of them, also future ones."""

    lineage: str
    until: int | None = None

    def __str__(self) -> str:
        """Format the segment for a record."""
        return self.lineage if self.until is None else f"{self.lineage}:{self.until}"


Path: TypeAlias = tuple[Segment, ...]
"""Oldest lineage first; no lineage occurs twice."""

NO_ROWS: Final[Path] = ()
"""The path of a stream that begins anew."""


@dataclass(frozen=True, slots=True)
class BatchRange:
    """The batches of ``lineage`` after ``after``, up to and with ``until``. None means all later ones."""

    lineage: str
    after: int
    until: int | None


def path_to(lineage: str, until: int | None, origins: Mapping[str, Origin | None]) -> Path:
    """Return the path that ends with ``lineage`` after its batch ``until``. None means after its newest batch.

    ``origins``: of every lineage of the stream. A seed takes no batch of its parent over: its path begins with itself.
    A lineage whose parent has no record, because the home was put back from a backup, notes the path before it.
    """
    path = [Segment(lineage, until)]
    seen = {lineage}
    origin = origins.get(lineage)
    while origin is not None and origin.parent is not None and origin.parent not in seen:
        if origin.batch_id == BEFORE_THE_FIRST:
            break
        path.append(Segment(origin.parent, origin.batch_id))
        seen.add(origin.parent)
        if origin.parent not in origins:
            path.extend(reversed(origin.path))
            break
        origin = origins[origin.parent]
    return tuple(reversed(path))


def batches_only_on(path: Path, other: Path) -> tuple[BatchRange, ...]:
    """Return the batches on ``path`` that are not on ``other``, in the order of ``path``."""
    ends = {segment.lineage: segment for segment in other}
    found = []
    for segment in path:
        beside = ends.get(segment.lineage)
        if beside is None:
            found.append(BatchRange(segment.lineage, BEFORE_THE_FIRST, segment.until))
        elif beside.until is not None and (segment.until is None or segment.until > beside.until):
            found.append(BatchRange(segment.lineage, beside.until, segment.until))
    return tuple(found)
