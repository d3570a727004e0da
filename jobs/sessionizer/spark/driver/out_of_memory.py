"""Check for a driver's JVM that ended because it ran out of memory, if the error in Python does not say so.

On this machine a JVM without memory ends at once (``launch/local_jvm.py``), and Python sees a broken connection. With
other options Spark shuts its context down, and Python sees the error that followed. The JVM's last lines and its exit
code are more exact.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from sessionizer.home.local_files import BoundedLog
from sessionizer.launch.local_jvm import ENDED_WITHOUT_MEMORY
from sessionizer.spark.internals.own_jvm import exit_code_of_jvm

if TYPE_CHECKING:
    from pathlib import Path

ENDS_WITHIN_S: Final = 2.0
"""Seconds in which a JVM that no longer answers ends."""
LAST_BYTES: Final = 256 * 1024
_WORDS: Final = re.compile(
    # not in a message about an executor's task, in which it does not begin the line
    r'^(?:Terminating due to |Exception in thread "[^"]*" )?(java\.lang\.OutOfMemoryError\b[^\n]*)',
    re.MULTILINE,
)


def words_of_this_jvm() -> str | None:
    """Return the JVM's message about its memory, None if it gave none."""
    log = BoundedLog.from_environment(os.environ)
    printed = None if log is None else find_memory_message(log.path)
    if printed is not None:
        return printed
    return "java.lang.OutOfMemoryError" if exit_code_of_jvm(ENDS_WITHIN_S) == ENDED_WITHOUT_MEMORY else None


def find_memory_message(log: Path) -> str | None:
    """Return the message about exhausted memory at the end of a driver's ``log``.

    None if it has none or is unreadable.
    """
    try:
        with log.open("rb") as opened:
            opened.seek(max(0, log.stat().st_size - LAST_BYTES))
            printed = opened.read(LAST_BYTES).decode(errors="replace")
    except OSError:
        return None
    found = _WORDS.search(printed)
    return found[1].strip() if found else None
