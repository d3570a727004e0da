"""Command ``seed``, which begins a stream with a history, and its plan.

The digest covers the decision: the history, its end, where the live source begins, the spec, the lineage that is left.
It does not cover the figures, because a history may be long, and is read anew when the seed is carried out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from sessionizer.control.execution import Step
from sessionizer.counts import count_text
from sessionizer.errors import InvalidSpec
from sessionizer.home.clock import epoch_ms, moment_of
from sessionizer.home.names import SESSIONS
from sessionizer.lineage.canary.judge import USUAL, CanaryTerms
from sessionizer.state.commands.command import CANARY, Command, Decision, Plan, option
from sessionizer.state.commands.steps import (
    Activate,
    DeleteLaterRows,
    KeepTypes,
    PointOfNoReturn,
    ReadHistory,
    Stop,
    WriteFinishedSessions,
    new_lineage,
)

BEGINNING: Final = "beginning"
"""The live source from its beginning. It brings the history's events again, and those up to the moment are late."""
NOW: Final = "now"
"""The live source from its position at the time of the seed."""
SOURCE: Final = "source"
"""History from the stream's own source as it is now. The stream goes on after it."""
CHECKPOINT: Final = "checkpoint:"
"""Beginning of the address of a history that is the state of another query."""
DATABASE: Final = "jdbc:"
"""Beginning of a database's address."""
ADDRESSES: Final = {DATABASE: "a database", CHECKPOINT: "another query's state"}
"""Beginnings of addresses that are no folder and no URI, and what has such an address."""
NEED_QUERY: Final = frozenset({CHECKPOINT})
"""Beginnings of addresses whose rows are no rows of the source until a query makes such rows of them."""
PASSWORD: Final = "JDBC_PASSWORD"  # noqa: S105  the name of the variable
"""Variable in the environment of the job, the only place of the password."""
_SECRET: Final = re.compile(r"password\s*=|//[^/@]*:[^/@]*@", re.IGNORECASE)

_PLAIN: Final = re.compile(r"jdbc:[a-z0-9]+://([\w.-]+|\[[0-9a-fA-F:]+\])(?::(\d+))?(?:/[\w$-]*)?")
"""The address of one host, without options: some of those name other hosts."""


@dataclass(frozen=True, slots=True)
class HistoryPlace:
    """Place of a history. ``version`` tells it from the same place at another time, as far as possible."""

    format: str
    place: str
    version: str = ""

    def __str__(self) -> str:
        """Format the place as text."""
        if self.format == SOURCE:
            return f"the stream's own source, {self.place}"
        return f"{self.format} at {self.place}{f', {self.version}' if self.version else ''}"

    @property
    def typed(self) -> str:
        """Return what a user types for it."""
        return SOURCE if self.format == SOURCE else self.place


@dataclass(frozen=True, slots=True)
class HistoryFigures:
    """Figures of the history at ``watermark_ms``. ``later`` events are left to the live source."""

    watermark_ms: int
    events: int
    refused: Mapping[str, int]
    later: int
    sessions: int
    open_sessions: int
    open_events: int
    repeated: int
    conflicting: int


@dataclass(frozen=True, slots=True)
class SeedPlan(Decision):
    """A decision: ``stream`` begins with the history ``past``, with its ``figures`` now, None if not counted.

    ``spec``: its fingerprint. ``until_ms``: the requested moment (epoch ms), None for the watermark that the history
    leads to. ``live_from``: ``BEGINNING``, ``NOW``, ``SOURCE`` or a position in JSON, as Spark writes it. ``backfill``:
    whether the tables get the finished sessions. ``leaves``: the lineage that the new one replaces, if any. Then the
    new one is on ``canary``, and ``leaving`` counts the rows of each table that are deleted.
    """

    covers: ClassVar = ("stream", "spec", "past", "until_ms", "live_from", "backfill", "leaves")

    stream: str
    spec: str
    past: HistoryPlace
    until_ms: int | None
    live_from: str
    backfill: bool
    leaves: str | None
    canary: CanaryTerms | None = USUAL
    figures: HistoryFigures | None = None
    leaving: Mapping[str, int] = field(default_factory=dict)

    @property
    def keeps_later(self) -> bool:
        """Whether the history keeps events after the moment, because the live source does not bring them."""
        return self.live_from != BEGINNING

    @property
    def decided(self) -> Mapping[str, Any]:
        """Fields that the digest covers, without the canary if there is no lineage before to be compared with."""
        return (self if self.leaves else replace(self, canary=USUAL)).covered()

    def lines(self) -> Iterator[str]:
        """Yield the plan as text, line by line."""
        figures = self.figures
        if figures is None:
            return
        seconds, ms = divmod(figures.watermark_ms, 1000)
        moment = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{ms:03} UTC"
        yield f"stream {self.stream} begins with a history, up to {moment}"
        reasons = ", ".join(f"{reason} {rows:,}" for reason, rows in sorted(figures.refused.items()))
        refused = f", {count_text(sum(figures.refused.values()), 'row')} refused ({reasons})" if reasons else ""
        yield f"  history {self.past}: {count_text(figures.events, 'event')}{refused}"
        if figures.repeated or figures.conflicting:
            yield f"          {figures.repeated:,} of them are duplicates, {figures.conflicting:,} conflicting"
        if figures.later:
            yield f"          {figures.later:,} of them are later: the live source brings them"
        told = "written into the tables" if self.backfill else "written into no table"
        yield f"  closed  {count_text(figures.sessions, 'session')}, {told}"
        events = count_text(figures.open_events, "event")
        yield f"  open    {count_text(figures.open_sessions, 'session')} of {events}, which stay open"
        yield f"  live    {_LIVE.get(self.live_from, f'from {self.live_from}')}"
        if self.leaves is not None:
            yield f"  leaves  lineage {self.leaves}, which is kept. All rows of the stream are deleted:"
            yield from (f"          {table}: {count_text(rows, 'row')}" for table, rows in self.leaving.items())
            # such as if a topic has lost its oldest records
            fewer = self.leaving.get(SESSIONS, 0) - (figures.sessions if self.backfill else 0)
            if fewer > 0:
                lost = "Those that the history does not bring are lost"
                yield f"          {count_text(fewer, 'session')} fewer afterwards. {lost}"


