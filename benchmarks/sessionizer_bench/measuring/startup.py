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
_SAYS: Final = {"python": "starting Spark", "spark": "query starts", "batch": None}
"""Parts of a start, each with the words by which the driver's log says that it is over. The last one is a commit."""
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
    parts = _time_parts(streams, folder / "home")
    shutil.rmtree(folder, ignore_errors=True)
    return {
        "workload": STARTUP,
        "contestant": OURS,
        "repetition": repetition,
        "start_to_first_batch_s": round(sum(parts.values()), 1),
        "parts_s": {name: round(took, 1) for name, took in parts.items()},
        "load_before": load_before,
        "load_after": machine.load_average(),
    }


def _time_parts(streams: Path, home: Path) -> dict[str, float]:
    """Return the seconds of each part of a start: Python's modules, Spark and the query, the first batch."""
    options = ["--streams", str(streams), "--home", str(home), "--until", "caught-up"]
    command = [sys.executable, str(JOBS / "main.py"), "run", _STREAM, *options]
    log, parts = RUNS / f"{STARTUP}.log", dict[str, float]()
    with log.open("wb") as output:
        began = time.perf_counter()
        driver = subprocess.Popen(command, env=environment(), stdout=output, stderr=output)
        try:
            for name, words in _SAYS.items():
                ended = _await(driver, StreamHome.of(home, _STREAM), log, words)
                parts[name], began = ended - began, ended
        finally:
            driver.terminate()
            driver.wait()
    return parts


def _await(driver: subprocess.Popen[bytes], home: StreamHome, log: Path, words: str | None) -> float:
    deadline = time.perf_counter() + _PATIENCE_S
    while time.perf_counter() < deadline:
        if words in log.read_text() if words else _has_committed(home):
            return time.perf_counter()
        if driver.poll() is not None:
            message = f"the driver ended with exit code {driver.returncode} before its first batch, see {log}"
            raise RunFailed(message)
        time.sleep(_LOOK_EVERY_S)
    message = f"no batch was committed in {_PATIENCE_S} s, see {log}"
    raise RunFailed(message)


def _has_committed(home: StreamHome) -> bool:
    return any(list_committed_batches(lineage / "checkpoint") for lineage in list_entries(home.lineages))
