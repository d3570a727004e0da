"""A stream of files whose every line is known: each file has one session of each user and one line that is no event.

Files lie 100 seconds apart, so the next file ends the sessions of this one whatever gap the spec has below that.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

USERS: Final = 3
EVENTS: Final = 2
"""Of each session."""
SPEC: Final[dict[str, Any]] = {
    "source": {
        "format": "files",
        "path": "feed",
        "encoding": "json",
        "columns": "u string, ts bigint, id string",
        "options": {"maxFilesPerTrigger": 1},
    },
    "mapping": {"key": "u", "event_time": "timestamp_millis(ts)", "event_id": "id"},
    "rules": {"watermark_delay": "10 seconds", "gap_timeout": "60 seconds", "emit_every": None, "idle_after": None},
    "key_groups": 2,
    "trigger_interval": "100 milliseconds",
}


def write_session_file(folder: Path, number: int) -> str:
    """Bring the file of this number, whole before its name appears. Returns its name."""
    part, name = folder / f".{number}", f"f{number:03}.json"
    part.write_text("".join([*(_line(number, n) for n in range(USERS * EVENTS)), f"no event {number}\n"]))
    os.utime(part, (1.75e9 + number,) * 2)
    part.rename(folder / name)
    return name


def lines_of_file(number: int) -> list[str]:
    """The ids of its events, and the line that is none."""
    return [*(f"{number}-{n}" for n in range(USERS * EVENTS)), f"no event {number}"]


def _line(file: int, number: int) -> str:
    at = 1_790_000_000_000 + file * 100_000 + number * 200
    return json.dumps({"u": f"u{number % USERS}", "ts": at, "id": f"{file}-{number}"}) + "\n"
