"""Of the hundreds of lines of a failure the one that says what failed: people are shown the first line. Pure.

What fails below the writing of a batch comes as "An exception was raised by the Python Proxy", then the stack of a
Python, then that of a JVM.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_TRACEBACK: Final = "Traceback (most recent call last):"
_THROWN: Final = re.compile(r"(?:[\w.$]+(?:Exception|Error)|Caused by): ")
"""Names what was thrown; what is said of it follows."""


def telling_line(text: str, signs: Iterable[str]) -> str | None:
    """The line of ``text`` that has one of ``signs``, without the classes around it; else what a traceback ends with.

    None where the first line says it.
    """
    first, *others = text.splitlines() or [""]
    known = tuple(signs)
    if any(sign in first for sign in known):
        return None
    # what is indented is a place in a program
    said = [line for line in others if line and not line[0].isspace()]
    found = next((_from_sign(line, sign) for line in said for sign in known if sign in line), None)
    return found or (said[0] if said and first.endswith(_TRACEBACK) else None)


def _from_sign(line: str, sign: str) -> str:
    """What was said last before the sign begins: classes of errors may stand one within the other."""
    before = line.index(sign)
    begin = max((thrown.end() for thrown in _THROWN.finditer(line, 0, before)), default=0)
    return line[begin:].strip()
