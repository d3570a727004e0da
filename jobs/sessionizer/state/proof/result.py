"""The batches that a proof replays, and its result: the tables, the differences, their explanation, one verdict."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from sessionizer.counts import count_is, count_text
from sessionizer.errors import NothingToProve, ReplayDiffers

if TYPE_CHECKING:
    from sessionizer.lineage.fingerprint import Fingerprint
    from sessionizer.state.proof.comparison import ComparedTable, RowDifference, TableComparison

ACCEPTED: Final = "proof."
"""Beginning of the names by which unexplained rows are accepted. The name of the table follows."""
NOTHING_COMPARED: Final = (
    "No row was compared, because neither code wrote one. Replay batches in which sessions close: --from BATCH"
)
_DIGITS: Final = 12
"""Digits of a digest that are shown."""


class ProofVerdict(StrEnum):
    """Verdict on a release and a spec, worst last."""

    EQUAL = "equal"
    EXPLAINED = "explained"
    UNEXPLAINED = "unexplained"
    DIED = "died"


@dataclass(frozen=True, slots=True)
class JudgedDifference:
    """A difference, and the changed fields of the spec that cause it. Empty ``explained_by``: it is unexplained."""

    difference: RowDifference
    explained_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableProof:
    """A table: rows that the old code wrote, rows of the replay, identical ones, and the judged differences.

    A row that the release changes and the spec changes, too, is in two differences.
    ``not_compared``: columns that no replay can repeat.
    """

    table: str
    old: int
    new: int
    identical: int
    differences: tuple[JudgedDifference, ...]
    not_compared: tuple[str, ...]

    @property
    def unexplained(self) -> int:
        """Number of rows that differ without an explanation."""
        return sum(each.difference.rows for each in self.differences if not each.explained_by)

    @property
    def explained(self) -> int:
        """Number of rows that differ because of a changed field."""
        return sum(each.difference.rows for each in self.differences if each.explained_by)


@dataclass(frozen=True, slots=True)
class Death:
    """The batch in which the replay failed, and the cause."""

    batch_id: int
    cause: str


@dataclass(frozen=True, slots=True)
class Proof:
    """A replay of batches ``first`` to ``last`` of ``lineage``, compared with the stream's tables.

    ``changes``: fields of the spec that changed since. ``release``: versions and code that changed since. ``notes``:
    what was left out, in words. ``events``: rows of the source in the replayed batches. ``at``: epoch ms.
    """

    id: str
    stream: str
    lineage: str
    at: int
    first: int
    last: int
    events: int
    replay_seconds: float
    release: tuple[str, ...]
    changes: tuple[str, ...]
    tables: tuple[TableProof, ...]
    notes: tuple[str, ...] = ()
    died: Death | None = None

    @property
    def verdict(self) -> ProofVerdict:
        """Verdict over all tables."""
        if self.died is not None:
            return ProofVerdict.DIED
        if self.unexplained:
            return ProofVerdict.UNEXPLAINED
        return ProofVerdict.EXPLAINED if any(table.differences for table in self.tables) else ProofVerdict.EQUAL

    @property
    def compared_nothing(self) -> bool:
        """Whether neither the tables nor the replay have a row of the batches. The verdict is then ``equal``, too."""
        return self.died is None and not any(table.old or table.new for table in self.tables)

    @property
    def holds(self) -> bool:
        """Whether nothing is unexplained."""
        return self.verdict in {ProofVerdict.EQUAL, ProofVerdict.EXPLAINED}

    @property
    def unexplained(self) -> int:
        """Number of rows of all tables that differ without an explanation."""
        return sum(table.unexplained for table in self.tables)

    @property
    def explained(self) -> int:
        """Number of rows of all tables that differ because of a changed field."""
        return sum(table.explained for table in self.tables)

    @property
    def identical(self) -> int:
        """Number of rows of all tables that are identical."""
        return sum(table.identical for table in self.tables)

    def require(self, accepted: Collection[str] = ()) -> None:
        """Raise ReplayDiffers if the replay died, or if rows are unexplained in a table that is not accepted.

        ``accepted``: names such as ``proof.sessions``, by which a user accepts the unexplained rows of a table.
        """
        open_names = {f"{ACCEPTED}{table.table}" for table in self.tables if table.unexplained}.difference(accepted)
        if self.died is not None or open_names:
            raise ReplayDiffers(self.stream, self.failure, tuple(sorted(open_names)))

    @property
    def failure(self) -> str:
        """Say in words why the proof does not hold."""
        if self.died is not None:
            return f"batch {self.died.batch_id} failed: {self.died.cause}"
        differing = ", ".join(table.table for table in self.tables if table.unexplained)
        return f"{count_is(self.unexplained, 'row')} unexplained, in {differing}"

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON, with the verdict and the counts of each table."""
        tables = [
            {**asdict(table), "explained": table.explained, "unexplained": table.unexplained} for table in self.tables
        ]
        counts = {"identical": self.identical, "explained": self.explained, "unexplained": self.unexplained}
        return {**asdict(self), "tables": tables, "verdict": self.verdict, **counts}

    def lines(self) -> Iterator[str]:
        """Return the result as lines for users."""
        yield f"stream {self.stream}, lineage {self.lineage}: batches {self.first} to {self.last} replayed"
        yield f"  {count_text(self.events, 'event')} in {self.replay_seconds:.1f} s"
        for change in (*self.release, *self.changes):
            yield f"  changed: {change}"
        for note in self.notes:
            yield f"  note: {note}"
        if self.died is not None:
            yield f"  the replay died in batch {self.died.batch_id}: {self.died.cause}"
        for table in self.tables:
            yield (
                f"{table.table}: {count_text(table.old, 'row')}, {table.identical:,} identical, "
                f"{table.explained:,} explained, {table.unexplained:,} unexplained"
            )
            for judged in table.differences:
                yield f"  {difference_line(judged)}"
        yield f"verdict: {self.verdict}"
        if self.compared_nothing:
            yield f"  {NOTHING_COMPARED}"


