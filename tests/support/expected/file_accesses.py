"""What a piece of code asks of the file system: the measure of "cheap" that is the same on every machine."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

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
