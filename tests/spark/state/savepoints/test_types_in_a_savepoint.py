"""Every type that a payload can have comes back from the tables of a savepoint as it was in the state."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.core.definition.plain_values import format_value, plain_values
from sessionizer.core.wire.alignment import unfit
from sessionizer.deployment.running_spec import new_record
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import OPEN_EVENTS
from sessionizer.lineage.kept_spec import write_lineage_spec
from sessionizer.spark.state.open_events import KeptState, open_event_schema, read_open_events, reading_state
from sessionizer.spark.state.savepoints.canonical_tables import savepoint_table
from sessionizer.spark.state.savepoints.savepoint import make_savepoint
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.savepoints.listing import savepoint_of
from sessionizer.state.savepoints.savepoint_writer import SavepointRequest
from support.processes.in_process import catch_up
from support.streams.payload_sql import as_sql
from support.streams.payloads import CATALOGUE
from support.streams.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

# the first and the last that readers have a value for: others are quarantined
EXTREMES = {
    "last_instant": "timestamp_micros(253402300799999999)",
    "first_instant": "timestamp_micros(-62135596800000000)",
    "last_day": "date_from_unix_date(2932896)",
    "first_day": "date_from_unix_date(-719162)",
}
EVENTS = 4


def spec(step: int) -> dict[str, Any]:
    """The payload with the first or the last type of each of its columns."""
    typed = {column.name: as_sql(column.name, column.types[step], "n") for column in CATALOGUE}
    return {
        "source": {
            "format": "files", "path": "feed", "encoding": "json",
            "columns": "user_id string, ts bigint, event_id string, n int",
        },
        "mapping": {
            "key": "user_id", "event_time": "timestamp_millis(ts)", "event_id": "event_id",
            "payload": typed | EXTREMES,
        },
        "rules": {"watermark_delay": "10 seconds", "gap_timeout": "30 seconds", "emit_every": "5 seconds"},
        "key_groups": 2,
        "sink": {"path": f"tables of step {step}"},  # a table does not widen its columns by itself
    }  # fmt: skip


def send(stage: Stage, name: str) -> None:
    """Events that each have other values, for several keys at one time."""
    rows = [
        {"user_id": f"u{number % 2}", "ts": 1_750_000_000_000, "event_id": f"{name}{number}", "n": number}
        for number in range(EVENTS)
    ]
    (stage.feed / f"{name}.json").write_text("\n".join(map(json.dumps, rows)) + "\n")


@pytest.fixture
def stage(spark: SparkSession, tmp_path: Path) -> Stage:
    """A stream whose payload took other types on its way."""
    stage = Stage.set_up(tmp_path, spec(0))
    send(stage, "early")
    catch_up(spark, stage)
    stage.write_spec(spec(-1))
    send(stage, "late")
    catch_up(spark, stage)
    assert stage.lineage
    write_lineage_spec(stage.stream_home, stage.lineage, new_record(stage.stream_home, stage.spec()))
    return stage


def test_the_tables_have_what_the_state_has(spark: SparkSession, stage: Stage) -> None:
    home, committed = stage.stream_home, read_committed_batch(stage.stream_home)
    events = open_event_schema(committed.kept)
    state = KeptState(stage.checkpoint, committed.batch_id, 2, events)
    with reading_state(spark):
        expected = as_text(read_open_events(spark, state).toArrow())
    make_savepoint(spark, home, committed, SavepointRequest(home.savepoints, "tests", "a"), lambda _: None)
    saved = savepoint_table(spark, savepoint_of(home.savepoints, "a", epoch_ms()).home, OPEN_EVENTS).toArrow()
    assert as_text(saved) == expected
    assert len(saved) == 2 * EVENTS
    assert all(saved.column(f"payload_{name}").null_count < len(saved) for name in columns())
    # what comes next in the stream still goes together with it
    assert not any(
        unfit(events.field(f"payload_{name}").type, saved.field(f"payload_{name}").type) for name in columns()
    )


def columns() -> list[str]:
    return [*(column.name for column in CATALOGUE), *EXTREMES]


def as_text(rows: pa.Table) -> dict[str, list[str]]:
    """Each column in the order of the events' ids."""
    ordered = rows.sort_by("event_id")
    return {
        name: [format_value(value) for value in plain_values(ordered.column(name))] for name in ordered.column_names
    }
