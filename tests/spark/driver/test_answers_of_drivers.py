"""A live driver answers a question about a key's open sessions as a look into its state does."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from sessionizer.cli.inspect.batch_state import BatchState
from sessionizer.control.records.driver_records import HEARTBEAT_FILE, QUESTION_FILE
from sessionizer.control.records.process_records import EXIT_FILE, ExitOutcome, request_stop
from sessionizer.fleet.lookup.ask import ask_driver
from sessionizer.home.control_store import record_names
from sessionizer.spark.driver.driver_loop import drive
from sessionizer.spark.driver.options import DriverOptions, Until
from sessionizer.state.lineages.retained import find_retained_batch
from sessionizer.stream_spec.spec_folder import SpecFile
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession


def test_a_driver_answers_while_it_runs(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec())
    write_click_files(stage.feed, 4)
    home = stage.stream_home
    monkeypatch.setattr(type(spark), "stop", lambda _: None)  # the test goes on with the driver's Spark
    asked: list[tuple[str, dict[str, Any] | None]] = []

    def ask_and_stop() -> None:
        try:
            key = heaviest_key(stage)
            asked.extend((each, ask_driver(home, each, within_s=60)) for each in (key, "nobody"))
        finally:
            request_stop(home, "a", "a test")

    asker = threading.Thread(target=ask_and_stop)
    asker.start()
    options = DriverOptions(uid="a", master="local[2]", until=Until.STOPPED)
    drive(home, SpecFile(stage.name, stage.spec()), options, lambda _: None)
    asker.join()
    (key, found), (_, nobody) = asked
    assert found is not None
    assert nobody is not None
    assert (found["error"], nobody["error"], nobody["sessions"]) == (None, None, [])
    shown, _ = BatchState.of(spark, find_retained_batch(home, found["batch_id"], found["lineage"])).key(key)
    assert (found["key_group"], found["sessions"]) == (shown["key_group"], shown["sessions"])
    assert found["sessions"][0]["would_close_reason"]
    assert record_names(QUESTION_FILE.folder(home)) == []
    ended = EXIT_FILE.of(home, "a").require()
    assert ended is not None
    assert ended.outcome is ExitOutcome.STOPPED


def heaviest_key(stage: Stage) -> str:
    """The key of the largest open session, when the driver has seen some."""
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        beat = HEARTBEAT_FILE.of(stage.stream_home).read()
        if beat is not None and beat.heaviest_keys and beat.batch_id is not None:
            return beat.heaviest_keys[0].key
        time.sleep(0.1)
    raise AssertionError("the driver named no key")
