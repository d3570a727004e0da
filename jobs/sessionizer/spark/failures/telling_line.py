"""The line that names the failure, out of the hundreds of a stack. Users are shown the first line only. Pure.

A failure below the writing of a batch comes as "An exception was raised by the Python Proxy", then the stack of a
Python, then that of a JVM.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_TRACEBACK: Final = "Traceback (most recent call last):"
_THROWN: Final = re.compile(r"(?:[\w.$]+(?:Exception|Error)|Caused by): ")
"""Name of a thrown class. Its message follows."""


def telling_line(text: str, signs: Iterable[str]) -> str | None:
    """Return the line of ``text`` that has one of ``signs``, without the classes around it.

    Without such a line, the last one of a traceback. None if the first line says it.
    """
    first, *others = text.splitlines() or [""]
    known = tuple(signs)
    if any(sign in first for sign in known):
        return None
    # an indented line is a place in a program
    said = [line for line in others if line and not line[0].isspace()]
    found = next((_cut_before_sign(line, sign) for line in said for sign in known if sign in line), None)
    return found or (said[0] if said and first.endswith(_TRACEBACK) else None)


def _cut_before_sign(line: str, sign: str) -> str:
    """Return the last message before the sign, because the names of error classes may be nested."""
    before = line.index(sign)
    begin = max((thrown.end() for thrown in _THROWN.finditer(line, 0, before)), default=0)
    return line[begin:].strip()
