"""A log through real drivers' queries and Delta tables, with another spec for each of them; and what the tables hold.

Values are compared as text (``plain_values.format_value``), as Python has no word for some of them.
"""

import json
import random
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_type

from sessionizer.core.definition.event import Batch
from sessionizer.core.definition.oracle import sessionize
from sessionizer.core.definition.outcome import Outcome, Session
from sessionizer.core.definition.plain_values import plain_values
from sessionizer.core.definition.rules import SessionRules
from sessionizer.home.roots import uri_of
from sessionizer.lineage.active import start_lineage
from support.expected.checkpoint_log import CheckpointLog
from support.processes.in_process import catch_up
from support.streams.payloads import COLUMNS as PAYLOADS
from support.streams.payloads import fitting, shown
from support.streams.plain_rows import event_of_oracle, event_of_record, late_facts, session_facts
from support.streams.stage import Stage
from support.streams.strategies import NUMBER_AS_SQL, ChangingSpec, Log, shown_by
from support.streams.streamed_log import COLUMNS, MAPPING, Feed, batches_that_bring_something, written_rules

Rows: TypeAlias = "Counter[tuple[Any, ...]]"
Record: TypeAlias = "dict[str, Any]"
TABLES = ("sessions", "late_events", "quarantine")
MEASURE = "count_of_"


@dataclass(frozen=True, slots=True)
class Edition:
    """What a spec says while one driver runs. ``measured``: the columns whose values are counted."""

    rules: SessionRules
    payload: tuple[pa.Field, ...]
    measured: tuple[str, ...]

    def measures(self) -> dict[str, str]:
        return {MEASURE + name: f"count({name})" for name in self.measured}


@dataclass(frozen=True, slots=True)
class Told:
    """A stream when it is over: ``batches``, what its drivers were really given, and the edition of each."""

    editions: list[Edition]
    batches: list[Batch]
    edition_of: list[Edition]
    rows: dict[str, list[Record]]

    def outcome(self) -> Outcome:
        return sessionize(self.batches, self.editions[0].rules)


