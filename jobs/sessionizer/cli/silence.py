"""Lines that tell a waiting user that a command is still at work."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sessionizer.home.clock import describe_duration

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_S: Final = 15
"""Seconds without a line after which the first one is due."""
LONGEST_S: Final = 60
"""Longest time between two of these lines, in seconds."""


@dataclass(slots=True)
class Silence:
    """Time since the last line of a command, which is told ever more seldom. Seconds."""

    since: float
    due_s: float = FIRST_S

    def end(self, now: float) -> None:
        """Note that a line was printed."""
        self.since, self.due_s = now, FIRST_S

    def line(self, now: float) -> str | None:
        """Return the line that is due at ``now``, or None."""
        silent = now - self.since
        if silent < self.due_s:
            return None
        self.due_s = silent + min(silent, LONGEST_S)
        return f"still working: {describe_duration(round(silent * 1000))} since the last line of progress"


@dataclass(slots=True)
class SilenceTeller:
    """A thread that tells by ``write`` how long the command has printed nothing, and looks so often."""

    write: Callable[[str], None]
    look_every_s: float = 1.0
    _silence: Silence = field(default_factory=lambda: Silence(time.monotonic()))
    _stopped: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Begin to tell. The thread does not keep the process alive."""
        self.stop()
        self.end_silence()
        self._stopped = threading.Event()
        threading.Thread(target=self._tell, args=(self._stopped,), name="silence", daemon=True).start()

    def stop(self) -> None:
        """End the thread, if there is one."""
        self._stopped.set()

    def end_silence(self) -> None:
        """Note that the command has printed a line."""
        self._silence.end(time.monotonic())

    def _tell(self, stopped: threading.Event) -> None:
        while not stopped.wait(self.look_every_s):
            line = self._silence.line(time.monotonic())
            if line is not None:
                self.write(line)
