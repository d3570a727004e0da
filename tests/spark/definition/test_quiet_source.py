"""Sessions close though nothing comes any more, in each time mode, and soon: told by the moment each was emitted at.

``emitted_at`` is when the batch began that emitted a session, on the same clock as the arrival of its events.
"""

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sessionizer.control.records.driver_records import HEARTBEAT_FILE
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import epoch_ms, table_rows
from support.faults.bad_clicks import click
from support.places import opened
from support.processes.driver_process import DriverProcess
from support.streams.stage import Stage, clicks_spec

TRIGGER_MS = 1_000
EMIT_EVERY_MS = 1_000
GAP_MS = 4_000
SLOW_GAP_MS = 30_000
DELAY_MS = 1_000
IDLE_AFTER_MS = 2_000
BATCH_MS = 15_000
"""How long a batch may take on a busy machine: what is due while one runs has to wait for the next."""


def quiet_spec(time_mode: str, **rules: Any) -> dict[str, Any]:
    spec = clicks_spec(
        time_mode=time_mode,
        gap_timeout="4 seconds",
        client_timeouts={"slow": "30 seconds"},
        watermark_delay="1 second",
        emit_every="1 second",
        **rules,
    )
    return spec | {"trigger_interval": "1 second"}


def send(stage: Stage, *clicks: dict[str, Any]) -> None:
    now_ms = int(time.time() * 1000)
    name = f"{now_ms}.json"
    hidden = stage.feed / f".{name}"
    hidden.write_text("\n".join(json.dumps(columns | {"ts": now_ms}) for columns in clicks))
    hidden.rename(stage.feed / name)


def warm_up(driver: DriverProcess, stage: Stage) -> None:
    """Have a first batch behind it, which takes longer than any other."""
    send(stage, click(1, "warm"))
    driver.wait_for(lambda: bool(stage.lineage and CheckpointLog(stage.checkpoint).committed()), "a first batch")


def emitted(stage: Stage) -> dict[str, dict[str, int]]:
    """The sessions so far by key: their end, and the moment of their emission, in epoch ms."""
    if not opened(stage.table("sessions") / "_delta_log").is_dir():
        return {}
    rows = table_rows(stage.table("sessions"))
    return {row["key"]: {"ended": epoch_ms(row["ended_at"]), "at": epoch_ms(row["emitted_at"])} for row in rows}


def lag_ms(stage: Stage, key: str, gap_ms: int) -> int:
    session = emitted(stage)[key]
    return session["at"] - session["ended"] - gap_ms


@pytest.mark.long
def test_event_time_goes_on_by_itself_even_over_a_restart(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, quiet_spec("event_time", idle_after="2 seconds"))
    with DriverProcess.start(stage, "a", until="stopped") as driver:
        warm_up(driver, stage)
        send(stage, click(1, "ann"), click(1, "bob", client="slow"))
        driver.wait_for(lambda: "ann" in emitted(stage), "the session of ann")
        driver.kill_all()
    assert "bob" not in emitted(stage)
    with DriverProcess.start(stage, "b", until="stopped") as driver:
        driver.wait_for(lambda: "bob" in emitted(stage), "the session of bob, though it never saw an event")

    # the watermark is behind by the delay, and moves in steps of emit_every, a trigger apart
    steps_ms = DELAY_MS + 2 * EMIT_EVERY_MS + 2 * TRIGGER_MS
    assert 0 <= lag_ms(stage, "ann", GAP_MS) <= IDLE_AFTER_MS + steps_ms + BATCH_MS
    assert lag_ms(stage, "bob", SLOW_GAP_MS) >= 0


@pytest.mark.long
def test_processing_time_closes_within_the_gap_and_a_trigger(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, quiet_spec("processing_time"))
    with DriverProcess.start(stage, "a", until="stopped") as driver:
        warm_up(driver, stage)
        send(stage, click(1, "ann"), click(2, "ann"), click(1, "bob"))
        driver.wait_for(lambda: {"ann", "bob"} <= emitted(stage).keys(), "both sessions")
    for key in ("ann", "bob"):
        assert 0 <= lag_ms(stage, key, GAP_MS) <= EMIT_EVERY_MS + TRIGGER_MS + BATCH_MS


@pytest.mark.long
def test_without_a_timeout_what_is_closed_comes_out_and_the_rest_stays(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, quiet_spec("none", max_events=2))
    with DriverProcess.start(stage, "a", until="stopped") as driver:
        warm_up(driver, stage)
        send(stage, click(1, "ann", type="logout"), click(1, "bob"), click(2, "bob"), click(1, "cy"))
        driver.wait_for(lambda: {"ann", "bob"} <= emitted(stage).keys(), "what is closed")
        reached = {key: lag_ms(stage, key, 0) for key in ("ann", "bob")}
    assert all(0 <= lag <= EMIT_EVERY_MS + TRIGGER_MS + BATCH_MS for lag in reached.values()), reached
    assert "cy" not in emitted(stage)


GAP_MS_STALLED, EMIT_EVERY_MS_STALLED, IDLE_AFTER_MS_STALLED = 4_000, 1_000, 2_000
STALL_MS = 20_000


def spec_with_table(home: Path) -> dict[str, Any]:
    """A table of timeouts: its changes stay in the state when nothing is open any more."""
    timeouts = pa.table({"client": ["globex"], "timeout_ms": pa.array([GAP_MS_STALLED])})
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


def send_and_stall(stage: Stage, *lines: str) -> None:
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
        send_and_stall(stage, *(json.dumps(click(number, "ann", ts=began_ms)) for number in range(2)))
        driver.wait_for(lambda: bool(stage.lineage and CheckpointLog(stage.checkpoint).committed()), "a first batch")
        driver.wait_for(lambda: open_in_heartbeat(stage) == 1, "a session that is open before any group has merged")

        def nothing_but_rubbish() -> bool:
            """A source that brings only what is refused is quiet."""
            send_and_stall(stage, "no JSON")
            return "ann" in keys_of(stage, "sessions")

        driver.wait_for(nothing_but_rubbish, "the session of ann, in spite of rows that are refused", every_s=0.5)
        driver.wait_for(lambda: open_in_heartbeat(stage) == 0, "nothing open")
        driver.wait_for(lambda: time.time() * 1000 > began_ms + STALL_MS, "the end of the stall")
        # what happened in the stall, from when the session of ann was over
        over_ms = began_ms + GAP_MS_STALLED + EMIT_EVERY_MS_STALLED
        moments = range(over_ms + 1, began_ms + STALL_MS, 1_000)
        send_and_stall(stage, *(json.dumps(click(number, "bob", ts=at)) for number, at in enumerate(moments)))
        driver.wait_for(lambda: "bob" in keys_of(stage, "sessions"), "the session of bob")
    assert keys_of(stage, "late_events") == set()
    (session,) = [row for row in table_rows(stage.table("sessions")) if row["key"] == "bob"]
    assert session["event_count"] == len(moments)
