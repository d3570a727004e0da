"""The run of a contestant, watched from outside: its process tree, its checkpoint, the machine's load."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sessionizer_bench.contestants import flink
from sessionizer_bench.measuring import batches, machine
from sessionizer_bench.measuring.checkpoint_bytes import WrittenBytes, bytes_below, files_below
from sessionizer_bench.measuring.process_tree import TreeUse
from sessionizer_bench.places import RUNS, SOURCE_ROOTS
from sessionizer_bench.workloads import FLINK, FLINK_COUNTS, OURS, OURS_PLAIN

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer_bench.contestants.race import Race

_SAMPLE_EVERY_S: Final = 0.25
_LOOK_EVERY: Final = 4
"""Number of memory samples between two looks at the checkpoint."""


class RunFailed(Exception):
    """The error for a contestant or a command that failed. Its log says why."""


@dataclass(slots=True)
class Observation:
    """The measurements of a run from outside."""

    use: TreeUse
    written: WrittenBytes = field(default_factory=WrittenBytes)
    before: machine.CpuTimes = field(default_factory=machine.CpuTimes.now)
    load_before: float = field(default_factory=machine.load_average)


def run_contestant(
    contestant: str, race: Race, uncounted: int, settings: dict[str, str] | None = None
) -> dict[str, Any]:
    """Run the contestant in a fresh process, and return its record. The caller deletes its folder. Raises RunFailed."""
    shutil.rmtree(race.folder, ignore_errors=True)
    race.folder.mkdir(parents=True)
    job = race.folder / "job.json"
    asked = {"contestant": contestant, "race": asdict(race), "settings": settings or {}}
    command = [sys.executable, "-m", "sessionizer_bench.driver", str(job)]
    if contestant in (FLINK, FLINK_COUNTS):
        asked["flink"], command = flink.prepare(race, uncounted), flink.command(job)
    job.write_text(json.dumps(asked, default=str))
    log = RUNS / f"{race.folder.name}.log"
    spawned = time.time()
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment(contestant), cwd=race.folder, stdout=output, stderr=output)
        seen = watch(process, race.checkpoint)
    if process.returncode != 0:
        message = f"{contestant} ended with exit code {process.returncode}, see {log}"
        raise RunFailed(message)
    result = json.loads((race.folder / "result.json").read_text())
    return record(contestant, result, seen, race, result.get("uncounted", uncounted), spawned)


def environment(contestant: str = OURS) -> dict[str, str]:
    """Return our environment with the paths of a contestant's code, and the switch between private and plain Spark."""
    paths = os.pathsep.join(str(root) for root in SOURCE_ROOTS)
    plain = "1" if contestant == OURS_PLAIN else "0"
    return {**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable, "SESSIONIZER_PLAIN_SPARK": plain}


def watch(process: subprocess.Popen[bytes], checkpoint: Path) -> Observation:
    """Sample the process tree and the checkpoint until the process ends."""
    seen = Observation(TreeUse(process.pid))
    sample = 0
    while process.poll() is None:
        seen.use.sample()
        if sample % _LOOK_EVERY == 0:
            seen.written.look(files_below(checkpoint))
        sample += 1
        time.sleep(_SAMPLE_EVERY_S)
    seen.written.look(files_below(checkpoint))
    return seen


def record(
    contestant: str, result: dict[str, Any], seen: Observation, race: Race, uncounted: int, spawned: float
) -> dict[str, Any]:
    """Return the record of a run."""
    first = batches.drop_empty_batches(result["batches"])[0]
    return {
        "contestant": contestant,
        **batches.summary(result["batches"], uncounted),
        "spawn_to_first_batch_s": round(first["ended_ms"] / 1000 - spawned, 1),
        "peak_memory_bytes": seen.use.peak_resident,
        "checkpoint_written_bytes": seen.written.total,
        "checkpoint_bytes": bytes_below(race.checkpoint),
        "checkpoint_state_bytes": bytes_below(race.checkpoint / "state"),
        "load_before": seen.load_before,
        "load_after": machine.load_average(),
        **machine.shares(seen.before, machine.CpuTimes.now(), seen.use.ticks),
        "tally": result["tally"],
        "batches": result["batches"],
        "diary": result["diary"],
    }
