"""Something upstream holds the events back: what is open closes, and what comes when it goes on is not late for it."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sessionizer.control.records.driver_records import HEARTBEAT_FILE
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import table_rows
from support.faults.bad_clicks import click
from support.places import opened
from support.processes.driver_process import DriverProcess
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

GAP_MS, EMIT_EVERY_MS, IDLE_AFTER_MS = 4_000, 1_000, 2_000
STALL_MS = 20_000


def spec_with_table(home: Path) -> dict[str, Any]:
    """A table of timeouts: its changes stay in the state when nothing is open any more."""
    timeouts = pa.table({"client": ["globex"], "timeout_ms": pa.array([GAP_MS])})
    write_deltalake(home / "timeouts", timeouts)
    spec = clicks_spec(
        files_per_batch=1_000,
        gap_timeout="4 seconds",
        watermark_delay="1 second",
        emit_every="1 second",
        idle_after="2 seconds",
        client_timeouts_table="timeouts",
    )
    return spec | {"trigger_interval": "1 second"}


def send(stage: Stage, *lines: str) -> None:
    name = f"{time.time_ns()}.json"
    hidden = stage.feed / f".{name}"
    hidden.write_text("\n".join(lines))
    hidden.rename(stage.feed / name)


def open_in_heartbeat(stage: Stage) -> int | None:
    beat = HEARTBEAT_FILE.of(stage.stream_home).read()
    return None if beat is None else beat.open_keys


def keys_of(stage: Stage, table: str) -> set[str]:
    folder = stage.table(table)
    return {row["key"] for row in table_rows(folder)} if opened(folder / "_delta_log").is_dir() else set()


@pytest.mark.long
def test_the_watermark_waits_where_the_last_open_session_ended(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, spec_with_table(tmp_path / "home"))
    with DriverProcess.start(stage, "a", until="stopped") as driver:
        began_ms = int(time.time() * 1000)
        send(stage, *(json.dumps(click(number, "ann", ts=began_ms)) for number in range(2)))
        driver.wait_for(lambda: bool(stage.lineage and CheckpointLog(stage.checkpoint).committed()), "a first batch")
        driver.wait_for(lambda: open_in_heartbeat(stage) == 1, "a session that is open before any group has merged")

        def nothing_but_rubbish() -> bool:
            """A source that brings only what is refused is quiet."""
            send(stage, "no JSON")
            return "ann" in keys_of(stage, "sessions")

        driver.wait_for(nothing_but_rubbish, "the session of ann, in spite of rows that are refused", every_s=0.5)
        driver.wait_for(lambda: open_in_heartbeat(stage) == 0, "nothing open")
        driver.wait_for(lambda: time.time() * 1000 > began_ms + STALL_MS, "the end of the stall")
        # what happened in the stall, from when the session of ann was over
        over_ms = began_ms + GAP_MS + EMIT_EVERY_MS
        moments = range(over_ms + 1, began_ms + STALL_MS, 1_000)
        send(stage, *(json.dumps(click(number, "bob", ts=at)) for number, at in enumerate(moments)))
        driver.wait_for(lambda: "bob" in keys_of(stage, "sessions"), "the session of bob")
    assert keys_of(stage, "late_events") == set()
    (session,) = [row for row in table_rows(stage.table("sessions")) if row["key"] == "bob"]
    assert session["event_count"] == len(moments)
