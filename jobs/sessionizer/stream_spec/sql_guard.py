"""The limits of SQL in a spec, and its meaning without Spark, decided on its words before any Spark sees it: pure.

A spec describes the meaning of a row. It does not run code, reads only the row, and gives the same value when the row
is read again. Otherwise a replayed batch would write other rows than the batch that it repeats. Functions must be on a
list, and bare words must be columns or part of the language. Spark then refuses wrong syntax and types.

Two texts are the same expression only if that is certain. In doubt they differ.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final

from sessionizer.stream_spec.sql_words import (
    BEYOND_THE_ROW,
    CLOCK_WITHOUT_ARGUMENTS,
    MAY_FAIL,
    MOMENTARY,
    NAMES,
    NEVER_FAILING,
    OTHER_ROWS,
    REFLECTION,
    SCALAR,
    VARYING,
    SqlWord,
    WordKind,
    calls,
    find_closing,
    find_qualified_name,
    words_of,
)

HIDDEN_COLUMN: Final = "_metadata"
"""A column that Spark adds: the place of the row's file and the time of its last change."""
BUILT_IN: Final = ("", "builtin.", "system.builtin.")
"""Schemas of Spark's own functions."""
SAME_EACH_TIME: Final = "an expression that gives the same value whenever a row is read, not"
_CLOCK: Final = (
    "a row that is delivered again, or read again by another lineage, would get another value. "
    "To use the time of arrival, set rules.time_mode: processing_time"
)
_NO_QUERY: Final = "an expression over the row alone, with no subquery"
_BEFORE_BRACKET_TEXT: Final = """
and array as between both by case char character dec decimal distinct div else escape filter from group ilike in is
leading like map not numeric or order placing regexp rlike struct then trailing varchar when where within
"""
BEFORE_BRACKET: Final = frozenset(_BEFORE_BRACKET_TEXT.split())
"""Words that may precede a bracket without a call. Spark itself has only operators by these names: ``and(a, b)``."""
_LANGUAGE_TEXT: Final = """
all any asc century collate day dayofweek days decade desc dow doy end epoch false first for hour hours ignore interval
isodow isoyear last microsecond microseconds millennium millisecond milliseconds minute minutes month months nanosecond
null nulls quarter respect second seconds some to true unknown week weeks x year years date time timestamp timestamp_ltz
timestamp_ntz
"""
LANGUAGE: Final = BEFORE_BRACKET | frozenset(_LANGUAGE_TEXT.split())
"""Words of the language that are no names."""
_BEHIND_TYPE: Final = ("day", "month", "year", "hour", "minute", "second", "to", "without", "time", "zone", "precision")
_SPECIAL: Final = re.compile(r"\s*(?:now|(?:today|tomorrow|yesterday)\b.*)\s*", re.IGNORECASE | re.DOTALL)
"""Pattern of a constant that Spark reads as a date or time relative to now."""
TIME_OF_DAY: Final = r"\A[\x00-\x20\x7f]*(?:T[0-9]|[0-9]{1,2}:)(?s:.*)"
"""Pattern of a text that Spark reads as a time of the current day, for Python and Java."""
_TIME: Final = re.compile("date|time|day|week|month|year|hour|minute|second|trunc|quarter", re.IGNORECASE)
"""Pattern of the names of functions and types by one of which a text may become a date or time."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns that an expression may name, with their types, "" for one that is unknown.

    ``columns`` is None if the columns are unknown. ``measure``: whether it aggregates the events of a session.
    """

    columns: Mapping[str, str] | None = None
    measure: bool = False

    def has(self, name: str) -> bool:
        """Whether there is a column ``name``, in any case of letters."""
        return any(name == column.lower() for column in self.columns or ())


def refuse_sql(sql: str, scope: Scope) -> str | None:
    """Return what to use instead of ``sql``, or None if it may be resolved."""
    if "${" in sql:
        return "an expression without ${…}, because Spark would replace it by a variable of the driver"
    words = words_of(sql)
    for word in words:
        if word.kind is WordKind.UNKNOWN:
            return f"an expression of plain words, not {word.written!r}"
    refusals = (*_queries(words), *_windows(words, scope), *_calls(words, scope), *_names(words, scope))
    return next(iter(refusals), None) or _moment(words, scope)


def is_relative_moment(constant: str) -> bool:
    """Whether Spark may read the text ``constant`` as a date or time relative to the moment at which it is read."""
    return _SPECIAL.fullmatch(constant) is not None or re.match(TIME_OF_DAY, constant) is not None


