"""What a piece of code asks of the file system: the measure of "cheap" that is the same on every machine."""

import hashlib
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

_VERBS = {"open": "open", "os.listdir": "list", "os.scandir": "list"}
_watching: list[list[str]] = []


def _note(event: str, facts: tuple[Any, ...]) -> None:
    # a file that is open already is opened again by its number
    if _watching and event in _VERBS and not isinstance(facts[0], int):
        _watching[-1].append(f"{_VERBS[event]} {facts[0]}")


# Python cannot take an audit hook back: this one listens only within the context below
sys.addaudithook(_note)


@contextmanager
def file_accesses() -> Iterator[list[str]]:
    """The folders listed (``list PATH``) and files opened (``open PATH``) within the context, in their order."""
    seen: list[str] = []
    _watching.append(seen)
    try:
        yield seen
    finally:
        _watching.remove(seen)


QUIET_S: Final = 3.0
"""Spark's maintenance of the states of queries that have ended comes every half second in the tests' session."""


def settled_digest(folder: Path) -> dict[str, str]:
    """Once the maintenance of a query that has just ended has written its snapshots."""
    found = folder_digest(folder)
    while True:
        time.sleep(QUIET_S)
        now = folder_digest(folder)
        if now == found:
            return now
        found = now


def folder_digest(folder: Path) -> dict[str, str]:
    return {
        entry.relative_to(folder).as_posix(): hashlib.sha256(entry.read_bytes()).hexdigest() if entry.is_file() else ""
        for entry in sorted(folder.rglob("*"))
    }
