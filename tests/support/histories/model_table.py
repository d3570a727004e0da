"""Delta tables as values: versions of rows, transactions by application, and a log that forgets old versions."""

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple


class Row(NamedTuple):
    """A row that ``batch_id`` of ``lineage`` wrote of the event ``number``."""

    lineage: str
    batch_id: int
    number: int


class Gone(Exception):
    """The version was vacuumed."""


@dataclass(slots=True)
class ModelTable:
    """``versions``: the rows of each, and the transaction that made it. ``oldest``: the first that can be read."""

    versions: list[tuple[frozenset[Row], tuple[str, int] | None]] = field(default_factory=list)
    transactions: dict[str, int] = field(default_factory=dict)
    oldest: int = 0

    @property
    def rows(self) -> frozenset[Row]:
        return self.versions[-1][0] if self.versions else frozenset()

    def append(self, rows: Iterable[Row], application: str, version: int) -> None:
        if version <= self.transactions.get(application, -1):
            return
        self.transactions[application] = version
        new = set(rows)
        assert not new & self.rows, "a batch is there twice"
        self.versions.append((self.rows | new, (application, version)))

    def delete(self, condition: str, application: str) -> None:
        """Delete rows by a transaction, which does not count for ``version_with_batch``."""
        if self.delete_where(select(self.rows, condition).__contains__):
            self.transactions[application] = self.transactions.get(application, -1) + 1

    def delete_where(self, goes: Callable[[Row], bool]) -> bool:
        """Delete rows. Return whether there was one."""
        left = frozenset(row for row in self.rows if not goes(row))
        if left == self.rows:
            return False
        self.versions.append((left, None))
        return True

    def at(self, version: int) -> frozenset[Row]:
        """The rows of a version. Raises Gone."""
        if version < self.oldest:
            raise Gone
        return self.versions[version][0]

    def version_with_batch(self, lineage: str, batch_id: int) -> int | None:
        """As ``sink_versions.version_with_batch``, whose own tests compare it with real logs."""
        if not self.versions:
            return None
        found = len(self.versions) - 1
        for number in range(found, -1, -1):
            transaction = self.versions[number][1]
            if transaction is not None and transaction[0] == lineage and transaction[1] > batch_id:
                found = number - 1
            elif transaction is not None:
                break
        return found if found >= 0 else None

    def vacuum(self) -> None:
        self.oldest = max(0, len(self.versions) - 1)


def select(rows: Iterable[Row], condition: str) -> frozenset[Row]:
    """The rows that meet an SQL condition, by a real SQL engine."""
    with sqlite3.connect(":memory:") as database:
        database.execute("create table t (lineage text, batch_id integer, number integer)")
        database.executemany("insert into t values (?, ?, ?)", rows)
        found = database.execute(f"select lineage, batch_id, number from t where {condition}")  # noqa: S608  ours
        return frozenset(Row(*each) for each in found)