def tell(spark: SparkSession, log: Log, seed: int, drivers: int, root: Path) -> Told:
    """Stream ``log``, whose last batch drains, by at most so many drivers under ``root``, an empty folder."""
    brought = batches_that_bring_something(log)
    size = -(-len(brought) // drivers)
    shares = [brought[start : start + size] for start in range(0, len(brought), size)]
    editions = editions_of(log.rules, len(shares), random.Random(seed))
    stage = Stage.set_up(root, spec_of(editions[0]))
    stage.stream_home.prepare()
    feed = Feed(brought, stage.home)
    feed.punctuations = stage.stream_home.punctuations(start_lineage(stage.stream_home))
    checkpoint, ends = CheckpointLog(stage.checkpoint), []
    for edition, share in zip(editions, shares, strict=True):
        stage.write_spec(spec_of(edition))
        for _ in share:
            feed.write_next()
        catch_up(spark, stage)
        allow_wider_types(spark, stage)
        ends.append(len(checkpoint.committed()))
    edition_of = [editions[bisect_right(ends, number)] for number in range(ends[-1])]
    committed = zip(checkpoint.committed(), edition_of, strict=True)
    batches = [given(feed.batch_of(batch.files, batch.at_ms), edition) for batch, edition in committed]
    return Told(editions, batches, edition_of, {name: records_of(spark, uri_of(stage.table(name))) for name in TABLES})


def editions_of(rules: SessionRules, count: int, chance: random.Random) -> list[Edition]:
    """The spec of each driver. A spec knows no delay of zero."""
    spec, found = ChangingSpec(rules, chance), []
    for _ in range(count):
        measured = tuple(field.name for field in spec.payload if chance.random() < 0.6)
        delay_ms = max(1, spec.rules.watermark_delay_ms)
        found.append(Edition(replace(spec.rules, watermark_delay_ms=delay_ms), spec.payload, measured))
        spec.change()
    return found


def spec_of(edition: Edition) -> Record:
    payload = {field.name: as_sql(field.name, field.type, NUMBER_AS_SQL) for field in edition.payload}
    return {
        "source": {"format": "files", "path": "events", "encoding": "json", "columns": COLUMNS},
        "mapping": {**MAPPING, "payload": payload},
        "measures": edition.measures(),
        "rules": written_rules(edition.rules, emit_every_ms=7),
        "key_groups": 2,
    }


def as_sql(name: str, kind: pa.DataType, number: str) -> str:
    """The value of the catalogue's column ``name`` that ``number``, an SQL expression, picks: null first."""
    values = [_literal(fitting(value, kind), kind) for value in (None, *PAYLOADS[name].values)]
    return f"element_at(array({', '.join(values)}), {number} % {len(values)} + 1)"


def _literal(value: Any, kind: pa.DataType) -> str:
    return f"cast({_bare_literal(value, kind)} as {from_arrow_type(kind, prefer_timestamp_ntz=True).simpleString()})"


def _bare_literal(value: Any, kind: pa.DataType) -> str:
    if pa.types.is_struct(kind) and value is not None:
        return _call("named_struct", *(f"'{field.name}', {_literal(value[field.name], field.type)}" for field in kind))
    if pa.types.is_map(kind) and value is not None:
        entries = (f"{_literal(key, kind.key_type)}, {_literal(part, kind.item_type)}" for key, part in value)
        return _call("map", *entries)
    if pa.types.is_list(kind) and value is not None:
        return _call("array", *(_literal(part, kind.value_type) for part in value))
    return "null" if value is None else _bare_scalar(value, kind)


def _bare_scalar(value: Any, kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return _call("timestamp_micros", str(value))
    if pa.types.is_date(kind):
        return _call("date_from_unix_date", str(value))
    if isinstance(value, str | bytes):
        return _call("unhex", repr((value.encode() if isinstance(value, str) else value).hex()))
    return f"'{value}'"


def _call(function: str, *arguments: str) -> str:
    return f"{function}({', '.join(arguments)})"


def allow_wider_types(spark: SparkSession, stage: Stage) -> None:
    """As an owner of tables does before a column's type becomes wider."""
    for name in TABLES[:2]:
        table = f"delta.`{uri_of(stage.table(name))}`"
        spark.sql(f"alter table {table} set tblproperties ('delta.enableTypeWidening' = 'true')")


def given(batch: Batch, edition: Edition) -> Batch:
    events = tuple(shown_by(edition.payload, event) for event in batch.events)
    return replace(batch, events=events, rules=edition.rules)


def records_of(spark: SparkSession, table: str) -> list[Record]:
    found = spark.read.format("delta").load(table).toArrow()
    columns = {name: plain_values(found.column(name)) for name in found.schema.names}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


# As it is and as it must be


def assert_as_defined(told: Told) -> None:
    """The tables hold what the definition makes of the batches, of which the last one drains."""
    outcome = told.outcome()
    assert not outcome.open_events, "the last batch drains"
    assert sessions_in(told) == sessions_defined(told, outcome)
    assert late_in(told) == late_defined(outcome)
    assert conflicts_in(told) == conflicts_defined(outcome)


def sessions_in(told: Told) -> Rows:
    arrivals = {batch.arrived_at_ms for batch in told.batches}
    names = sorted({MEASURE + name for edition in told.editions for name in edition.measured})
    return Counter(
        (
            *(row[name] for name in ("session_id", "key", "client")),
            *(row[name] // 1000 for name in ("started_at", "ended_at")),
            *(row[name] for name in ("event_count", "close_reason")),
            tuple(event_in(event, arrivals) for event in row["events"]),
            tuple((name, row[name]) for name in names),
        )
        for row in told.rows["sessions"]
    )


def event_in(event: Record, arrivals: set[int]) -> tuple[Any, ...]:
    """An event without a time of its own is shown at its arrival."""
    at_ms = event["event_time"] // 1000
    ours = ("event_time", "event_id", "closes")
    payload = {name: value for name, value in event.items() if name not in ours}
    return (None if at_ms in arrivals else at_ms, event["event_id"], event["closes"], shown(payload))


def sessions_defined(told: Told, outcome: Outcome) -> Rows:
    """Each by the edition of the driver that emitted it: that is for the driver to choose, the rest is not."""
    emitted_by = {row["session_id"]: told.edition_of[row["batch_id"]] for row in told.rows["sessions"]}
    names = sorted({MEASURE + name for edition in told.editions for name in edition.measured})
    return Counter(
        session_defined(session, emitted_by.get(session.session_id, told.editions[-1]), names)
        for session in outcome.closed
    )


def session_defined(session: Session, edition: Edition, measures: list[str]) -> tuple[Any, ...]:
    kept = {field.name for field in edition.payload}
    counts = {
        MEASURE + name: sum(event.named_payload.get(name) is not None for event in session.events)
        for name in edition.measured
        if name in kept
    }
    return (
        *session_facts(session),
        tuple(
            (event.event_time_ms, event.event_id, event.closes, shown(event.named_payload, edition.payload))
            for event in session.events
        ),
        tuple((name, counts.get(name)) for name in measures),
    )


def late_in(told: Told) -> Rows:
    ours = ("key", "client", "event_time", "event_id", "closes", "timeout_ms", "date", "lineage", "batch_id")
    return Counter(
        (
            *(row["key"], row["client"], row["event_time"] // 1000, row["event_id"], row["closes"], row["timeout_ms"]),
            shown({name: value for name, value in row.items() if name not in (*ours, "noticed_at")}),
        )
        for row in told.rows["late_events"]
    )


def late_defined(outcome: Outcome) -> Rows:
    """A late event is shown by the edition it came under."""
    return Counter((*late_facts(event), shown(event.named_payload)) for event in outcome.late)


def conflicts_in(told: Told) -> Rows:
    """The table ``quarantine``: each row must be there for being a conflicting duplicate."""
    assert {row["reason"] for row in told.rows["quarantine"]} <= {"conflicting_duplicate"}
    return Counter(event_of_record(json.loads(row["raw"]))[:5] for row in told.rows["quarantine"])


def conflicts_defined(outcome: Outcome) -> Rows:
    return Counter(event_of_oracle(event)[:5] for event in outcome.conflicting)
