"""The limits of SQL in a spec, decided on its words alone, for a Spark whose parser cannot be called. Pure.

Words tell less than a tree. An unclear word is refused, never let through: a comment, a character that is not SQL's, a
call by anything but a plain name. The rules are those of ``expression_rules``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from sessionizer.stream_spec.expression_rules import (
    BEYOND_THE_ROW,
    BUILT_IN,
    CLOCK,
    HIDDEN_COLUMN,
    REFLECTION,
    SAME_EACH_TIME,
    SPECIAL,
    describe_refusal,
    shown_columns,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence


class Kind(StrEnum):
    """The kinds of words."""

    TEXT = "text"
    NAME = "name"
    QUOTED_NAME = "quoted name"
    NUMBER = "number"
    SYMBOL = "symbol"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Word:
    """A word of SQL as written, at positions ``start`` to ``end`` of the text."""

    kind: Kind
    written: str
    start: int
    end: int

    @property
    def name(self) -> str:
        """The word in lower case and without quotes."""
        return self.written.strip("`").lower()

    def is_symbol(self, *symbols: str) -> bool:
        """Whether it is a symbol among ``symbols``."""
        return self.kind is Kind.SYMBOL and self.written in symbols

    def is_name(self, *names: str) -> bool:
        """Whether it is a name among ``names``, not in quotes."""
        return self.kind is Kind.NAME and self.name in names


_PATTERN: Final = re.compile(
    r"""
    (?P<comment>--|/\*)
    | (?P<text>\b[rR]'[^']*' | \b[rR]"[^"]*" | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*")
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<number>\d\w*)
    | (?P<name>[^\W\d]\w*)
    | (?P<symbol>\|\||->|=>|<=>|::|[()\[\],.+\-*/%<>=!&|^~:])
    | (?P<space>\s+)
    | (?P<unknown>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS: Final = {
    "comment": Kind.UNKNOWN, "text": Kind.TEXT, "quoted": Kind.QUOTED_NAME, "number": Kind.NUMBER, "name": Kind.NAME,
    "symbol": Kind.SYMBOL, "unknown": Kind.UNKNOWN,
}  # fmt: skip
_NAMES: Final = (Kind.NAME, Kind.QUOTED_NAME)
_QUERY: Final = ("select", "table", "values")
_BEGINS_QUERY: Final = ("from", "with", "map", "reduce")
_GRAMMAR_TEXT: Final = """
and any array all as between both by case cast char character date_diff dateadd datediff dec decimal distinct else
escape extract filter from group having ilike in interval is leading like map not numeric on or order overlay position
regexp rlike separator similar some string struct substring then timestampadd timestampdiff trailing trim try_cast
varchar when where within
"""
_GRAMMAR: Final = frozenset(_GRAMMAR_TEXT.split())
"""Words that may precede a bracket without a call, and calls that are part of the language."""
_VARYING_TEXT: Final = """
input_file_block_length input_file_block_start input_file_name monotonically_increasing_id rand randn random
randstr shuffle spark_partition_id uniform uuid
"""
VARYING: Final = frozenset(_VARYING_TEXT.split())
_MOMENTARY_TEXT: Final = """
curdate current_catalog current_database current_date current_path current_schema current_time current_timestamp
current_timezone current_user localtimestamp now session_user user
"""
MOMENTARY: Final = frozenset(_MOMENTARY_TEXT.split())
_CLOCK_WITHOUT_ARGUMENTS: Final = frozenset({"unix_timestamp", "to_unix_timestamp"})


def words_of(sql: str) -> list[Word]:
    """Return the words of ``sql``. Text that is no word has the kind UNKNOWN."""
    return [
        Word(_KINDS[found.lastgroup], found.group(), found.start(), found.end())
        for found in _PATTERN.finditer(sql)
        if found.lastgroup is not None and found.lastgroup != "space"
    ]


def forbidden_word(sql: str, built_in: Collection[str]) -> str | None:
    """Return the refusal of a word that reads more than the row, or None.

    ``built_in`` are names of Spark's own functions.
    """
    words = words_of(sql)
    for at, word in enumerate(words):
        if word.kind is Kind.UNKNOWN:
            return f"an expression of plain words, not {word.written!r}"
        is_field = at > 0 and words[at - 1].is_symbol(".")
        if (word.is_name(*_QUERY) and not is_field) or (word.is_name(*_BEGINS_QUERY) and _opens(words, at)):
            return "an expression over the row alone, with no subquery"
    for name in called(words):
        if name in REFLECTION:
            return f"an expression that calls no Java code, not {name}"
        if name in BEYOND_THE_ROW:
            return describe_refusal(name)
        if name not in built_in and name not in _GRAMMAR and name != "over":
            return f"functions of Spark itself, not {name}"
    return None


def window_word(sql: str) -> str | None:
    """Return the word that makes ``sql`` a window over several rows, or None."""
    words = words_of(sql)
    after = (word for before, word in pairwise(words) if before.is_symbol(")"))
    return "over" if any(word.is_name("over") for word in after) else None


def changing_word(sql: str, columns: Collection[str]) -> str | None:
    """Return the refusal of a part of ``sql`` whose value may change when the row is read again, or None.

    ``columns`` are names that count as columns if they are not called.
    """
    words, own = words_of(sql), {name.lower() for name in columns}
    for at, word in enumerate(words):
        calls = _calls(words, at)
        if calls and word.name in VARYING:
            return f"{SAME_EACH_TIME} {word.name}()"
        is_column = word.name in own or (at and words[at - 1].is_symbol("."))
        if word.kind in _NAMES and word.name in MOMENTARY and calls:
            return f"{SAME_EACH_TIME} {word.name}(), because {CLOCK}"
        if word.kind in _NAMES and word.name in MOMENTARY and not is_column:
            return no_column(word.name, columns)
        if calls and word.name in _CLOCK_WITHOUT_ARGUMENTS and words[at + 2].is_symbol(")"):
            return f"{SAME_EACH_TIME} {word.name}(), because {CLOCK}"
        if word.kind is Kind.TEXT and SPECIAL.match(word.written.lstrip("rR")[1:-1]):
            return f"{SAME_EACH_TIME} {word.written}, because {CLOCK}"
    return None


def no_column_word(sql: str, columns: Collection[str]) -> str | None:
    """Find a word that is no column and that Spark reads as something else. Return the refusal, or None.

    Then ``user`` is ``current_user()``, and ``_metadata`` the file of the row.
    """
    words, own = words_of(sql), {name.lower() for name in columns}
    for at, word in enumerate(words):
        is_field = at > 0 and words[at - 1].is_symbol(".")
        taken = word.name in MOMENTARY or word.name == HIDDEN_COLUMN
        if word.kind in _NAMES and taken and not (is_field or word.name in own or _calls(words, at)):
            return no_column(word.name, columns)
    return None


def no_column(name: str, columns: Collection[str]) -> str:
    """Return the refusal of ``name``, which is no column, with the columns that exist."""
    means = "a hidden column of files" if name == HIDDEN_COLUMN else f"{name}()"
    return f"a column: {shown_columns(columns)}. None is called {name}, so Spark takes it for {means}"


def called(words: Sequence[Word]) -> Iterator[str]:
    """Yield the names that ``words`` call. Spark's own functions come without their schema."""
    for at in range(len(words)):
        if not _calls(words, at):
            if words[at].is_symbol("(") and at and words[at - 1].is_symbol(")", "]"):
                yield "the result of a call"
            continue
        start = at
        while start > 1 and words[start - 1].is_symbol(".") and words[start - 2].kind in _NAMES:
            start -= 2
        qualified = "".join(word.name for word in words[start : at + 1])
        schema = qualified.removesuffix(words[at].name)
        yield words[at].name if schema in BUILT_IN else qualified


def _calls(words: Sequence[Word], at: int) -> bool:
    return words[at].kind in _NAMES and at + 1 < len(words) and words[at + 1].is_symbol("(")


def _opens(words: Sequence[Word], at: int) -> bool:
    """Whether the word is the first in brackets, and a name follows."""
    followed = at + 1 < len(words) and words[at + 1].kind in _NAMES
    return followed and at > 0 and words[at - 1].is_symbol("(")
