"""The cost, to a live stream, of canonical savepoints that its own machine makes meanwhile.

A stream of about a million open sessions gets an equal batch at every trigger, so that the machine is about half busy.
In turns no savepoint is made, and one is, by the command in its own process. Batches during a savepoint are compared
with batches without one. ``upgraded`` tells for how long an upgrade stops such a stream.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any, Final

import yaml

from sessionizer.control.records.driver_records import HEARTBEAT_FILE
from sessionizer.control.records.operation_record import read_operations
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer_bench.contestants.ours import spec_values
from sessionizer_bench.contestants.race import Race
from sessionizer_bench.data.generator import stored
from sessionizer_bench.measuring import machine
from sessionizer_bench.measuring.live_batches import EVERY_MINUTES, Span, Taken
from sessionizer_bench.measuring.runner import RunFailed, environment
from sessionizer_bench.places import DATASETS, JOBS, RUNS
from sessionizer_bench.workloads import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sessionizer_bench.data.dataset import Dataset

NAME: Final = "live"
LIVE: Final = replace(SMALL.dataset, name=NAME, batches=160, warm_up_batches=0, history_events=8)
"""Data set of about a million open sessions with their last eight events, then batches of 40,000 events."""
TRIGGER_S: Final = 4.0
AS_IT_IS: Final = "as it is"
WAYS: Final = {AS_IT_IS: (), "hurry": ("--hurry",), "one thread": ("--master", "local[1]")}
"""Ways to make a savepoint, with the further options of its command."""
PROMISED: Final = 1.1
_POLL_S: Final = 0.1
_PATIENCE_S: Final = 120


@dataclass(frozen=True, slots=True)
class Turns:
    """The course of a measurement, in batches.

    ``apart`` is the number of batches after a savepoint that count for neither side.
    """

    dataset: Dataset = LIVE
    trigger_s: float = TRIGGER_S
    ways: tuple[str, ...] = (AS_IT_IS,)
    rounds: int = 2
    warm_up: int = 10
    quiet: int = 10
    apart: int = 2


def quick() -> Turns:
    """Return a hundredth of the measurement, which only shows that it works."""
    traffic = replace(LIVE.traffic, users=30_000, events_per_second=36)
    dataset = replace(LIVE, name=f"quick-{NAME}", traffic=traffic, batch_events=1_000)
    return Turns(dataset, trigger_s=1, rounds=1, warm_up=3, quiet=5, apart=1)


@dataclass(slots=True)
class Watch:
    """A running driver. ``batches`` holds the time of each of its batches, by id."""

    home: StreamHome
    process: subprocess.Popen[bytes]
    batches: dict[int, Span] = field(default_factory=dict)

    def look(self) -> None:
        """Note the newest batch. Raises RunFailed if the driver has ended."""
        if self.process.poll() is not None:
            message = f"the driver ended with exit code {self.process.returncode}"
            raise RunFailed(message)
        beat = HEARTBEAT_FILE.of(self.home).read()
        if beat and beat.batch_id is not None and beat.batch_at is not None and beat.batch_ms is not None:
            self.batches.setdefault(beat.batch_id, Span(beat.batch_at - beat.batch_ms, beat.batch_at))

    def wait_until(self, over: Callable[[], bool]) -> None:
        """Look until ``over`` returns True. Raises RunFailed if the driver has ended, or batches no longer end."""
        known, since = len(self.batches), time.monotonic()
        while not over():
            self.look()
            if len(self.batches) > known:
                known, since = len(self.batches), time.monotonic()
            if time.monotonic() - since > _PATIENCE_S:
                message = f"no batch ended in {_PATIENCE_S} s"
                raise RunFailed(message)
            time.sleep(_POLL_S)

    def batches_more(self, number: int) -> None:
        """Wait for ``number`` further batches. Raises RunFailed."""
        wanted = len(self.batches) + number
        self.wait_until(lambda: len(self.batches) >= wanted)


def measured(turns: Turns, say: Callable[[str], None]) -> Taken:
    """Return the batch times (ms) of the stream without a savepoint, and during each way to make one.

    Raises RunFailed.
    """
    folder = RUNS / turns.dataset.name
    home = _begun(turns, folder, say)
    quiet: list[Span] = []
    made: list[tuple[str, Span]] = []
    busy: list[float] = []
    with (folder / "live.log").open("wb") as log:
        driver = _started(folder, log, "run", NAME, "--master", "local[2]")
        watch = Watch(home, driver)
        try:
            watch.look()
            watch.batches_more(turns.warm_up)
            for number in range(turns.rounds):
                for way in turns.ways:
                    busy.append(_quiet_turn(turns, watch, quiet))
                    made.append((way, _savepoint(folder, watch, way, f"of-turn-{number}-{len(made)}")))
                    say(f"{way}: {made[-1][1].took_ms / 1000:.1f} s, machine busy before: {busy[-1]:.0f} %")
                    watch.batches_more(turns.apart)
        finally:
            driver.send_signal(signal.SIGINT)
            driver.wait(_PATIENCE_S)
    return Taken.of(watch.batches.values(), quiet, made, busy)


def upgraded(turns: Turns, say: Callable[[str], None], *, replay: bool) -> dict[str, Any]:
    """Return how long (s) the live stream was stopped by an upgrade with a migration, by the steps of its record.

    It counts from the request for the driver's end to the end of the command. Raises RunFailed.
    """
    folder = RUNS / turns.dataset.name
    home, flags = _begun(turns, folder, say), ("--replay",) if replay else ()
    with (folder / "live.log").open("wb") as log:
        driver = _started(folder, log, "run", NAME, "--master", "local[2]")
        watch = Watch(home, driver)
        try:
            watch.batches_more(turns.warm_up)
            file = folder / "streams" / f"{NAME}.yaml"
            migration = {"id": "same-data", "columns": {"data": "concat(data, '')"}}
            file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), "migrations": [migration]}))
            since = time.perf_counter()
            planned = _ended(folder, "upgrade", NAME, "--canary", "0", *flags, "--json")
            _ended(folder, "upgrade", NAME, "--canary", "0", *flags, "--approve", json.loads(planned)["digest"])
            took = time.perf_counter() - since
        finally:
            driver.send_signal(signal.SIGINT)
            driver.wait(_PATIENCE_S)
    (record,) = read_operations(home)
    steps = {step: float(seconds) for step, seconds in (each.split() for each in record.seconds.split(", "))}
    return {"replay": replay, "command_s": round(took, 1), "stopped_s": round(sum(steps.values()), 1), "steps_s": steps}


def _ended(folder: Path, *arguments: str) -> str:
    """Return what a command printed. Raises RunFailed."""
    with (folder / "command.log").open("wb") as log:
        process = _started(folder, log, *arguments)
        code = process.wait()
    said = (folder / "command.log").read_text()
    if code:
        message = f"{arguments} ended with exit code {code}: {said[-2_000:]}"
        raise RunFailed(message)
    return said[said.find("{") :] if "--json" in arguments else said


def lines(summary: dict[str, Any]) -> Iterator[str]:
    """Yield the summary as lines to print."""
    quiet = summary["quiet"]
    yield (
        f"without: {quiet['batches']} batches, median {quiet['median_ms']:,} ms, p95 {quiet['p95_ms']:,} ms, "
        f"machine {summary['busy_percent']} % busy"
    )
    for way, found in summary["beside"].items():
        periods = ", ".join(
            f"{found[f'p95_ratio_every_{each}_min']} × with one in {each} min" for each in EVERY_MINUTES
        )
        yield (
            f"{way}: savepoint {found['savepoint_s']} s; {found['batches']} batches meanwhile, "
            f"median {found['median_ms']:,} ms ({found['median_ratio']} ×), p95 {found['p95_ms']:,} ms "
            f"({found['p95_ratio']} ×); p95 of all batches: {periods} (promised: {PROMISED} ×)"
        )


def _quiet_turn(turns: Turns, watch: Watch, quiet: list[Span]) -> float:
    """Wait for batches without a savepoint, and return the percent of all cores' time that was used meanwhile."""
    before, since = machine.CpuTimes.now(), epoch_ms()
    watch.batches_more(turns.quiet)
    quiet.append(Span(since, epoch_ms()))
    return machine.shares(before, machine.CpuTimes.now(), 0)["others_percent"]


