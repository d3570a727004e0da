"""The table of all causes: the name of each, whether a retry helps, and what to do.

Each cause has a single remedy, wherever it is shown: ``status``, ``run``, the task log, an alert. The next step is
added by the program that knows it: the command line says ``sessionizer run``, Airflow says unpause.
"""

from __future__ import annotations

from typing import Final

from sessionizer.causes.cause import TERMINAL, Cause
from sessionizer.causes.driver_causes import PROCESS_CAUSES, QUERY_CAUSES
from sessionizer.causes.error_causes import ERROR_CAUSES
from sessionizer.causes.launch_causes import LAUNCH_CAUSES, START_CAUSES

CAUSES: Final = {
    cause.name: cause for cause in (*QUERY_CAUSES, *ERROR_CAUSES, *LAUNCH_CAUSES, *START_CAUSES, *PROCESS_CAUSES)
}
DISK_FULL_SIGNS: Final = ("No space left on device", "Disk quota exceeded")


def cause_of(name: str | None, message: str = "", *, terminal: bool = False) -> Cause:
    """Return the cause for the name in an exit record or of an error's class. ``terminal`` decides if it is unknown."""
    if name == "UnwritablePath" and any(sign in message for sign in DISK_FULL_SIGNS):
        return CAUSES["disk_full"]
    known = CAUSES.get(name or "")
    if known is not None:
        return known
    return Cause(name or "unknown", "", TERMINAL, CAUSES["TerminalError"].remedy) if terminal else CAUSES["unknown"]
