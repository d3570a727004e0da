"""Commands that go back: ``restore`` to a savepoint, ``rollback`` to the lineage before, with their plans.

A digest covers the decision: the savepoint, the lineage that is left, the spec that the stream goes on by. It does not
cover the figures, because a stream that runs on while the user reads the plan writes more rows to delete.

A rollback resumes the lineage before, whose checkpoint was not touched since, and reads its source again from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from sessionizer.control.execution import DecidedFields, Step
from sessionizer.core.definition.outcome import QuarantineReason
from sessionizer.counts import count_is, count_text, number_is
from sessionizer.deployment.differences import (
    Difference,
    count_verdicts,
    decided_differences,
    describe_differences,
    describe_hindrance,
    refusal_of,
)
from sessionizer.errors import EventsGone, InvalidSpec, SessionizerError
from sessionizer.home.clock import moment_text
from sessionizer.home.names import IDENTIFIER_PATTERN
from sessionizer.lineage.canary.judge import USUAL, CanaryTerms
from sessionizer.lineage.excluded_ranges import NOTHING_EXCLUDED, ExcludedRanges
from sessionizer.state.commands.command import (
    ACCEPT,
    CANARY,
    KEY_GROUPS,
    PARTITIONS,
    ROLL_BACK,
    ROLL_BACK_IF_FAILED,
    Command,
    Decision,
    Plan,
    option,
)
from sessionizer.state.commands.steps import (
    Activate,
    DeleteLaterRows,
    KeepExcludedRanges,
    KeepSpec,
    NoteTables,
    PointOfNoReturn,
    PrepareTables,
    Stop,
    WriteFinishedSessions,
    new_lineage,
)
from sessionizer.state.restores.ranges import FLAG as EXCLUDE
from sessionizer.state.restores.ranges import Replay
from sessionizer.state.restores.row_changes import RowsOfTable


@dataclass(frozen=True, kw_only=True)
class Restore(Command):
    """Show what a restore would do. With --approve DIGEST, do it. Typed again it continues."""

    name: ClassVar = "restore"
    purpose: ClassVar = "return to a savepoint"
    writes_tables: ClassVar = True
    when_impossible: ClassVar = (
        f"{Command.when_impossible}. Or choose a savepoint that needs none of it: "
        "`sessionizer savepoint list {stream}`"
    )

    savepoint: str | None = option(
        "SAVEPOINT",
        "Savepoint",
        "id of the savepoint, as `sessionizer savepoint list STREAM` or the note of the run that made it shows it",
        pattern=f"^({IDENTIFIER_PATTERN})?$",
    )
    time: str | None = option(
        "--time",
        "Or a time",
        "instead of an id: the newest savepoint at or before this moment",
        is_moment=True,
    )
    exclude: tuple[str, ...] = option(
        EXCLUDE,
        "Exclude",
        "range of the source whose rows go to quarantine. Files: a name or glob, or "
        "modified:2026-11-23T10:00/2026-11-23T11:00 for those that were changed last in that time (UTC). Kafka: "
        "topic:partition:from-to, or topic:2026-11-23T10:00/2026-11-23T11:00 for all its partitions. Delta: "
        "version:from-to. What follows the - or / is not in the range",
        default=(),
        metavar="RANGE",
    )
    folder: str | None = option(
        "--in",
        "In",
        "place of the savepoint, if not with the stream's data: a folder or URI that holds a folder of savepoints per "
        "stream",
        is_folder=True,
    )
    with_file: bool = option(
        "--with-file",
        "Continue with the file",
        "continue with the stream's file as it is now, instead of the savepoint's spec",
        default=False,
    )
    accept: tuple[str, ...] = ACCEPT.declare()
    key_groups: int | None = KEY_GROUPS.declare()
    partitions: int | None = PARTITIONS.declare()
    canary: int = CANARY.declare()
    roll_back_if_failed: bool = ROLL_BACK.declare()

    @property
    def prepares(self) -> bool:
        """Whether its new lineage is made before the stream is stopped. A savepoint stays the same meanwhile."""
        return True

    @property
    def reads_file(self) -> bool:
        """Whether it needs the stream's file: a later edit of its key groups ends a rescale."""
        return self.with_file or self.key_groups is not None

    @property
    def divides_anew(self) -> bool:
        """Whether the new lineage may be divided otherwise than the savepoint."""
        return self.key_groups is not None or self.partitions is not None

    def plan(self, decision: RestorePlan) -> Plan[RestorePlan]:
        """Decide what happens, in order."""
        refusal: SessionizerError | None = refusal_of(
            decision.stream, self.name, decision.differences, decision.accepted
        )
        if decision.replay.missing:
            refusal = EventsGone(decision.stream, decision.replay.missing)
        elif decision.canary is not None and decision.canary.goes_back and not decision.leads_back:
            lineage = decision.leaves
            allowed = (
                f"Omit it, because no rollback undoes this restore: it leaves lineage {lineage}, which has no batch"
            )
            refusal = InvalidSpec(ROLL_BACK_IF_FAILED, "given", allowed)
        return self.make_plan(
            decision,
            leaves=(decision.leaves, decision.newest_batch),
            steps=(
                *((KeepExcludedRanges(),) if decision.excluded_ranges else ()),
                *((KeepSpec(),) if self.reads_file else ()),
                Stop(),
                *((PrepareTables(),) if self.with_file else ()),
                *new_lineage(decision.canary),
                NoteTables(),
                PointOfNoReturn(),
                DeleteLaterRows(),
                Activate(),
                *(self.last_steps if decision.migrations else ()),
            ),
            refusal=refusal,
        )

    @property
    def like_before(self) -> bool:
        """Whether the new lineage makes the same sessions. It reads again what others have read."""
        return False

    @property
    def last_steps(self) -> tuple[Step, ...]:
        """Steps that follow the decisive change: sessions that were over before a migration get into the tables."""
        return (WriteFinishedSessions(),) if self.with_file else ()