def show_columns(columns: Iterable[str]) -> str:
    """Return the names of a source's columns for a message, without the stream's own, which begin with ``_``."""
    return ", ".join(name for name in columns if not name.startswith("_"))


def _queries(words: Sequence[SqlWord]) -> Iterator[str]:
    """Yield a refusal of each word that begins a query. A query is always the first in brackets."""
    for at, word in enumerate(words):
        if word.is_name("select", "using"):
            yield _NO_QUERY
        elif word.is_name("from", "with", "table", "values", "map", "reduce") and 0 < at < len(words) - 1:
            behind = words[at + 1]
            bracket = behind.is_symbol("(") and not word.is_name("map", "reduce")
            signed = word.is_name("values") and behind.is_symbol("-", "+", "~", "!")
            follows = behind.kind is not WordKind.SYMBOL or bracket or signed
            if words[at - 1].is_symbol("(") and follows:
                yield _NO_QUERY


def _windows(words: Sequence[SqlWord], scope: Scope) -> Iterator[str]:
    for before, word in pairwise(words):
        if word.is_name("over") and (before.is_symbol(")") or before.is_name("nulls")):
            over_events = "an aggregate of the session's events, not a window over them"
            yield over_events if scope.measure else "an expression over the row alone, with no window"


def _calls(words: Sequence[SqlWord], scope: Scope) -> Iterator[str]:
    for at, word in enumerate(words):
        if word.is_symbol("(") and at and words[at - 1].is_symbol(")", "]"):
            yield "functions of Spark itself, not the result of a call"
        if word.kind is WordKind.NUMBER and at + 1 < len(words) and words[at + 1].is_symbol("("):
            yield f"functions of Spark itself, not {word.written}"
        if not calls(words, at):
            continue
        _, name = find_qualified_name(words, at)
        if name.removesuffix(word.name) in BUILT_IN:
            name = word.name
        compares = at and words[at - 1].is_name("like", "ilike") and word.is_name("any", "all", "some")
        if name == word.name and (word.is_name(*BEFORE_BRACKET) or compares):
            continue
        if name in CLOCK_WITHOUT_ARGUMENTS and words[at + 2 : at + 3] and words[at + 2].is_symbol(")"):
            yield f"{SAME_EACH_TIME} {name}(), because {_CLOCK}"
        if (refusal := _function(name, scope)) is not None:
            yield refusal


def _function(name: str, scope: Scope) -> str | None:
    if name in SCALAR or (scope.measure and name in NEVER_FAILING):
        return None
    aggregate = f"an expression over the row alone, not the aggregate {name}"
    may_fail = f"aggregates that never fail, not {name}: {', '.join(sorted(NEVER_FAILING))}"
    reads = f"an expression over the row alone, not {name}(), because it reads {BEYOND_THE_ROW.get(name)}"
    reasons = (
        (REFLECTION, f"an expression that calls no Java code, not {name}"),
        (BEYOND_THE_ROW, reads),
        (VARYING, f"{SAME_EACH_TIME} {name}()"),
        (MOMENTARY, f"{SAME_EACH_TIME} {name}(), because {_CLOCK}"),
        (OTHER_ROWS, f"functions that give one value for each row, not {name}"),
        (NEVER_FAILING, aggregate),
        (MAY_FAIL, may_fail if scope.measure else aggregate),
    )
    return next((reason for names, reason in reasons if name in names), f"functions of Spark itself, not {name}")


def _names(words: Sequence[SqlWord], scope: Scope) -> Iterator[str]:
    """Yield a refusal of each bare word that is no column, and of one that Spark takes for something else."""
    excused = _types_and_aliases(words) | _parameters(words)
    variables = {words[at].name for at in _parameters(words)}
    for at, word in enumerate(words):
        if word.kind not in NAMES or calls(words, at) or _is_field(words, at) or at in excused:
            continue
        if scope.has(word.name) or word.name in variables or (word.kind is WordKind.NAME and word.name in LANGUAGE):
            continue
        if scope.columns is not None:
            means = {**dict.fromkeys(MOMENTARY, f"{word.name}()"), HIDDEN_COLUMN: "a hidden column of files"}
            taken = f", so Spark takes it for {means[word.name]}" if word.name in means else ""
            yield f"a column: {show_columns(scope.columns)}. None is called {word.name}{taken}"


def _is_field(words: Sequence[SqlWord], at: int) -> bool:
    # the point behind a number is part of it
    return at > 1 and words[at - 1].is_symbol(".", ":") and words[at - 2].kind is not WordKind.NUMBER


