"""The batches that a proof replays, its result, and its page: one HTML file that needs no other, with all data escaped.

The pages of the newest proofs are kept in the stream's control directory, where Airflow reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any, Final

from sessionizer.counts import count_is, count_text
from sessionizer.errors import NothingToProve, ReplayDiffers
from sessionizer.home.control_store import Store, record_names
from sessionizer.home.names import check_identifier
from sessionizer.home.record_file import have_folder
from sessionizer.home.roots import ControlPath
from sessionizer.home.stream_home import StreamHome

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
    """Rows of a table: old, new, identical ones, and judged differences. Two may have a row in common."""

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
        """Raise ReplayDiffers if the replay died, or a table with unexplained rows is not ``accepted``."""
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
                found = judged.difference
                columns = f" ({', '.join(found.columns)})" if found.columns else ""
                why = f"explained by {', '.join(judged.explained_by)}" if judged.explained_by else "UNEXPLAINED"
                yield f"  {count_text(found.rows, 'row')} {found.kind.replace('_', ' ')}{columns}: {why}"
        yield f"verdict: {self.verdict}"
        if self.compared_nothing:
            yield f"  {NOTHING_COMPARED}"


def judge_table(
    table: ComparedTable,
    compared: TableComparison,
    of_release: TableComparison,
    of_spec: TableComparison,
    changes: tuple[str, ...],
) -> TableProof:
    """Judge what differs by the release, which is unexplained, and what ``changes`` of the spec explain."""
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
    ordered = sorted(committed, reverse=True)
    run = [batch for number, batch in enumerate(ordered) if batch == ordered[0] - number]  # without a gap
    replayable = sorted(run)[1:]
    if not replayable:
        raise NothingToProve(stream, "a replay begins after a batch that is over, and fewer than two are kept")
    if first is not None and first not in replayable:
        known = f"{replayable[0]} to {replayable[-1]}"
        raise NothingToProve(stream, f"batch {first} is not among those that can be replayed: {known}")
    wanted = replayable[-count:] if first is None else [batch for batch in replayable if batch >= first][:count]
    for batch in reversed(wanted) if first is None else wanted:
        found = obstacle(batch)
        if found is not None:
            if first is not None or batch == wanted[-1]:
                raise NothingToProve(stream, f"batch {batch} cannot be replayed: {found}")
            return ReplayedBatches(batch + 1, wanted[-1], f"batch {batch} and those before are left out: {found}")
    return ReplayedBatches(wanted[0], wanted[-1])


_WORDS: Final = {
    ProofVerdict.EQUAL: "Equal: every row is identical.",
    ProofVerdict.EXPLAINED: "Explained: each row that differs is explained by a change of the spec.",
    ProofVerdict.UNEXPLAINED: "Unexplained: some rows differ without a change of the spec that explains them.",
    ProofVerdict.DIED: "Died: the release failed in a recorded batch.",
}

_KEPT: Final = 5
"""Number of pages that a stream keeps, the newest."""
_SUFFIX: Final = ".html"
_UNCHANGED: Final = "The spec, the versions and the code that decides are those that wrote the rows."


def proof_page(proof: Proof) -> str:
    """Return the page."""
    template = Template(files("sessionizer.state.proof").joinpath("page.html").read_text(encoding="utf-8"))
    facts = {
        "lineage": proof.lineage,
        "batches": f"{proof.first} to {proof.last}",
        "events": f"{proof.events:,}",
        "replayed in": f"{proof.replay_seconds:.1f} s",
        "made": f"{datetime.fromtimestamp(proof.at / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC",
        "id": proof.id,
    }
    died = f"<p>Batch {proof.died.batch_id}: <code>{escape(proof.died.cause)}</code></p>" if proof.died else ""
    return template.substitute(
        stream=escape(proof.stream),
        verdict=escape(proof.verdict),
        words=escape(NOTHING_COMPARED if proof.compared_nothing else _WORDS[proof.verdict]),
        died=died,
        facts="".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items()),
        changes=_list("Changes since the rows were written", (*proof.release, *proof.changes), _UNCHANGED),
        notes=_list("Left out", proof.notes),
        counts="".join(map(_counts, proof.tables)),
        differences="".join(
            f"<h2>{escape(table.table)}</h2>{''.join(map(_difference, table.differences))}"
            for table in proof.tables
            if table.differences
        ),
        not_compared=escape("; ".join(f"{table.table}: {', '.join(table.not_compared)}" for table in proof.tables)),
    )


def keep_page(home: StreamHome, proof: Proof) -> ControlPath:
    """Keep the page of the proof, remove old ones, and return its place. Raises OSError, ControlUnreachable."""
    have_folder(_pages(home), "the pages of proofs")
    Store(page_of(home, proof.id)).replace(proof_page(proof).encode(), durable=False)
    for old in list_kept_pages(home)[:-_KEPT]:
        Store(page_of(home, old)).remove()
    return page_of(home, proof.id)


def list_kept_pages(home: StreamHome) -> list[str]:
    """Return the ids of the proofs whose pages are kept, the newest last. Raises OSError."""
    return [name.removesuffix(_SUFFIX) for name in record_names(_pages(home), f"*{_SUFFIX}")]


def page_of(home: StreamHome, proof_id: str) -> ControlPath:
    """Return the place of the page of a proof. Raises InvalidSpec for an id that is none."""
    return _pages(home) / f"{check_identifier('proof', proof_id)}{_SUFFIX}"


def _pages(home: StreamHome) -> ControlPath:
    return home.control / "proofs"


def _list(title: str, lines: Iterable[str], nothing: str = "") -> str:
    items = "".join(f"<li><code>{escape(line)}</code></li>" for line in lines)
    if not items:
        return f"<p>{escape(nothing)}</p>" if nothing else ""
    return f"<h2>{escape(title)}</h2><ul>{items}</ul>"


def _counts(table: TableProof) -> str:
    bad = ' class="bad"' if table.unexplained else ""
    numbers = "".join(f"<td>{count:,}</td>" for count in (table.old, table.new, table.identical, table.explained))
    return f"<tr><th>{escape(table.table)}</th>{numbers}<td{bad}>{table.unexplained:,}</td></tr>"


def _difference(judged: JudgedDifference) -> str:
    found = judged.difference
    columns = f": {', '.join(found.columns)}" if found.columns else ""
    explained = judged.explained_by
    why = f"explained by {', '.join(explained)}" if explained else "unexplained"
    head = f"{count_text(found.rows, 'row')}, {found.kind.replace('_', ' ')}{columns}"
    title = f'<summary>{escape(head)} <span class="{"good" if explained else "bad"}">{escape(why)}</span></summary>'
    samples = [map(_values, (each.key, each.old, each.new)) for each in found.samples]
    rows = "".join(f"<tr>{''.join(f'<td>{side}</td>' for side in sides)}</tr>" for sides in samples)
    table = f"<table><tr><th>key</th><th>old</th><th>new</th></tr>{rows}</table>"
    return f'<details{"" if explained else " open"}>{title}<div class="wide">{table}</div></details>'


def _values(values: Mapping[str, str | None] | None) -> str:
    if values is None:
        return "<i>no row</i>"
    shown = ((name, "<i>null</i>" if value is None else escape(value)) for name, value in values.items())
    return "<br>".join(f"<b>{escape(name)}</b> {value}" for name, value in shown)