def difference_line(judged: JudgedDifference) -> str:
    """Describe a difference and its explanation in a line."""
    found = judged.difference
    columns = f" ({', '.join(found.columns)})" if found.columns else ""
    what = f"{found.kind.replace('_', ' ')}{columns}"
    why = f"explained by {', '.join(judged.explained_by)}" if judged.explained_by else "UNEXPLAINED"
    return f"{count_text(found.rows, 'row')} {what}: {why}"


def judge_table(
    table: ComparedTable,
    compared: TableComparison,
    of_release: TableComparison,
    of_spec: TableComparison,
    changes: tuple[str, ...],
) -> TableProof:
    """Judge the differences between the old rows of a table and those of the replay, which ``compared`` counts.

    ``of_release`` has those between the old rows and a replay by the recorded spec: they are unexplained. ``of_spec``
    has those between that replay and the one by the new spec. The changed fields of the spec, ``changes``, cause them.
    """
    judged = (
        *(JudgedDifference(each, ()) for each in of_release.differences),
        *(JudgedDifference(each, changes) for each in of_spec.differences),
    )
    return TableProof(table.name, compared.old, compared.new, compared.identical, judged, table.excluded)


def release_differences(old: Fingerprint, new: Fingerprint) -> tuple[str, ...]:
    """Return the versions that differ between the release that wrote the rows and that of the replay, and the code."""
    names = dict.fromkeys((*old.versions, *new.versions))
    differing = [name for name in names if name in old.versions and old.versions[name] != new.versions.get(name)]
    lines = [f"{name}: {old.versions[name]} → {new.versions.get(name, 'unknown')}" for name in differing]
    if old.code != new.code:
        lines.append(f"code that decides: {old.code[:_DIGITS] or 'unknown'} → {new.code[:_DIGITS]}")
    return tuple(lines)


BATCHES: Final = 10
"""Batches that are replayed unless the user says how many."""


@dataclass(frozen=True, slots=True)
class ReplayedBatches:
    """The batches from ``first`` to ``last``, replayed after a fork at the batch before. ``note``: why no more."""

    first: int
    last: int
    note: str | None = None

    @property
    def fork_at(self) -> int:
        """The committed batch with whose state the replay begins."""
        return self.first - 1

    @property
    def ids(self) -> tuple[int, ...]:
        """All batches, oldest first."""
        return tuple(range(self.first, self.last + 1))


def choose_batches(
    stream: str,
    committed: Collection[int],
    count: int,
    first: int | None,
    obstacle: Callable[[int], str | None],
) -> ReplayedBatches:
    """Choose the newest ``count`` of the ``committed`` batches, or as many from the batch ``first`` on.

    ``obstacle`` says why a batch cannot be replayed, None if it can. Without ``first`` the choice begins after the
    newest batch with an obstacle. Raises NothingToProve.
    """
    replayable = _newest_run(committed)
    if not replayable:
        raise NothingToProve(stream, "a replay begins after a batch that is over, and fewer than two are kept")
    if first is not None:
        return _named_batches(stream, replayable, first, count, obstacle)
    wanted = replayable[-count:]
    for batch in reversed(wanted):
        found = obstacle(batch)
        if found is not None:
            if batch == wanted[-1]:
                raise NothingToProve(stream, f"batch {batch} cannot be replayed: {found}")
            return ReplayedBatches(batch + 1, wanted[-1], f"batch {batch} and those before are left out: {found}")
    return ReplayedBatches(wanted[0], wanted[-1])


def _named_batches(
    stream: str, replayable: list[int], first: int, count: int, obstacle: Callable[[int], str | None]
) -> ReplayedBatches:
    if first not in replayable:
        known = f"{replayable[0]} to {replayable[-1]}"
        raise NothingToProve(stream, f"batch {first} is not among those that can be replayed: {known}")
    wanted = [batch for batch in replayable if batch >= first][:count]
    for batch in wanted:
        found = obstacle(batch)
        if found is not None:
            raise NothingToProve(stream, f"batch {batch} cannot be replayed: {found}")
    return ReplayedBatches(wanted[0], wanted[-1])


def _newest_run(committed: Collection[int]) -> list[int]:
    """Return the newest batches without a gap, without the first of them, after which a replay begins."""
    ordered = sorted(committed, reverse=True)
    run = [batch for number, batch in enumerate(ordered) if batch == ordered[0] - number]
    return sorted(run)[1:]
