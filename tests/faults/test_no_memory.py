"""A driver whose heap is too small: what it leaves; and one whose heap is small, but not for what a batch may take."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from sessionizer.control.records.process_records import EXIT_FILE
from sessionizer.errors import DiskFull, QueryInterrupted, TransientError
from sessionizer.fleet.finding import HealthWord
from sessionizer.fleet.streams import view_spec
from sessionizer.home.roots import uri_of
from support.expected.landed import assert_as_defined
from support.faults.small_disk import fill
from support.processes.driver_process import DriverProcess, run_to_end
from support.streams.click_files import FIRST_EVENT_MS, many_clicks_spec, write_click_files
from support.streams.moments import Moment, freeze_at
from support.streams.stage import Stage, clicks_spec

USERS, EVENTS, PAGE_CHARACTERS = 8_000, 800_000, 400
SMALL_HEAP = "512m"


@pytest.mark.usefixtures("tuned")
@pytest.mark.long
def test_a_driver_without_memory_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", SMALL_HEAP)
    spec = clicks_spec()
    spec["mapping"]["payload"] = {"page": "repeat(left(page, 1), 1500000000)"}
    stage = Stage.set_up(tmp_path, spec)
    write_click_files(stage.feed, 1)
    with DriverProcess.start(stage, "a") as driver:
        assert driver.wait() == QueryInterrupted.exit_code, driver.said[-4_000:]
        assert "the driver more memory" in driver.said
    ended = EXIT_FILE.of(stage.stream_home, "a").read()
    assert ended
    assert (ended.error_type, ended.terminal) == ("memory", False), ended.message
    assert "java.lang.OutOfMemoryError" in (ended.message or "")
    assert view_spec(stage.spec(), stage.home).health.word is HealthWord.DOWN


@pytest.mark.long
def test_a_batch_may_close_more_than_the_heap_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", SMALL_HEAP)
    spec = many_clicks_spec()
    spec["source"]["columns"] += ", page string"
    spec["mapping"]["payload"] = {"page": "page"}
    spec["rules"], spec["key_groups"] = {"gap_timeout": "1 day"}, 32
    stage = Stage.set_up(tmp_path, spec)
    _write_long_pages(stage.feed)
    run_to_end(stage, "a")
    landed = DeltaTable(uri_of(stage.table("sessions"))).to_pyarrow_dataset().to_table(columns=["event_count"])
    assert (landed.num_rows, pc.sum(landed["event_count"]).as_py()) == (USERS, EVENTS)


def _write_long_pages(folder: Path) -> None:
    """Pages that do not compress."""
    random = np.random.default_rng(0)
    ids = np.arange(EVENTS)
    letters = random.integers(48, 112, EVENTS * PAGE_CHARACTERS, dtype=np.uint8).tobytes()
    ends = pa.py_buffer((np.arange(EVENTS + 1) * PAGE_CHARACTERS).astype(np.int32))
    table = pa.table(
        {
            "event_id": pa.array(ids).cast(pa.string()),
            "user_id": pa.array(ids % USERS).cast(pa.string()),
            "ts": FIRST_EVENT_MS + ids * 10,
            "page": pa.StringArray.from_buffers(EVENTS, ends, pa.py_buffer(letters)),
        }
    )
    pq.write_table(table, folder / "pages.parquet", row_group_size=20_000)


FILES = 12
LEFT_BYTES = 48 * 1024


@pytest.mark.usefixtures("tuned")
@pytest.mark.long
@pytest.mark.parametrize("left", [0, LEFT_BYTES])
def test_room_again_after_the_disk_was_full(tmp_path: Path, small_disk: Path, left: int) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec(), home=small_disk)
    files = write_click_files(stage.feed, FILES)
    with DriverProcess.start(stage, "a") as driver:
        freeze_at(Moment.COMMITTED, driver, stage)
        ballast = fill(small_disk, left)
        driver.thaw()
        code = driver.wait()
    assert TransientError.exit_code <= code < TransientError.exit_code + 10, driver.said[-4_000:]
    ended = EXIT_FILE.of(stage.stream_home, "a").read()
    assert ended, "its last words had room kept back"
    assert (ended.error_type, ended.terminal) == ("disk_full", False)
    assert view_spec(stage.spec(), stage.home).health.word is HealthWord.DOWN

    with DriverProcess.start(stage, "b") as driver:
        assert driver.wait() == DiskFull.exit_code, "there is still no room"
    ballast.unlink()
    stage.write_spec(clicks_spec(files_per_batch=FILES))
    run_to_end(stage, "c", apply=True)
    assert_as_defined(stage, files)


def test_a_killed_drivers_scratch_is_closed_and_goes_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir(mode=0o755)
    monkeypatch.setenv("TMPDIR", str(scratch))
    stage = Stage.set_up(tmp_path / "stage", clicks_spec())
    write_click_files(stage.feed, 4)
    with DriverProcess.start(stage, "d0") as driver:
        freeze_at(Moment.BATCH_RUNS, driver, stage)
        (base,) = scratch.glob("streaming-state-*")
        assert base.stat().st_mode & 0o077 == 0
        (left,) = base.iterdir()
        assert any(left.glob("blockmgr-*"))
        outside = {path.name.partition("-")[0] for path in scratch.iterdir()}
        assert outside <= {"streaming", "hsperfdata_root"}, outside
        driver.kill_all()
    assert any(left.rglob("*.so")), "the libraries of a JVM that was killed stay"
    run_to_end(stage, "last", apply=True)
    assert list(base.iterdir()) == []
