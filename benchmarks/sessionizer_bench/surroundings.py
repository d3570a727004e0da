"""Surroundings of a soaked stream that may fail: a disk that fills, a clock that steps, a broker that dies."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sessionizer_demo.feed.sinks.folder_sink import FolderSink
from sessionizer_demo.feed.sinks.kafka_sink import KafkaSink
from support.processes.kafka_broker import KafkaBroker
from support.streams.stage import topic_source

if TYPE_CHECKING:
    from random import Random
    from typing import Self

    from sessionizer_bench.data.soak_feed import Sink

T = TypeVar("T")
CLOCK_SOURCE: Final = Path(__file__).with_name("stepping_clock.c")
TOPIC: Final = "clicks"
ROWS_OF_A_FILE: Final = 300
"""Offsets of a batch for each file that it might have, so that a batch spans about the same time."""
FULL_S: Final = (5, 45)
BROKER_DOWN_S: Final = (1, 25)
"""Below the minute in which a message must be delivered, after which the feed would send it again."""
MOST_STEP_S: Final = 15
"""Longest step (s) of the clock. A clock that is slow delays the watermark, and late rows must stay late."""


@dataclass(frozen=True, slots=True)
class SteppingClock:
    """The wall clock of all commands. ``library`` is loaded by each, and reads ``file``: 8 bytes, ns ahead of time."""

    library: Path
    file: Path

    @classmethod
    def built(cls, folder: Path) -> Self:
        """Compile the library in ``folder``, which takes a C compiler. The clock shows the right time."""
        clock = cls(folder / "clock.so", folder / "clock")
        _run("cc", "-O2", "-shared", "-fPIC", "-o", str(clock.library), str(CLOCK_SOURCE), "-ldl")
        clock.set(0)
        return clock

    @property
    def variables(self) -> dict[str, str]:
        """Return the environment of a command that reads it."""
        return {"LD_PRELOAD": str(self.library), "CLOCK_AHEAD": str(self.file)}

    def step(self, chance: Random) -> float:
        """Set it, ahead of time or behind. Returns the seconds by which it is ahead."""
        ahead_s = chance.choice([0, MOST_STEP_S, -MOST_STEP_S, round(chance.uniform(-MOST_STEP_S, MOST_STEP_S), 3)])
        self.set(round(ahead_s * 1e9))
        return ahead_s

    def set(self, ahead_ns: int) -> None:
        """Set it in place, because each command has the file mapped."""
        self.file.touch()
        with self.file.open("r+b") as file:
            file.write(ahead_ns.to_bytes(8, sys.byteorder, signed=True))


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The disk of the home, the clock of the commands, and the broker. Each is None if it is the machine's own."""

    disk: Path | None = None
    clock: SteppingClock | None = None
    broker: KafkaBroker | None = None

    @classmethod
    def begin(cls, folder: Path, open_: ExitStack, *, disk_mb: int, clock: bool, kafka: bool) -> Self:
        """Mount the disk (as root), set the clock, start the broker. ``open_`` ends them."""
        disk, broker = None, None
        if disk_mb:
            disk = folder / "home"
            disk.mkdir()
            _run("mount", "-t", "tmpfs", "-o", f"size={disk_mb}m", "tmpfs", str(disk))
            open_.callback(_run, "umount", "--lazy", str(disk))
        if kafka:
            (folder / "broker").mkdir()
            broker = open_.enter_context(KafkaBroker(folder / "broker"))
            broker.create_topic(TOPIC)
        return cls(disk, SteppingClock.built(folder) if clock else None, broker)

    @property
    def variables(self) -> dict[str, str]:
        """Return the environment of each command, by which it reads the clock that steps."""
        return {} if self.clock is None else self.clock.variables

    @property
    def faults(self) -> tuple[str, ...]:
        """Return the names of the faults that can be made."""
        made = {"full_disk": self.disk, "step": self.clock, "kill_broker": self.broker}
        return tuple(name for name, what in made.items() if what is not None)

    def sink(self, folder: Path) -> Sink:
        """Return where the feed goes."""
        if self.broker is None:
            return FolderSink(folder, TOPIC, ".json")
        return KafkaSink(self.broker.bootstrap_servers, TOPIC)

    def source(self, files: dict[str, Any]) -> dict[str, Any]:
        """Return the source of the spec, ``files`` if the feed is a folder."""
        return files if self.broker is None else topic_source(self.broker.bootstrap_servers, TOPIC)

    def options(self, files: int) -> dict[str, int]:
        """Return the options of a source that reads about so many files in a batch."""
        return (
            {"maxFilesPerTrigger": files} if self.broker is None else {"maxOffsetsPerTrigger": files * ROWS_OF_A_FILE}
        )

    def fill(self) -> Path:
        """Take all room of the disk. Returns the file that takes it."""
        disk = _made(self.disk)
        ballast = disk / ".ballast"
        found = os.statvfs(disk)
        with ballast.open("wb") as file, suppress(OSError):  # others write meanwhile
            os.posix_fallocate(file.fileno(), 0, max(1, found.f_bavail * found.f_bsize))
        return ballast

    def kill_broker(self, chance: Random) -> None:
        """Kill the broker, and start it again on its data."""
        broker = _made(self.broker)
        broker.kill()
        time.sleep(chance.uniform(*BROKER_DOWN_S))
        broker.start()


def _made(what: T | None) -> T:
    if what is None:
        message = "this fault is none of `Surroundings.faults`"
        raise ValueError(message)
    return what


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
