"""Which rows of a stream's tables were written after a batch: those that a restore to that batch takes back.

Every row names the lineage and the batch that wrote it. A lineage knows its parent, the one its first state came from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.home.names import checked_identifier

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


@dataclass(frozen=True, slots=True)
class LaterRows:
    """What ``lineage`` wrote after ``batch_id``, and all that the lineages in ``others`` wrote."""

    lineage: str
    batch_id: int
    others: tuple[str, ...] = ()

    @property
    def condition(self) -> str:
        """The rows, in SQL. Raises InvalidSpec for an id that is none."""
        later = f"(lineage = '{checked_identifier('lineage', self.lineage)}' AND batch_id > {int(self.batch_id)})"
        if not self.others:
            return later
        listed = ", ".join(f"'{checked_identifier('lineage', name)}'" for name in self.others)
        return f"({later} OR lineage IN ({listed}))"


@dataclass(frozen=True, slots=True)
class RowsOfTable:
    """Rows of ``table`` by the day that its column ``date`` has (ISO, UTC)."""

    table: str
    location: str
    by_day: Mapping[str, int]

    @property
    def rows(self) -> int:
        """On all days."""
        return sum(self.by_day.values())


def rows_after(lineage: str, batch_id: int, parents: Mapping[str, str | None]) -> LaterRows:
    """The rows that a restore to ``batch_id`` of ``lineage`` takes back. ``parents``: of every lineage of the stream.

    What the ancestors of ``lineage`` wrote stays: it is the past of that batch. All others came after it, or are
    branches that a restore has left.
    """
    past = set(_ancestors(lineage, parents))
    return LaterRows(lineage, batch_id, tuple(sorted(name for name in parents if name != lineage and name not in past)))


def rows_of_all(lineages: Iterable[str]) -> LaterRows:
    """Whatever the ``lineages`` wrote, of which there is one at least."""
    first, *others = sorted(lineages)
    return LaterRows(first, -1, tuple(others))


def _ancestors(lineage: str, parents: Mapping[str, str | None]) -> Iterator[str]:
    seen = {lineage}
    parent = parents.get(lineage)
    while parent is not None and parent not in seen:
        yield parent
        seen.add(parent)
        parent = parents.get(parent)
