"""Plan of a restore, as data: shown before anything is stopped, approved by its digest, checked again then.

The digest covers the decision: the savepoint, the lineage that is left, the spec that the stream goes on by. It does
not cover the figures, because a stream that runs on while the user reads the plan writes more rows to delete.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from sessionizer.control.plan_changes import DigestOfDecided
from sessionizer.core.definition.outcome import QuarantineReason
from sessionizer.counts import count_is, count_text, number_is
from sessionizer.home.clock import moment_text
from sessionizer.lineage.canary.judge import USUAL, digest_terms
from sessionizer.lineage.excluded_ranges import NOTHING_EXCLUDED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sessionizer.lineage.canary.judge import CanaryTerms
    from sessionizer.lineage.excluded_ranges import ExcludedRanges
    from sessionizer.state.restores.row_changes import RowsOfTable

_LISTED: Final = 5
"""Number of days, or files, that are named one by one."""


@dataclass(frozen=True, slots=True)
class Replay:
    """Part of the source that is read again. ``described``: its position in words.

    ``items``: number of files or versions that come again, None if the source does not tell. ``missing``: those that
    are no longer there. A restore would lose their events.
    """

    described: str
    items: int | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RestoreDecision(DigestOfDecided):
    """The approved decision. ``manifest``: SHA-256 of the savepoint's manifest. ``spec``: fingerprint of the spec.

    ``excluded_ranges``: ranges of the source whose rows the new lineage quarantines. ``canary``: terms of its canary.
    """

    stream: str
    savepoint: str
    manifest: str
    lineage: str
    batch_id: int
    leaves: str
    spec: str
    excluded_ranges: ExcludedRanges = NOTHING_EXCLUDED
    canary: CanaryTerms | None = USUAL

    @property
    def decided(self) -> Mapping[str, Any]:
        """Fields that the digest covers."""
        decided = asdict(self)
        if not self.excluded_ranges:
            del decided["excluded_ranges"]
        del decided["canary"]
        return {**decided, **digest_terms(self.canary)}


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The ``decision`` and its consequences as they are now.

    ``batch_at`` (epoch ms) is the moment the stream goes back to, ``newest_batch`` the last one of the lineage that is
    left, -1 if its checkpoint has none. ``sessions`` are open in the savepoint, of so many ``events``, None in a native
    savepoint, which does not count. ``remarks``: on the excluded ranges of the source. ``leads_back``:
    whether a rollback can undo the restore. ``spec_stays``: the stream runs by the savepoint's spec already.
    """

    decision: RestoreDecision
    batch_at: int
    newest_batch: int
    sessions: int | None
    events: int | None
    tables: tuple[RowsOfTable, ...]
    replay: Replay
    remarks: tuple[str, ...] = ()
    leads_back: bool = True
    spec_stays: bool = False

    @property
    def days(self) -> tuple[str, ...]:
        """Days (ISO, UTC) on which a table loses rows or gets rows back."""
        return tuple(sorted({day for table in self.tables for day in (*table.by_day, *table.back)}))

    @property
    def digest(self) -> str:
        """Digest of the decision."""
        return self.decision.digest

    @property
    def decided(self) -> Mapping[str, Any]:
        """Fields that the digest covers."""
        return self.decision.decided

    def to_json(self) -> dict[str, Any]:
        """Return the plan for programs."""
        return {**asdict(self), "digest": self.decision.digest, "days": list(self.days)}

    def lines(self) -> Iterator[str]:
        """Yield the plan as text, line by line."""
        decision = self.decision
        yield f"stream {decision.stream} returns to savepoint {decision.savepoint}: {moment_text(self.batch_at)}"
        yield f"  from  lineage {decision.leaves}, {describe_left(self.newest_batch)}"
        yield f"  to    a new lineage with the state after batch {decision.batch_id} of {decision.lineage}"
        after = (
            ", by which the stream runs"
            if self.spec_stays
            else ". Afterwards apply the stream's file with `run --apply`"
        )
        yield f"  spec  the savepoint's{after}"
        yield f"  open  {_open_text(self.sessions, self.events)}"
        for each in decision.excluded_ranges.lines():
            yield f"  out   {each}: its rows go to quarantine as {QuarantineReason.EXCLUDED}"
        for remark in self.remarks:
            yield f"        {remark}"
        yield from consequences(self.tables, self.replay)


def describe_left(newest_batch: int) -> str:
    """Describe the lineage that is left, by its newest batch: -1 if its checkpoint has none, or is gone."""
    return f"batch {newest_batch}. Its checkpoint is kept" if newest_batch >= 0 else "without a batch in its checkpoint"


def consequences(tables: Iterable[RowsOfTable], replay: Replay) -> Iterator[str]:
    """Yield the rows that leave the tables and come back, and the part of the source that is read again."""
    tables = list(tables)
    folders = {table.location.rpartition("/")[0] for table in tables}
    for table in tables:
        name = table.table if len(folders) == 1 else f"{table.table} at {table.location}"
        yield f"  {name}: {_describe_deleted(table)}"
        if table.back:
            back = f"{count_is(table.rows_back, 'row')} brought back, which an earlier command deleted"
            yield f"  {name}: {back}, {_days(table.back)}"
    again = "" if replay.items is None else f", {number_is(replay.items)} read again"
    yield f"  source {replay.described}{again}"
    for file in _some(replay.missing):
        yield f"  no longer in the source: {file}"
    if replay.missing:
        yield "this plan is refused, because the events in them would be lost"


def _open_text(sessions: int | None, events: int | None) -> str:
    if sessions is None or events is None:
        return "not counted, because the savepoint is native"
    return f"{count_text(sessions, 'session')} of {count_text(events, 'event')}"


def _describe_deleted(table: RowsOfTable) -> str:
    return f"{count_is(table.rows, 'row')} deleted, {_days(table.by_day)}" if table.rows else "no row is deleted"


def _days(by_day: Mapping[str, int]) -> str:
    days = sorted(by_day)
    shown = ", ".join(f"{day} ({by_day[day]:,})" for day in days[:_LISTED])
    return f"of {shown}{_more(days)}"


def _some(things: tuple[str, ...]) -> Iterator[str]:
    yield from things[:_LISTED]
    if len(things) > _LISTED:
        yield f"and {len(things) - _LISTED:,} more"


def _more(things: list[str]) -> str:
    return f" and {count_text(len(things) - _LISTED, 'more day')}" if len(things) > _LISTED else ""
