"""The time from the start of the real driver to its first committed batch."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import yaml

from sessionizer.checkpoint.log_entries import list_committed_batches
from sessionizer.home.data_files import list_entries
from sessionizer.home.stream_home import StreamHome
from sessionizer_bench.contestants.ours import spec_values
from sessionizer_bench.contestants.race import Race
from sessionizer_bench.measuring import machine
from sessionizer_bench.measuring.runner import RunFailed, environment
from sessionizer_bench.places import JOBS, RUNS
from sessionizer_bench.reporting.targets import STARTUP
from sessionizer_bench.workloads import OURS

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer_bench.data.generator import StoredDataset

_STREAM: Final = "benchmark"
_LOOK_EVERY_S: Final = 0.05
_PATIENCE_S: Final = 300


def start_once(data: StoredDataset, files_per_batch: int, repetition: int) -> dict[str, Any]:
    """Start ``jobs/main.py run`` on the data set, and return the record of its first commit.

    Raises RunFailed if the driver ends before a batch is committed, or no batch is committed in time.
    """
    folder = RUNS / f"{STARTUP}-{repetition}"
    shutil.rmtree(folder, ignore_errors=True)
    race = Race(data.files, files_per_batch, folder, emit_every_s=30, key_groups=16)
    streams = folder / "streams"
    streams.mkdir(parents=True)
    (streams / f"{_STREAM}.yaml").write_text(yaml.safe_dump(spec_values(race, _STREAM)))
    load_before = machine.load_average()
    took = _time_to_first_commit(streams, folder / "home")
    shutil.rmtree(folder, ignore_errors=True)
    return {
        "workload": STARTUP,
        "contestant": OURS,
        "repetition": repetition,
        "start_to_first_batch_s": round(took, 1),
        "load_before": load_before,
        "load_after": machine.load_average(),
    }


def _time_to_first_commit(streams: Path, home: Path) -> float:
    options = ["--streams", str(streams), "--home", str(home), "--until", "caught-up"]
    command = [sys.executable, str(JOBS / "main.py"), "run", _STREAM, *options]
    log = RUNS / f"{STARTUP}.log"
    with log.open("wb") as output:
        started = time.perf_counter()
        driver = subprocess.Popen(command, env=environment(), stdout=output, stderr=output)
        try:
            return _await_commit(driver, StreamHome.of(home, _STREAM), log) - started
        finally:
            driver.terminate()
            driver.wait()


def _await_commit(driver: subprocess.Popen[bytes], home: StreamHome, log: Path) -> float:
    deadline = time.perf_counter() + _PATIENCE_S
    while time.perf_counter() < deadline:
        if any(list_committed_batches(lineage / "checkpoint") for lineage in list_entries(home.lineages)):
            return time.perf_counter()
        if driver.poll() is not None:
            message = f"the driver ended with exit code {driver.returncode} before its first batch, see {log}"
            raise RunFailed(message)
        time.sleep(_LOOK_EVERY_S)
    message = f"no batch was committed in {_PATIENCE_S} s, see {log}"
    raise RunFailed(message)