_LIVE: Final = {
    BEGINNING: "from the beginning of the source. Events up to that moment are late",
    NOW: "from the end of the source when the seed runs",
    SOURCE: "from where the history ends, exactly",
}


def leads_to(url: str, host: str, port: int | None) -> bool:
    """Whether a reader of ``url`` gives a password to ``host`` and ``port`` alone. ``host`` may be a whole address."""
    if host.startswith(DATABASE):
        return url == host
    found = _PLAIN.fullmatch(url)
    return found is not None and (found[1], found[2]) == (host, None if port is None else str(port))


def url_without_secret(url: str) -> str | None:
    """Return the part of ``url`` before a password in it, None if it has no password."""
    return f"{_SECRET.split(url)[0]}…" if _SECRET.search(url) else None


_PLACES: Final = ", ".join(f"{beginning}… for {owner}" for beginning, owner in ADDRESSES.items())
_POSITION: Final = '{"clicks":{"0":1200}}'


@dataclass(frozen=True, kw_only=True)
class Seed(Command):
    """Show how a stream would begin with a history. With --approve DIGEST, do it. Typed again it continues."""

    name: ClassVar = "seed"
    purpose: ClassVar = "start with a history"
    writes_tables: ClassVar = True
    begins_stream: ClassVar = True
    needed: ClassVar = ("history",)

    history: str = option(
        "--history",
        "History",
        f"a folder or URI of files or of a Delta table, {_PLACES}, or {SOURCE} for the stream's own source",
        default=MISSING,
        examples=(SOURCE,),
    )
    table: str | None = option(
        "--table", "Table", "table or view of a database, or part of a checkpoint's state, as OPERATOR/NAME"
    )
    connection: str | None = option(
        None, "Connection", "of a database: the id of the connection, in Airflow, that holds its user and password"
    )
    user: str | None = option("--user", None, "user of the database. JDBC_PASSWORD holds the password")
    query: str | None = option(
        "--query",
        None,
        "query that makes rows of the source out of those of a table or state: select … from history",
    )
    until: str | None = option(
        "--until",
        "Up to",
        "the moment up to which the history counts. Without it: the watermark that the history leads to",
        is_moment=True,
    )
    live_from: str | None = option(
        "--live-from",
        "Live from",
        f"start of the live source: {BEGINNING}, {NOW}, or its position as Spark writes it. Without it: {BEGINNING} or "
        f"where {SOURCE} ends",
        examples=(BEGINNING, NOW),
    )
    backfill: bool = option(
        "--backfill", "Back-fill", "write the finished sessions of the history into the tables", default=False
    )
    start_over: bool = option(
        "--start-over",
        "Start over",
        "leave the lineage that the stream has, and delete the rows that it wrote",
        default=False,
    )
    canary: int = CANARY.declare()

    def plan(self, decision: SeedPlan, *, newest_batch: int = -1) -> Plan[SeedPlan]:
        """Decide what happens, in order. ``newest_batch``: of the lineage that is left, -1 for none."""
        return self.make_plan(
            decision,
            leaves=(decision.leaves or "", newest_batch),
            steps=(
                Stop(),
                ReadHistory(),
                *new_lineage(decision.canary if decision.leaves else None),
                PointOfNoReturn(),
                *((DeleteLaterRows(),) if decision.leaves else ()),
                Activate(),
                *self.last_steps,
            ),
        )

    @property
    def last_steps(self) -> tuple[Step, ...]:
        """Steps that follow the activation. A try that was killed before them runs them again."""
        return (KeepTypes(), *((WriteFinishedSessions(),) if self.backfill else ()))

    @property
    def terms(self) -> CanaryTerms | None:
        """Terms of the new lineage's canary. None without a lineage before, because nothing can be compared."""
        return super().terms if self.start_over else None

    @property
    def like_before(self) -> bool:
        """Whether the new lineage makes the same sessions. A history may have others."""
        return False

    def until_ms(self) -> int | None:
        """Parse the moment to epoch ms, UTC if it has no offset. Raises InvalidSpec."""
        if self.until is None:
            return None
        found = moment_of(self.until, "--until")
        if not 0 < found <= epoch_ms():
            allowed = "a moment since 1970 that has passed: a watermark never passes the clock"
            raise InvalidSpec("--until", self.until, allowed)
        return found

    def live(self) -> str:
        """Return the position at which the live source begins. Raises InvalidSpec."""
        given = self.live_from
        if self.history == SOURCE:
            if given is not None:
                allowed = f"Omit it: with --history {SOURCE} the stream continues where the history ends"
                raise InvalidSpec("--live-from", given, allowed)
            return SOURCE
        if given is None or given in (BEGINNING, NOW):
            return given or BEGINNING
        try:
            json.loads(given)
        except ValueError as error:
            raise InvalidSpec("--live-from", given, f"{BEGINNING}, {NOW}, or JSON such as {_POSITION}") from error
        return given