@dataclass(frozen=True, kw_only=True)
class Rollback(Command):
    """Show what a rollback to the lineage before would do. With --approve DIGEST, do it. Typed again it continues."""

    name: ClassVar = "rollback"
    purpose: ClassVar = "return to the lineage before the last change of the state"
    brings_release: ClassVar = False
    reads_spec: ClassVar = False
    writes_tables: ClassVar = True

    def plan(self, decision: RollbackPlan) -> Plan[RollbackPlan]:
        """Decide what happens: the rows of the active lineage leave the tables, the one before goes on."""
        gone = decision.replay.missing
        return self.make_plan(
            decision,
            leaves=(decision.leaves, decision.newest_batch),
            steps=(Stop(), PointOfNoReturn(), DeleteLaterRows(), Activate()),
            refusal=EventsGone(decision.stream, gone) if gone else None,
        )


_LISTED: Final = 5
"""Number of days, or files, that are named one by one."""


@dataclass(frozen=True, slots=True)
class RestorePlan(Decision):
    """A decision: ``stream`` leaves lineage ``leaves`` for the state of ``savepoint``, with the consequences now.

    ``manifest``: SHA-256 of the savepoint's manifest. ``lineage`` and ``batch_id``: of its state. ``spec``: fingerprint
    of its spec. ``batch_at`` (epoch ms) is the moment the stream goes back to, ``newest_batch`` the last one of the
    lineage that is left, -1 if its checkpoint has none. ``sessions`` are open in the savepoint, of so many ``events``,
    None in a native savepoint, which does not count. ``excluded_ranges``: ranges of the source whose rows the new
    lineage quarantines, ``remarks`` on them. ``canary``: terms of the new lineage. ``leads_back``: whether a rollback
    can undo the restore. ``spec_stays``: the stream runs by the savepoint's spec already. ``by_file``: it goes on by
    the stream's file. ``differences``: from the savepoint's spec and division, of which a user ``accepted`` some by
    name. ``migrations``: those that open events get, in words.
    """

    covers: ClassVar = ("stream", "savepoint", "manifest", "lineage", "batch_id", "leaves", "spec", "excluded_ranges")

    stream: str
    savepoint: str
    manifest: str
    lineage: str
    batch_id: int
    leaves: str
    spec: str
    batch_at: int
    newest_batch: int
    sessions: int | None
    events: int | None
    tables: tuple[RowsOfTable, ...]
    replay: Replay
    excluded_ranges: ExcludedRanges = NOTHING_EXCLUDED
    canary: CanaryTerms | None = USUAL
    remarks: tuple[str, ...] = ()
    leads_back: bool = True
    spec_stays: bool = False
    by_file: bool = False
    differences: tuple[Difference, ...] = ()
    accepted: tuple[str, ...] = ()
    migrations: tuple[str, ...] = ()

    @property
    def decided(self) -> Mapping[str, Any]:
        """Fields that the digest covers, with what differs from the savepoint, if anything may."""
        decided = self.covered()
        if not self.excluded_ranges:
            del decided["excluded_ranges"]
        if self.by_file or self.differences:
            differing = decided_differences(self.differences)
            decided |= {"by_file": self.by_file, "differences": differing, "accepted": self.accepted}
            decided |= {"migrations": self.migrations} if self.migrations else {}
        return decided

    @property
    def days(self) -> tuple[str, ...]:
        """Days (ISO, UTC) on which a table loses rows or gets rows back."""
        return tuple(sorted({day for table in self.tables for day in (*table.by_day, *table.back)}))

    def to_json(self) -> dict[str, Any]:
        """Return the plan for programs."""
        found = [each.to_json() for each in self.differences]
        return {**Decision.to_json(self), "days": list(self.days), "differences": found}

    def lines(self) -> Iterator[str]:
        """Yield the plan as text, line by line."""
        yield f"stream {self.stream} returns to savepoint {self.savepoint}: {moment_text(self.batch_at)}"
        yield f"  from  lineage {self.leaves}, {describe_left(self.newest_batch)}"
        yield f"  to    a new lineage with the state after batch {self.batch_id} of {self.lineage}"
        spec = "the savepoint's. To continue with the stream's file instead, add --with-file"
        if self.by_file:
            counts = count_verdicts(self.differences)
            spec = f"the stream's file. From the savepoint's spec it differs by {counts or 'nothing'}"
        elif self.spec_stays:
            spec = "the savepoint's, by which the stream runs"
        yield f"  spec  {spec}"
        yield from (f"        {line}" for line in describe_differences(self.differences))
        for each in self.migrations:
            yield f"        migration {each}"
        if self.migrations:
            yield "        sessions that are over by the savepoint's rules are written, before open events are migrated"
        opened = "not counted, because the savepoint is native"
        if self.sessions is not None and self.events is not None:
            opened = f"{count_text(self.sessions, 'session')} of {count_text(self.events, 'event')}"
        yield f"  open  {opened}"
        for each in self.excluded_ranges.lines():
            yield f"  out   {each}: its rows go to quarantine as {QuarantineReason.EXCLUDED}"
        for remark in self.remarks:
            yield f"        {remark}"
        yield from consequences(self.tables, self.replay)
        if hindrance := describe_hindrance(self.differences, self.accepted):
            yield hindrance


