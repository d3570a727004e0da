"""The ground truth of a feed: counts of the rows, taken as they are sent."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sessionizer_demo.feed.rows.kinds import Destination, RowKind
from sessionizer_demo.feed.traffic.events import PURCHASE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sessionizer_demo.feed.generator import Row


@dataclass(slots=True)
class Tally:
    """Counts of the rows that reached the sink.

    Purchases, logouts, clients and users count only rows that belong to sessions.
    """

    by_kind: Counter[RowKind] = field(default_factory=Counter)
    by_client: Counter[str] = field(default_factory=Counter)
    users: set[str] = field(default_factory=set)
    purchases: int = 0
    logouts: int = 0
    last_at_ms: int | None = None

    def add(self, rows: Iterable[Row]) -> None:
        """Count ``rows``, which the sink has taken."""
        for row in rows:
            self.by_kind[row.kind] += 1
            self.last_at_ms = row.at_ms
            if row.kind.destination is Destination.SESSIONS:
                self._add_admitted(row)

    def _add_admitted(self, row: Row) -> None:
        self.by_client[row.event.client] += 1
        self.users.add(row.event.user_id)
        self.purchases += row.event.type == PURCHASE
        self.logouts += row.event.closes

    @property
    def rows(self) -> int:
        """Number of all rows sent."""
        return self.by_kind.total()

    @property
    def rows_by_destination(self) -> dict[Destination, int]:
        """Number of rows that each table must hold."""
        counts: Counter[Destination] = Counter()
        for kind, count in self.by_kind.items():
            counts[kind.destination] += count
        return dict(counts)

    def as_dict(self) -> dict[str, object]:
        """Return the counts as values for JSON, with kinds and tables by name."""
        return {
            "rows": self.rows,
            "by_kind": {kind.value: self.by_kind[kind] for kind in RowKind if self.by_kind[kind]},
            "by_destination": {place.value: count for place, count in self.rows_by_destination.items()},
            "by_client": dict(self.by_client.most_common()),
            "users": len(self.users),
            "purchases": self.purchases,
            "logouts": self.logouts,
        }
