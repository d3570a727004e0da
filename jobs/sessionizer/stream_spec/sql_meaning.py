"""Meaning of SQL without Spark: whether two texts are the same expression, and the columns that one names. Pure.

Two texts are the same expression only if that is certain. In doubt they differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionizer.stream_spec.sql_functions import BEYOND_THE_ROW, MOMENTARY
from sessionizer.stream_spec.sql_guard import LANGUAGE
from sessionizer.stream_spec.sql_words import NAMES, WordKind, calls, find_closing, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sessionizer.stream_spec.sql_words import SqlWord

_MEANS_MORE: Final = LANGUAGE | frozenset(MOMENTARY) | frozenset(BEYOND_THE_ROW) | frozenset({"over", "select", "with"})
"""Names that Spark may take for another thing without their quotes."""
_NAMING: Final = frozenset({"struct", "arrays_zip"})
_APART: Final = frozenset("()[],")
"""Symbols that never join with the next one to another symbol."""


def normal_sql(sql: str) -> str:
    """Return ``sql`` in a form that is the same for texts which surely mean the same.

    Blanks, quotes around a plain name, the case of names and brackets around the whole make no difference.
    """
    words = words_of(sql)
    if any(word.kind is WordKind.UNKNOWN for word in words):
        return sql.strip()
    while words and words[0].is_symbol("(") and find_closing(words, 0) == len(words) - 1:
        words = words[1:-1]
    keep_case = _names_fields(words)
    found = ""
    for at, word in enumerate(words):
        is_joined = at > 0 and words[at - 1].end == word.start and _join(words[at - 1], word)
        found += f"{'' if is_joined or not found else ' '}{_normal_word(words, at, keep_case=keep_case)}"
    return found


def _names_fields(words: Sequence[SqlWord]) -> bool:
    """Whether a struct may take names from columns as written: ``struct(A)``, ``arrays_zip(A)``, ``(A, b)``."""
    depth = 0
    for at, word in enumerate(words):
        is_struct = word.is_symbol("(") and not (at and words[at - 1].kind in NAMES)
        if is_struct or (depth == 0 and word.is_symbol(",")) or (word.kind in NAMES and word.name in _NAMING):
            return True
        depth += word.is_symbol("(", "[") - word.is_symbol(")", "]")
    return False


def _join(before: SqlWord, word: SqlWord) -> bool:
    """Whether a blank between two words might change their meaning."""
    if before.is_symbol(".") or word.is_symbol("."):
        return True
    both = before.kind is WordKind.SYMBOL and word.kind is WordKind.SYMBOL
    return both and not {before.written, word.written} & _APART


def _normal_word(words: Sequence[SqlWord], at: int, *, keep_case: bool) -> str:
    """Return a word. The name behind a point may be the key of a map, and a key has its case."""
    word = words[at]
    if word.kind not in NAMES:
        return word.written
    bare = word.written.strip("`")
    if not keep_case and not (at and words[at - 1].is_symbol(".", ":")):
        bare = bare.lower()
    if word.kind is WordKind.NAME:
        return bare
    is_plain = bare.isidentifier() and bare.isascii() and word.name not in _MEANS_MORE
    before_text = at + 1 < len(words) and words[at + 1].kind is WordKind.TEXT
    return bare if is_plain and not before_text and not calls(words, at) else word.written


def paths_in(sql: str) -> Iterator[tuple[str, ...]] | None:
    """Return the dotted names in ``sql`` that may be columns, in lower case. None if its words are not certain."""
    words = words_of(sql)
    return None if any(word.kind is WordKind.UNKNOWN for word in words) else _paths(words)


def _paths(words: Sequence[SqlWord]) -> Iterator[tuple[str, ...]]:
    for at, word in enumerate(words):
        if word.kind not in NAMES or (at and words[at - 1].is_symbol(".")) or calls(words, at):
            continue
        path, end = [word.name], at + 1
        while end + 1 < len(words) and words[end].is_symbol(".") and words[end + 1].kind in NAMES:
            path.append(words[end + 1].name)
            end += 2
        yield tuple(path)