def describe_left(newest_batch: int) -> str:
    """Describe the lineage that is left, by its newest batch: -1 if its checkpoint has none, or is gone."""
    return f"batch {newest_batch}. Its checkpoint is kept" if newest_batch >= 0 else "without a batch in its checkpoint"


def consequences(tables: Iterable[RowsOfTable], replay: Replay) -> Iterator[str]:
    """Yield the rows that leave the tables and come back, and the part of the source that is read again."""
    tables = list(tables)
    folders = {table.location.rpartition("/")[0] for table in tables}
    for table in tables:
        name = table.table if len(folders) == 1 else f"{table.table} at {table.location}"
        deleted = f"{count_is(table.rows, 'row')} deleted, {_days(table.by_day)}" if table.rows else "no row is deleted"
        yield f"  {name}: {deleted}"
        if table.back:
            back = f"{count_is(table.rows_back, 'row')} brought back, which an earlier command deleted"
            yield f"  {name}: {back}, {_days(table.back)}"
    again = "" if replay.items is None else f", {number_is(replay.items)} read again"
    yield f"  source {replay.described}{again}"
    more = len(replay.missing) - _LISTED
    for file in (*replay.missing[:_LISTED], *((f"and {more:,} more",) if more > 0 else ())):
        yield f"  no longer in the source: {file}"
    if replay.missing:
        yield "this plan is refused, because the events in them would be lost"


def _days(by_day: Mapping[str, int]) -> str:
    days = sorted(by_day)
    shown = ", ".join(f"{day} ({by_day[day]:,})" for day in days[:_LISTED])
    more = f" and {count_text(len(days) - _LISTED, 'more day')}" if len(days) > _LISTED else ""
    return f"of {shown}{more}"


@dataclass(frozen=True, slots=True)
class RollbackPlan(Decision):
    """A decision: ``stream`` leaves the lineage that a ``verb`` made, at its ``newest_batch``.

    It resumes ``lineage`` after ``batch_id``. ``tables``: the rows that leave them. ``replay``: what is read again.
    ``remarks``: on the excluded ranges of it, and on the programs that the lineage needs.
    """

    covers: ClassVar = ("stream", "leaves", "lineage")

    stream: str
    leaves: str
    verb: str
    newest_batch: int
    lineage: str
    batch_id: int
    tables: tuple[RowsOfTable, ...]
    replay: Replay
    remarks: tuple[str, ...] = ()

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
