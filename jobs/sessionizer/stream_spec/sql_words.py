"""The words of an expression in Spark's SQL, as Spark's own lexer divides it.

Text that Spark might divide in another way is no word: a comment, a variable, a letter or a space beyond ASCII. So no
decision about SQL rests on two parsers being equal (docs/adr/0145).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence


class WordKind(StrEnum):
    """The kinds of words."""

    TEXT = "text"
    NAME = "name"
    QUOTED_NAME = "quoted name"
    NUMBER = "number"
    SYMBOL = "symbol"
    UNKNOWN = "unknown"


NAMES: Final = (WordKind.NAME, WordKind.QUOTED_NAME)


@dataclass(frozen=True, slots=True)
class SqlWord:
    """A word of SQL as written, at positions ``start`` to ``end`` of the text."""

    kind: WordKind
    written: str
    start: int
    end: int

    @property
    def name(self) -> str:
        """The word in lower case and without quotes."""
        bare = self.written[1:-1].replace("``", "`") if self.kind is WordKind.QUOTED_NAME else self.written
        return bare.lower()

    @property
    def value(self) -> str:
        """The value of a text."""
        if self.written[0] in "rR":
            return self.written[2:-1]
        return _ESCAPE.sub(_unescape, self.written[1:-1])

    def is_symbol(self, *symbols: str) -> bool:
        """Whether it is a symbol among ``symbols``."""
        return self.kind is WordKind.SYMBOL and self.written in symbols

    def is_name(self, *names: str) -> bool:
        """Whether it is a name among ``names``, not in quotes."""
        return self.kind is WordKind.NAME and self.name in names


_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_CONTROL: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_PATTERN: Final = re.compile(
    r"""
    (?P<comment>--|/\*)
    | (?P<text>\b[rR]'[^']*' | \b[rR]"[^"]*" | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*")
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<number>\d\w*)
    | (?P<name>[^\W\d]\w*)
    | (?P<symbol>\|\||->|=>|<=>|::|[()\[\],.+\-*/%<>=!&|^~:])
    | (?P<space>[ \t\r\n]+)
    | (?P<unknown>.)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_KINDS: Final = {
    "comment": WordKind.UNKNOWN, "text": WordKind.TEXT, "quoted": WordKind.QUOTED_NAME, "number": WordKind.NUMBER,
    "name": WordKind.NAME, "symbol": WordKind.SYMBOL, "unknown": WordKind.UNKNOWN,
}  # fmt: skip


def words_of(sql: str) -> list[SqlWord]:
    """Return the words of ``sql``. Text that is no word has the kind UNKNOWN."""
    return [
        SqlWord(_KINDS[found.lastgroup], found.group(), found.start(), found.end())
        for found in _PATTERN.finditer(sql)
        if found.lastgroup is not None and found.lastgroup != "space"
    ]


def calls(words: Sequence[SqlWord], at: int) -> bool:
    """Tell whether the word at ``at`` is a name with a bracket behind it."""
    return words[at].kind in NAMES and at + 1 < len(words) and words[at + 1].is_symbol("(")


def find_qualified_name(words: Sequence[SqlWord], at: int) -> tuple[int, str]:
    """Return the name that ends at ``at`` with what qualifies it, and the position where it begins."""
    start = at
    while start > 1 and words[start - 1].is_symbol(".") and words[start - 2].kind in NAMES:
        start -= 2
    return start, "".join(word.name for word in words[start : at + 1])


def find_closing(words: Sequence[SqlWord], opening: int) -> int:
    """Return the position at which the brackets opened at ``opening`` close, or the end of ``words`` if they do not."""
    pair = (words[opening].written, {"(": ")", "[": "]", "<": ">"}[words[opening].written])
    depth = 0
    for at in range(opening, len(words)):
        depth += words[at].is_symbol(pair[0]) - words[at].is_symbol(pair[1])
        if not depth:
            return at
    return len(words)


def _unescape(found: re.Match[str]) -> str:
    code, wide, octal, other = found.groups()
    if octal:
        return chr(int(octal, 8))
    if code or wide:
        number = int(code or wide, 16)
        return chr(number) if number <= 0x10FFFF else ""  # noqa: PLR2004  the last of Unicode
    return _CONTROL.get(other, other)
