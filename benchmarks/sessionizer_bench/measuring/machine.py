"""The machine's load during a run, so that readers can tell figures from a busy machine."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_BUSY_FIELDS: Final = (0, 1, 2, 5, 6)
"""user, nice, system, irq, softirq"""
_IDLE_FIELDS: Final = (3, 4)
"""idle, iowait"""
_STEAL_FIELD: Final = 7


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """The clock ticks of all cores since boot."""

    busy: int
    idle: int
    steal: int

    @classmethod
    def now(cls) -> CpuTimes:
        """Read the ticks that the kernel has counted."""
        return cls.of(Path("/proc/stat").read_text().splitlines()[0])

    @classmethod
    def of(cls, line: str) -> CpuTimes:
        """Parse the line ``cpu`` of ``/proc/stat``."""
        ticks = [int(text) for text in line.split()[1:]]
        busy, idle = (sum(ticks[place] for place in places) for places in (_BUSY_FIELDS, _IDLE_FIELDS))
        return cls(busy, idle, ticks[_STEAL_FIELD])


def shares(before: CpuTimes, after: CpuTimes, own_ticks: int) -> dict[str, float]:
    """Return the percent of all cores' time stolen by the host, used by ourselves, and used by others here."""
    busy, idle, steal = after.busy - before.busy, after.idle - before.idle, after.steal - before.steal
    whole = max(busy + idle + steal, 1)
    others = max(busy - own_ticks, 0)
    named = {"steal_percent": steal, "own_percent": own_ticks, "others_percent": others}
    return {name: round(100 * ticks / whole, 1) for name, ticks in named.items()}


def load_average() -> float:
    """Return the load average of the last minute."""
    return round(os.getloadavg()[0], 2)


def description() -> dict[str, object]:
    """Return a description of the machine that the figures were taken on."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
