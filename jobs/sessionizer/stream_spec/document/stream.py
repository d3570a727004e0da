"""The stream spec: the full description of a stream."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from sessionizer.home.clock import HOUR, SECOND
from sessionizer.stream_spec.document.duration import MILLISECONDS_OF, Duration, format_duration
from sessionizer.stream_spec.document.mapping import Mapping
from sessionizer.stream_spec.document.migration import Migration, check_unique_ids
from sessionizer.stream_spec.document.names import (
    COLUMN_NAMES_SCHEMA,
    ColumnName,
    Expression,
    Name,
    Place,
    TableName,
    Text,
)
from sessionizer.stream_spec.document.rules import Rules
from sessionizer.stream_spec.document.section import Section, refusal
from sessionizer.stream_spec.document.source import Source
from sessionizer.stream_spec.document.upgrades import Upgrades
from sessionizer.stream_spec.effect import (
    ANOTHER_STREAM,
    BESIDE_THE_STREAM,
    ChangesWithSource,
    Effect,
    MeasureEffect,
    MigrationsEffect,
    Verdict,
)

MOST_KEY_GROUPS: Final = 32_768
WEEK: Final = 7 * MILLISECONDS_OF["day"]


class Sink(Section):
    """The tables of the stream: sessions, quarantine, late_events."""

    keep_events: Annotated[bool, Effect("sink changed", "it holds for sessions that end from now on")] = Field(
        default=True,
        description="Whether a session keeps its events, as an array of structs in the column events.",
    )
    path: Annotated[
        Place | None, Effect("sink moved", "rows of sessions that end from now on go there, the old tables stay")
    ] = Field(
        default=None,
        description="Folder of the tables, relative to the platform home (SESSIONIZER_HOME) unless absolute or a URI. "
        "null: streams/<name>/tables.",
        examples=["lake/clicks"],
    )
    table: Annotated[
        TableName | None,
        Effect("tables named", "the tables get the name from the next start on, an earlier name stays"),
    ] = Field(
        default=None,
        description="Name of the table sessions in Spark's catalog: schema.table or catalog.schema.table. The others "
        "have the same name and _quarantine, _late_events, _daily and _history. The tables are at sink.path all the "
        "same. null: no name.",
        examples=["web.sessions"],
    )


class Savepoints(Section):
    """Automatic savepoints. They have no effect on the results, so a change of a field needs no new start."""

    every_ms: Duration | None = Field(
        default=None,
        alias="every",
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
        alias="keep",
        description="Age after which a scheduled savepoint is removed (duration). Those that users made stay.",
    )
    at_least: int = Field(
        default=3,
        ge=1,
        description="Number of the newest scheduled savepoints that are kept whatever their age.",
    )


class Compaction(Section):
    """Automatic compaction. It has no effect on the results, so a change of a field needs no new start."""

    every_ms: Duration | None = Field(
        default=None,
        alias="every",
        description="Time between two scheduled compactions (duration). null: none by schedule.",
    )
    keep_ms: Duration = Field(
        default=WEEK,
        alias="keep",
        description="Time for which old files of the tables and checkpoints of earlier lineages stay at least "
        "(duration), 1 hour or more. Readers of a table must be faster.",
    )

    @model_validator(mode="after")
    def _batches_are_written_in_time(self) -> Self:
        if self.keep_ms < HOUR:
            allowed = "at least 1 hour, because files that a batch is writing must not be deleted"
            raise refusal(format_duration(self.keep_ms), allowed, "keep")
        return self


class StreamSpec(Section):
    """A stream: its source, the meaning of its rows, the end of its sessions, and its measures."""

    name: Annotated[
        Name, Effect("stream renamed", "another name is another stream", Verdict.INCOMPATIBLE, ANOTHER_STREAM)
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
    rules: Rules = Field(
        default_factory=lambda: Rules.model_validate({}),
        description="When a session ends, and how time is handled.",
    )
    measures: Annotated[
        dict[ColumnName, Expression],
        MeasureEffect("measure", "sessions that end from now on have the new one, over all their events"),
    ] = Field(
        default_factory=dict,
        description="More columns of a session: name to SQL aggregate over its events' payload.",
        examples=[{"purchases": "count_if(type = 'purchase')"}],
        json_schema_extra=COLUMN_NAMES_SCHEMA,
    )
    sink: Sink = Field(
        default_factory=lambda: Sink.model_validate({}),
        description="Where the results go.",
    )
    savepoints: Annotated[Savepoints, BESIDE_THE_STREAM] = Field(
        default_factory=lambda: Savepoints.model_validate({}),
        description="Scheduled savepoints.",
    )
    compaction: Annotated[Compaction, BESIDE_THE_STREAM] = Field(
        default_factory=lambda: Compaction.model_validate({}),
        description="Scheduled work that keeps the tables small.",
    )
    upgrades: Annotated[Upgrades, BESIDE_THE_STREAM] = Field(
        default_factory=lambda: Upgrades.model_validate({}),
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
        Effect(
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
        Duration, Effect("trigger changed", "batches start at other times", plans_only=True), ChangesWithSource()
    ] = Field(
        default=10 * SECOND,
        alias="trigger_interval",
        description="Time between the starts of two batches (duration).",
    )

    @model_validator(mode="after")
    def _event_time_is_mapped(self) -> Self:
        if self.rules.clock.has_watermark and self.mapping.event_time is None:
            allowed = f"a SQL expression of type timestamp, because rules.time_mode is {self.rules.clock}"
            raise refusal(None, allowed, "mapping", "event_time")
        return self

    @model_validator(mode="after")
    def _clients_are_mapped(self) -> Self:
        if self.mapping.client is None:
            for key in ("client_timeouts", "client_timeouts_table"):
                if getattr(self.rules, key):
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
            if name in self.mapping.payload:
                raise refusal(
                    expression, "Rename the measure, because a payload column has that name", "measures", name
                )
        return self

    @model_validator(mode="after")
    def _migrations_are_told_apart(self) -> Self:
        check_unique_ids(self.migrations)
        return self
