"""The stream spec: the full description of a stream."""

from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from sessionizer.home.clock import HOUR, SECOND
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
from sessionizer.stream_spec.document.upgrades import Upgrades
from sessionizer.stream_spec.effect import (
    ANOTHER_STREAM,
    BESIDE_THE_STREAM,
    ChangesWithSource,
    FieldEffect,
    MeasureEffect,
    MigrationsEffect,
    Verdict,
)

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