def _savepoint(folder: Path, watch: Watch, way: str, name: str) -> Span:
    """Make a savepoint, and return the time from the start of its process to its end. Raises RunFailed."""
    since = epoch_ms()
    with (folder / "savepoint.log").open("wb") as log:
        process = _started(folder, log, "savepoint", "create", NAME, "--id", name, *WAYS[way])
        watch.wait_until(lambda: process.poll() is not None)
    if process.returncode != 0:
        message = f"the savepoint ended with exit code {process.returncode}, see {folder / 'savepoint.log'}"
        raise RunFailed(message)
    return Span(since, epoch_ms())


def _begun(turns: Turns, folder: Path, say: Callable[[str], None]) -> StreamHome:
    """Return the stopped stream with its open sessions, and with the next batches in its folder.

    The state after the history is kept for the next run. This run continues with a copy. Raises RunFailed.
    """
    DATASETS.mkdir(parents=True, exist_ok=True)
    data = stored(turns.dataset, DATASETS)
    files = sorted(data.files.iterdir())
    history = data.uncounted * turns.dataset.files_per_batch
    before, home, feed = folder / "before", folder / "home", folder / "files"
    for used in (home, feed):
        shutil.rmtree(used, ignore_errors=True)
    _write_spec(turns, folder)
    _link(files[:history], feed)
    if not before.is_dir():
        say("streaming what is to be open")
        with (folder / "history.log").open("wb") as log:
            process = _started(folder, log, "run", NAME, "--master", "local[2]", "--until", "caught-up")
        if process.wait() != 0:
            message = f"the history was not streamed, see {log.name}"
            raise RunFailed(message)
        home.rename(before)
    shutil.copytree(before, home)
    _link(files[history:], feed)
    return StreamHome.of(home, NAME)


def _write_spec(turns: Turns, folder: Path) -> None:
    files = turns.dataset.files_per_batch
    values = spec_values(Race(folder / "files", files, folder, emit_every_s=120, key_groups=16), NAME)
    streams = folder / "streams"
    streams.mkdir(parents=True, exist_ok=True)
    values |= {"trigger_interval": f"{round(turns.trigger_s * 1000)} milliseconds"}
    (streams / f"{NAME}.yaml").write_text(yaml.safe_dump(values))


def _link(files: list[Path], into: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    for file in files:
        (into / file.name).hardlink_to(file)


def _started(folder: Path, log: IO[bytes], *arguments: str) -> subprocess.Popen[bytes]:
    """Start a command of the product on the stream in ``folder``."""
    places = ("--streams", str(folder / "streams"), "--home", str(folder / "home"))
    command = [sys.executable, str(JOBS / "main.py"), *arguments, *places]
    # In practice a driver and a savepoint command are started from two terminals, or by two services.
    return subprocess.Popen(command, env=environment(), stdout=log, stderr=log, start_new_session=True)