def _types_and_aliases(words: Sequence[SqlWord]) -> set[int]:
    """Return positions of types, new names and schemas: after ``as``, ``::``, ``collate``, before ``=>``, calls."""
    found = {at for at, word in enumerate(words[1:]) if word.is_symbol("=>")}
    for call in range(len(words)):
        if calls(words, call):
            found.update(range(find_qualified_name(words, call)[0], call))
    for at, word in enumerate(words[:-1], 1):
        if not (word.is_name("as", "collate") or word.is_symbol("::")):
            continue
        found.add(at)
        if words[at].is_name("array", "map", "struct") and at + 1 < len(words) and words[at + 1].is_symbol("<"):
            found.update(range(at, find_closing(words, at + 1)))
        behind = at + 1
        while behind < len(words) and words[behind].is_name(*_BEHIND_TYPE):
            found.add(behind)
            behind += 1
    return found


def _parameters(words: Sequence[SqlWord]) -> set[int]:
    """Return the positions of the names that lambdas give: ``x -> …`` and ``(x, y) -> …``."""
    found: set[int] = set()
    for at, word in enumerate(words):
        if not word.is_symbol("->"):
            continue
        before = at - 1
        if words[before].is_symbol(")"):
            while before > 0 and not words[before].is_symbol("("):
                before -= 1
        found.update(range(before, at))
    return {at for at in found if words[at].kind in NAMES}


def _moment(words: Sequence[SqlWord], scope: Scope) -> str | None:
    """Return the refusal of a text such as 'now' that Spark may read as a date or time."""
    if not any(_may_be_time(words, at, scope) for at in range(len(words))):
        return None
    for is_text, group in groupby(words, lambda word: word.kind is WordKind.TEXT):
        texts = list(group)
        # Spark joins texts side by side
        if is_text and _SPECIAL.fullmatch("".join(word.value for word in texts)):
            return f"{SAME_EACH_TIME} {' '.join(word.written for word in texts)}, because {_CLOCK}"
    for kind, text in pairwise(words):
        # a literal, which Spark's parser reads by the clock
        is_literal = kind.is_name("timestamp", "timestamp_ltz") and text.kind is WordKind.TEXT
        if is_literal and is_relative_moment(text.value):
            return f"{SAME_EACH_TIME} {kind.written} {text.written}, because {_CLOCK}"
    return None


def _may_be_time(words: Sequence[SqlWord], at: int, scope: Scope) -> bool:
    """Tell whether the word at ``at`` may make a date or time of a text beside it."""
    word = words[at]
    if word.kind is WordKind.TEXT:
        # the schema of a parsed text, or a part of 'to' 'day'
        return _TIME.search(word.value) is not None and not _SPECIAL.fullmatch(word.value)
    if word.kind not in NAMES or _is_field(words, at):
        return False
    if calls(words, at) or not scope.has(word.name):
        return _TIME.search(word.name) is not None
    kinds = (kind for column, kind in (scope.columns or {}).items() if column.lower() == word.name)
    return any(_TIME.search(kind) for kind in kinds)


_MEANS_MORE: Final = LANGUAGE | MOMENTARY | frozenset(BEYOND_THE_ROW) | {"over", "select", "with"}
"""Names that Spark may take for another thing without their quotes."""


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
        is_naming = word.kind in NAMES and word.name in {"struct", "arrays_zip"}
        if is_struct or is_naming or (depth == 0 and word.is_symbol(",")):
            return True
        depth += word.is_symbol("(", "[") - word.is_symbol(")", "]")
    return False


def _join(before: SqlWord, word: SqlWord) -> bool:
    """Whether a blank between two words might change their meaning. Brackets and commas never join."""
    both = before.kind is WordKind.SYMBOL and word.kind is WordKind.SYMBOL
    joins = both and not {before.written, word.written} & set("()[],")
    return joins or before.is_symbol(".") or word.is_symbol(".")


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


def paths_in(sql: str) -> list[tuple[str, ...]] | None:
    """Return the dotted names in ``sql`` that may be columns, in lower case. None if its words are not certain."""
    words, found = words_of(sql), list[tuple[str, ...]]()
    if any(word.kind is WordKind.UNKNOWN for word in words):
        return None
    for at, word in enumerate(words):
        if word.kind not in NAMES or (at and words[at - 1].is_symbol(".")) or calls(words, at):
            continue
        path, end = [word.name], at + 1
        while end + 1 < len(words) and words[end].is_symbol(".") and words[end + 1].kind in NAMES:
            path.append(words[end + 1].name)
            end += 2
        found.append(tuple(path))
    return found
