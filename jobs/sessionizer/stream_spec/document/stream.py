"""The stream spec: the full description of a stream."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Final, Self, TypeAlias
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, model_validator

from sessionizer.home.clock import HOUR, MINUTE, SECOND
from sessionizer.home.names import LATE_EVENTS, QUARANTINE, SESSIONS
from sessionizer.stream_spec.document.names import (
    COLUMN_NAMES_SCHEMA,
    MILLISECONDS_OF,
    ColumnName,
    Duration,
    Expression,
    Name,
    Section,
    TableName,
    TablesPlace,
    Text,
    format_duration,
    refusal,
)
from sessionizer.stream_spec.document.rules import Mapping, Migration, Rules
from sessionizer.stream_spec.document.source import Source
from sessionizer.stream_spec.effect import (
    ANOTHER_STREAM,
    BESIDE_THE_STREAM,
    ChangesWithSource,
    FieldEffect,
    MeasureEffect,
    MigrationsEffect,
    Verdict,
)

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY: Final = f"(?:{'|'.join(DAYS)})"
WINDOW_PATTERN: Final = (
    rf"^(?:({_DAY}(?:-{_DAY})?(?:,{_DAY}(?:-{_DAY})?)*) )?"
    r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-4]):([0-5][0-9])(?: ([A-Za-z][A-Za-z0-9_+/-]*))?$"
)
WINDOW_ALLOWED: Final = (
    "days, times and a zone, such as 'Sun 03:00-05:00', 'Mon-Fri 22:00-01:00 Europe/Berlin' or '03:00-05:00' "
    "(every day, UTC)"
)
_LAST_MINUTE: Final = 24 * 60
_WEEK: Final = 7


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """Hours that return on ``days`` (0 is Monday), from ``start`` to ``end`` in minutes of the day in ``zone``.

    An ``end`` at or before ``start`` is on the next day.
    """

    days: frozenset[int]
    start: int
    end: int
    zone: ZoneInfo

    def open_until(self, now_ms: int) -> int | None:
        """Return when the window that is open at ``now_ms`` ends (epoch ms). None while it is closed."""
        return next((end for start, end in self._around(now_ms) if start <= now_ms < end), None)

    def next_start(self, now_ms: int) -> int:
        """Return when the next window after ``now_ms`` begins (epoch ms)."""
        return next(start for start, _ in self._around(now_ms) if start > now_ms)

    def _around(self, now_ms: int) -> Iterator[tuple[int, int]]:
        """Yield the windows of the days from yesterday to the same day of next week, as their starts and ends."""
        today = datetime.fromtimestamp(now_ms / 1000, self.zone).date()
        for day in (today + timedelta(days=offset) for offset in range(-1, _WEEK + 2)):
            if day.weekday() in self.days:
                midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001  the zone follows
                length = self.end - self.start if self.end > self.start else self.end - self.start + _LAST_MINUTE
                begin, end = (self._moment(midnight, self.start + after) for after in (0, length))
                # one that lies in the hour that the clocks leave out would have no length, or end before it begins
                yield begin, end if end > begin else begin + length * MINUTE

    def _moment(self, midnight: datetime, minutes: int) -> int:
        local = (midnight + timedelta(minutes=minutes)).replace(tzinfo=self.zone)
        return int(local.astimezone(UTC).timestamp() * 1000)


def parse_window(text: str) -> MaintenanceWindow:
    """Parse ``text`` such as ``Sun 03:00-05:00``. Refuses anything else, an unknown zone and a window of no length."""
    match = re.fullmatch(WINDOW_PATTERN.strip("^$"), text)
    if match is None:
        raise refusal(text, WINDOW_ALLOWED)
    listed, *times, zone = match.groups()
    hour, minute, end_hour, end_minute = map(int, times)
    start, end = 60 * hour + minute, 60 * end_hour + end_minute
    if end > _LAST_MINUTE or start == end:
        raise refusal(text, "an end at 24:00 at the latest, and not at the start")
    try:
        found = ZoneInfo(zone or "UTC")
    except (OSError, ValueError, KeyError):
        raise refusal(text, "a time zone that this machine knows, such as Europe/Berlin") from None
    return MaintenanceWindow(frozenset(_days(listed) if listed else range(_WEEK)), start, end, found)


def _days(listed: str) -> Iterator[int]:
    """Yield the numbers of the listed days. A span may go past Sunday."""
    for span in listed.split(","):
        first, _, last = span.partition("-")
        begin = DAYS.index(first)
        length = (DAYS.index(last or first) - begin) % _WEEK
        yield from ((begin + offset) % _WEEK for offset in range(length + 1))


def _require_window(text: str) -> str:
    parse_window(text)
    return text


Window: TypeAlias = Annotated[
    Text, AfterValidator(_require_window), Field(json_schema_extra={"pattern": WINDOW_PATTERN})
]


class UpgradePolicy(StrEnum):
    """Handling of a waiting upgrade in the maintenance window."""

    APPROVE = "approve"
    """A plan waits on the approval page. Without an answer before the window ends nothing is done."""
    APPLY = "apply"
    """It is carried out without a user, if open sessions lack nothing by it."""
    REFUSE = "refuse"
    """Nothing. Users are told of it, as always."""


class AtRestart(StrEnum):
    """Releases that a driver takes when it starts, without a command. Each value takes those of the one before, too."""

    SAME_CODE = "same_code"
    """A release with the same deciding code."""
    PATCH = "patch"
    """A release of the same line, such as 0.3.1 after 0.3.0."""
    ANY = "any"
    """Every release that can continue the lineage."""


class Upgrades(Section):
    """The handling of a changed spec or an installed release that waits for a command."""

    window: Window | None = Field(
        default=None,
        description="Hours in which a waiting upgrade may begin: days (optional), times, and a time zone (optional, "
        "else UTC). null: never by itself.",
        examples=["Sun 03:00-05:00", "Mon-Fri 22:00-01:00 Europe/Berlin"],
    )
    policy: UpgradePolicy | None = Field(
        default=None,
        strict=False,
        description="Handling in the window: approve (a user is asked for approval), apply (it is carried out if "
        "open sessions lack nothing), or refuse (users are only told). null: refuse.",
    )
    wave: int = Field(
        default=0,
        ge=0,
        le=99,
        description="Place among the streams whose windows are open: an upgrade begins once those of all lower waves "
        "are done.",
    )
    at_restart: AtRestart = Field(
        default=AtRestart.SAME_CODE,
        strict=False,
        description="Releases that a restarted driver takes without an upgrade: same_code (if no code differs that can "
        "change a row), patch (also 0.3.1 after 0.3.0), or any. For others it waits.",
    )
    prove: bool = Field(
        default=False,
        description="Whether an upgrade of the window is proven first: recorded batches are replayed, and nothing is "
        "changed if a row is unexplained.",
    )
    canary: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="Number of first batches of a new lineage that are compared with the lineage before. With a number "
        "an upgrade of the window always makes a new lineage. null: only if it needs one.",
    )
    roll_back_if_failed: bool = Field(
        default=False,
        description="Whether an upgrade of the window makes a new lineage and rolls back without asking, if that fails "
        "its canary.",
    )
    replay: bool = Field(
        default=False,
        description="Whether an upgrade of the window makes a new lineage while the stream runs. It is stopped for "
        "seconds, and reads again what came meanwhile.",
    )

    @model_validator(mode="after")
    def _has_a_window(self) -> Self:
        if self.begins_something and self.window is None:
            raise refusal(None, f"hours such as 'Sun 03:00-05:00', because policy is {self.policy}", "window")
        return self

    @property
    def begins_something(self) -> bool:
        """Whether the policy lets an upgrade begin in the window."""
        return self.policy in {UpgradePolicy.APPROVE, UpgradePolicy.APPLY}

    @property
    def hours(self) -> MaintenanceWindow | None:
        """The parsed window."""
        return None if self.window is None else parse_window(self.window)

    def open_until(self, now_ms: int) -> int | None:
        """Return when the open window ends (epoch ms). None while it is closed, or if there is none."""
        return None if self.hours is None else self.hours.open_until(now_ms)


MOST_KEY_GROUPS: Final = 32_768
WEEK: Final = 7 * MILLISECONDS_OF["day"]
OPEN_COLUMNS: Final = frozenset({"settled", "last_event_at", "due_at", "first_event_id", "as_of"})
"""Columns that the table ``open_sessions`` has and ``sessions`` has not."""


class Sink(Section):
    """The tables of the stream: sessions, quarantine, late_events."""

    keep_events: Annotated[bool, FieldEffect("sink changed", "it holds for sessions that end from now on")] = Field(
        default=True, description="Whether a session keeps its events, as an array of structs in the column events."
    )
    path: Annotated[
        TablesPlace | None,
        FieldEffect("sink moved", "rows of sessions that end from now on go there, the old tables stay"),
    ] = Field(
        default=None,
        description="Folder of the tables, relative to the platform home (SESSIONIZER_HOME) unless absolute or a URI. "
        "null: streams/<name>/tables.",
        examples=["lake/clicks"],
    )
    table: Annotated[
        TableName | None,
        FieldEffect("tables named", "the tables get the name from the next start on, an earlier name stays"),
    ] = Field(
        default=None,
        description="Name of the table sessions in Spark's catalog: schema.table or catalog.schema.table. The others "
        "have the same name and _quarantine, _late_events, _daily, _history and _open. The tables are at sink.path "
        "all the same. null: no name.",
        examples=["web.sessions"],
    )
    change_feed: Annotated[
        bool,
        FieldEffect(
            "change feed changed",
            "a driver turns it on when it starts, and never off, because readers follow it",
            plans_only=True,
        ),
    ] = Field(
        default=False,
        description="Whether a driver turns on Delta's change feed of sessions, quarantine and late_events when it "
        "starts. false: a feed that is on stays on.",
    )
    open_sessions_every_ms: Annotated[
        Duration | None,
        FieldEffect("open sessions shown otherwise", "the next driver writes the table open_sessions", plans_only=True),
    ] = Field(
        default=None,
        description="Time between two snapshots of the open sessions in the table open_sessions (duration), while "
        "batches come. null: no such table.",
        examples=["5 minutes"],
    )


class Savepoints(Section):
    """Automatic savepoints. They have no effect on the results, so a change of a field needs no new start."""

    every_ms: Duration | None = Field(
        default=None,
        description="Time between two scheduled savepoints (duration), while batches come. null: no scheduled "
        "savepoints.",
    )
    native: bool = Field(
        default=False,
        description="Whether scheduled savepoints are copies of the checkpoint's files: made in seconds, without "
        "Spark, for this line of Spark only.",
    )
    keep_ms: Duration = Field(
        default=WEEK,
        description="Age after which a scheduled savepoint is removed (duration). Those that users made stay.",
    )
    at_least: int = Field(
        default=3, ge=1, description="Number of the newest scheduled savepoints that are kept whatever their age."
    )


class Compaction(Section):
    """Automatic compaction. It has no effect on the results, so a change of a field needs no new start."""

    every_ms: Duration | None = Field(
        default=None,
        description="Time between two scheduled compactions (duration). null: none by schedule.",
    )
    keep_ms: Duration = Field(
        default=WEEK,
        description="Time for which old files of the tables and checkpoints of earlier lineages stay at least "
        "(duration), 1 hour or more. Readers of a table must be faster.",
    )

    @model_validator(mode="after")
    def _batches_are_written_in_time(self) -> Self:
        if self.keep_ms < HOUR:
            allowed = "at least 1 hour, because files that a batch is writing must not be deleted"
            raise refusal(format_duration(self.keep_ms), allowed, "keep")
        return self


class RowAges(Section):
    """Ages after which rows leave the tables, by compactions. It has no effect on what a batch makes."""

    sessions_ms: Duration | None = Field(
        default=None,
        description="Age of the first event (duration) after whose day a session leaves. null: it stays.",
        examples=["400 days"],
    )
    late_events_ms: Duration | None = Field(
        default=None,
        description="Age (duration) after whose day a late event leaves. null: it stays.",
    )
    quarantine_ms: Duration | None = Field(
        default=None,
        description="Time in quarantine (duration) after whose day a row leaves. null: it stays.",
        examples=["30 days"],
    )

    @model_validator(mode="after")
    def _is_a_day(self) -> Self:
        for name, kept_ms in self.ages.items():
            if kept_ms < MILLISECONDS_OF["day"]:
                raise refusal(format_duration(kept_ms), "at least 1 day, because rows leave by whole days", name)
        return self

    @property
    def ages(self) -> dict[str, int]:
        """Age in ms by the names of the tables whose rows leave."""
        found = {SESSIONS: self.sessions_ms, LATE_EVENTS: self.late_events_ms, QUARANTINE: self.quarantine_ms}
        return {name: kept_ms for name, kept_ms in found.items() if kept_ms is not None}


class StreamSpec(Section):
    """A stream: its source, the meaning of its rows, the end of its sessions, and its measures."""

    name: Annotated[
        Name, FieldEffect("stream renamed", "another name is another stream", Verdict.INCOMPATIBLE, ANOTHER_STREAM)
    ] = Field(description="Name of the stream, its folder and its DAGs. It must be the name of the file.")
    description: Annotated[str, BESIDE_THE_STREAM] = Field(
        default="", description="What the stream is for, in a sentence."
    )
    owner: Annotated[Text, BESIDE_THE_STREAM] = Field(
        default="unowned", description="Person or team that is responsible for the stream."
    )
    source: Annotated[Source, ChangesWithSource()] = Field(description="Where the events come from.")
    mapping: Annotated[Mapping, ChangesWithSource()] = Field(
        description="SQL expressions that make events of the source's rows."
    )
    rules: Rules = Field(default_factory=Rules, description="When a session ends, and how time is handled.")
    measures: Annotated[
        dict[ColumnName, Expression],
        MeasureEffect("measure", "sessions that end from now on have the new one, over all their events"),
    ] = Field(
        default_factory=dict,
        description="More columns of a session: name to SQL aggregate over its events' payload.",
        examples=[{"purchases": "count_if(type = 'purchase')"}],
        json_schema_extra=COLUMN_NAMES_SCHEMA,
    )
    sink: Sink = Field(default_factory=Sink, description="Where the results go.")
    savepoints: Annotated[Savepoints, BESIDE_THE_STREAM] = Field(
        default_factory=Savepoints, description="Scheduled savepoints."
    )
    compaction: Annotated[Compaction, BESIDE_THE_STREAM] = Field(
        default_factory=Compaction, description="Scheduled work that keeps the tables small."
    )
    retention: Annotated[RowAges, BESIDE_THE_STREAM] = Field(
        default_factory=RowAges, description="When rows leave the tables."
    )
    upgrades: Annotated[Upgrades, BESIDE_THE_STREAM] = Field(
        default_factory=Upgrades,
        description="When a changed spec or an installed release may be taken up by itself.",
    )
    migrations: Annotated[
        list[Migration],
        MigrationsEffect(
            "migrations removed",
            "their effect is in the state",
            command="upgrade {stream}",
            refused=" to migrate the open events into a new lineage",
        ),
    ] = Field(
        default_factory=list,
        description="Changes of the open events, each made once and in this order when a changed spec takes effect.",
    )
    key_groups: Annotated[
        int,
        FieldEffect(
            "key groups changed",
            "the state is divided anew",
            Verdict.MIGRATE,
            command="rescale {stream}",
            refused=", because key_groups of the state is {before}",
        ),
    ] = Field(
        default=16,
        ge=1,
        le=MOST_KEY_GROUPS,
        description="Number of shards of the keys, 1 to 32768, at least one per core. A change needs a rescale.",
    )
    trigger_interval_ms: Annotated[
        Duration, FieldEffect("trigger changed", "batches start at other times", plans_only=True), ChangesWithSource()
    ] = Field(default=10 * SECOND, description="Time between the starts of two batches (duration).")

    @model_validator(mode="after")
    def _event_time_is_mapped(self) -> Self:
        if self.rules.clock.has_watermark and self.mapping.event_time is None:
            allowed = f"a SQL expression of type timestamp, because rules.time_mode is {self.rules.clock}"
            raise refusal(None, allowed, "mapping", "event_time")
        return self

    @model_validator(mode="after")
    def _clients_are_mapped(self) -> Self:
        for key in ("client_timeouts", "client_timeouts_table"):
            if self.mapping.client is None and getattr(self.rules, key):
                raise refusal(None, f"a SQL expression, because rules.{key} is given", "mapping", "client")
        return self

    @model_validator(mode="after")
    def _sessions_can_end(self) -> Self:
        ends = (self.mapping.closes, self.rules.max_events, self.rules.max_duration_ms)
        if not self.rules.clock.has_gaps and all(end is None for end in ends):
            allowed = (
                "a SQL expression, because nothing else ends a session: "
                f"time_mode is {self.rules.clock} and both caps are null"
            )
            raise refusal(None, allowed, "mapping", "closes")
        return self

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        for name, expression in self.measures.items():
            if name in OPEN_COLUMNS and self.sink.open_sessions_every_ms is not None:
                raise refusal(expression, "Rename the measure, because open_sessions has that column", "measures", name)
            if name in self.mapping.payload:
                allowed = "Rename the measure, because a payload column has that name"
                raise refusal(expression, allowed, "measures", name)
        ids = [migration.id for migration in self.migrations]
        for number, name in enumerate(ids):
            if name in ids[:number]:
                raise refusal(name, "an id that no other migration has", "migrations", str(number), "id")
        return self
