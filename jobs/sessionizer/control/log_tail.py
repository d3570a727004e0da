"""The last lines of a driver's log, fit to be shown: without credentials."""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from sessionizer.counts import count_text
from sessionizer.home.local_files import BoundedLog, open_regular
from sessionizer.redaction import redact

LINES: Final = 30
LINE_LIMIT: Final = 1_000
READ_BYTES: Final = 128 * 1024
FRAME: Final = re.compile(r"\s+at \S+\(.*\)|\s+\.\.\. \d+ more|\s+at [\w.$/]+")
"""A line of a Java stack that names no cause."""
READ_LINES: Final = 2_000


def last_words(path: Path, lines: int = LINES) -> list[str]:
    """Return the last lines of a dead driver's log, each stack cut to its head and innermost frame."""
    return list(fold_frames(tail(path, READ_LINES)))[-lines:]


def fit_to_show(text: str, lines: int = LINES) -> list[str]:
    """Return the last lines of ``text``, cut and redacted like those of a log."""
    shown = [line[:LINE_LIMIT] for line in redact(text).splitlines() if line.strip()]
    return list(fold_frames(shown))[-lines:]


def fold_frames(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines. Of several stack frames in a row, yield only the first and the number of the others."""
    for are_frames, run in groupby(lines, key=lambda line: FRAME.match(line) is not None):
        first, *more = run
        if are_frames and more:
            yield first
            yield f"\t… {count_text(len(more), 'more frame')}"
        else:
            yield from (first, *more)


def tail(path: Path, lines: int = LINES) -> list[str]:
    """Return the last lines that are not blank, redacted, from older parts too if need be. Never raises."""
    found: list[str] = []
    # A driver makes no links: a link in the place of an older part leads to another file.
    older = [part for part in BoundedLog(path).parts() if not part.is_symlink()]
    for part in (path, *older):
        missing = lines - len(found)
        if missing <= 0:
            break
        found = _last_lines(part)[-missing:] + found
    # Redact before the cut, because the cut may remove the part that marks a credential.
    return [line[:LINE_LIMIT] for line in redact("\n".join(found)).splitlines()]


def _last_lines(path: Path) -> list[str]:
    try:
        with open_regular(path) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - READ_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    lines = text.splitlines()
    if size > READ_BYTES and lines:
        # The unread beginning of this line may name the credential that follows.
        lines[0] = "" if len(lines) > 1 else f"(a line of more than {READ_BYTES:,} bytes)"
    return [line for line in map(str.rstrip, lines) if line]
