"""The Delta table of the clients' timeouts changes while the stream runs, and drivers are killed: the new value holds
from the next event on, in every replay."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sessionizer_demo.feed.generator import Row
from sessionizer_demo.feed.rows.kinds import RowKind
from sessionizer_demo.feed.traffic.events import ClickEvent
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import assert_as_defined, table_rows
from support.faults.bad_clicks import START_MS
from support.processes.driver_process import DriverProcess, run_to_end
from support.streams.moments import Moment, freeze_at
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ANNOUNCED = "timeouts changed from the next event on"


def set_timeouts(stage: Stage, timeouts_s: dict[str, int]) -> None:
    """The table as a whole, in one commit."""
    timeouts = pa.array([seconds * 1_000 for seconds in timeouts_s.values()], pa.int64())
    table = pa.table({"client": pa.array(list(timeouts_s), pa.string()), "timeout_ms": timeouts})
    write_deltalake(stage.home / "timeouts", table, mode="overwrite")


def row(second: int, user: str, client: str) -> Row:
    event = ClickEvent(f"{user}-{second}", user, client, START_MS + second * 1_000, "view", "/", 1.0, "tv", None)
    columns = {name: getattr(event, name) for name in ("event_id", "user_id", "client", "ts", "type", "page")}
    columns |= {"amount": event.amount, "device": event.device, "timeout_s": None}
    return Row(event.ts, RowKind.NORMAL, user, json.dumps(columns).encode(), event)


def write(stage: Stage, name: str, seconds: Iterable[int]) -> tuple[Row, ...]:
    """A file in which ann of acme and bob of globex click at these seconds."""
    rows = tuple(
        row(second, user, client) for second in seconds for user, client in (("ann", "acme"), ("bob", "globex"))
    )
    hidden = stage.feed / f".{name}"
    hidden.write_bytes(b"\n".join(each.value for each in rows))
    hidden.rename(stage.feed / name)
    return rows


def read(stage: Stage, name: str) -> bool:
    """Whether a batch with the file is committed."""
    return any(name in batch.files for batch in CheckpointLog(stage.checkpoint).committed())


@pytest.mark.long
def test_a_new_timeout_holds_from_the_next_event_on_and_in_every_replay(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec(client_timeouts_table="timeouts", idle_after=None))
    told = [{"acme": 10_000, "globex": 20_000}, {"acme": 60_000}, {"acme": 5_000, "globex": 30_000}]
    files = {}
    set_timeouts(stage, {"acme": 10, "globex": 20})
    with DriverProcess.start(stage, "a", until="stopped") as driver:
        files["1.json"] = write(stage, "1.json", (0, 8))
        driver.wait_for(lambda: stage.lineage is not None and read(stage, "1.json"), "the first file")
        set_timeouts(stage, {"acme": 60, "globex": 20})
        driver.wait_for_line(ANNOUNCED)
        files["2.json"] = write(stage, "2.json", (16, 24))
        # killed with the new timeout in the tables of no batch, or of one that is not committed
        freeze_at(Moment.BATCH_RUNS, driver, stage)
        driver.kill_all()
    with DriverProcess.start(stage, "b", until="stopped") as driver:
        driver.wait_for(lambda: read(stage, "2.json"), "the second file")
        # globex leaves the table: the stream's own timeout holds again
        set_timeouts(stage, {"acme": 5})
        driver.wait_for_line(ANNOUNCED)
        files["3.json"] = write(stage, "3.json", (70, 78, 95))
        driver.wait_for(lambda: read(stage, "3.json"), "the third file")
        driver.kill_all()
    run_to_end(stage, "c")

    names = sorted(name for batch in CheckpointLog(stage.checkpoint).committed() for name in batch.files - files.keys())
    assert len(names) == len(told) + 1, "three changes and a drain"
    assert_as_defined(stage, files, dict(zip(names, told, strict=False)))
    seen = [(session["key"], session["event_count"]) for session in table_rows(stage.table("sessions"))]
    assert sorted(seen) == [("ann", 1), ("ann", 1), ("ann", 5), ("bob", 3), ("bob", 4)]
