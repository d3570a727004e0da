"""Types of columns, as far as a spec tells without Spark: declared columns, and expressions of a known shape.

What this module cannot tell is None. Spark is asked about it before a plan is approved.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ALIASES: Final = {
    "integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint", "real": "float", "dec": "decimal",
    "numeric": "decimal", "timestamp_ltz": "timestamp",
}  # fmt: skip
_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_SIMPLE: Final = (*_INTEGERS, "float", "double", "string", "boolean", "date", "timestamp", "binary")
_TEXT_FUNCTIONS: Final = frozenset({"upper", "lower", "trim", "concat", "substring", "substr", "split_part"})
_CALL: Final = re.compile(r"(\w+)\s*\((.*)\)", re.DOTALL)
_CAST: Final = re.compile(r"(.*)\s+as\s+([\w(), <>:]+)", re.DOTALL | re.IGNORECASE)
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_DECLARED: Final = re.compile(
    r"(`[^`]+`|[^\s:]+)\s*[:\s]\s*(.+?)(\s+not\s+null)?(?:\s+comment\s+'.*')?", re.DOTALL | re.IGNORECASE
)
_OPENING, _CLOSING = "(<", ")>"
FIRST_ARGUMENT: Final = frozenset({"coalesce", "ifnull", "nvl"})
"""Functions that give another value for null, of the type of their first argument."""


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """A column of the source: its type as Spark names it, and whether it may be null."""

    type: str
    nullable: bool


def parse_declared_columns(ddl: str | None) -> dict[str, DeclaredColumn]:
    """Parse the columns of a source (``user_id string, ts bigint not null``). A part that is no column is left out."""
    found: dict[str, DeclaredColumn] = {}
    for part in split_arguments(ddl or ""):
        declared = _DECLARED.fullmatch(part.strip())
        if declared is not None:
            name, kind, not_null = declared.groups()
            found[name.strip("`").lower()] = DeclaredColumn(normal_type(kind), nullable=not_null is None)
    return found


def normal_type(kind: str) -> str:
    """Return a type as Spark names it: in lower case, without blanks and aliases."""
    text = re.sub(r"\s+", "", kind.lower())
    base, bracket, rest = text.partition("(")
    base = _ALIASES.get(base, base)
    if base in {"varchar", "char"}:
        return "string"
    return "decimal(10,0)" if base == "decimal" and not bracket else f"{base}{bracket}{rest}"


def name_recorded_type(kind: Any) -> str | None:  # noqa: ANN401  a type in Spark's JSON
    """Return the name of a type in Spark's JSON, None for one with parts."""
    return normal_type(kind) if isinstance(kind, str) else None


def expression_type(expression: str, columns: Mapping[str, DeclaredColumn]) -> str | None:
    """Return the type of an expression: of a column, a cast, a text function, ``coalesce`` of these. Else None."""
    text = expression.strip()
    if (column := columns.get(text.strip("`").lower())) is not None:
        return column.type
    name, inside = _whole_call(text) or ("", "")
    if name in {"cast", "try_cast"} and (cast := _CAST.fullmatch(inside.strip())):
        return normal_type(cast[2])
    if name in FIRST_ARGUMENT:
        return expression_type(next(split_arguments(inside), ""), columns)
    if name in _TEXT_FUNCTIONS:
        return "string"
    return normal_type(name) if name in _SIMPLE or name in _ALIASES else None


def replaces_null(expression: str, other: str) -> bool:
    """Whether ``expression`` is ``other`` with another value in place of null."""
    call = _whole_call(expression.strip())
    if call is None or call[0] not in FIRST_ARGUMENT:
        return False
    return normal_expression(next(split_arguments(call[1]), "")) == normal_expression(other)


def normal_expression(expression: str) -> str:
    """Return an expression without what makes no difference: blanks, and backticks around the whole."""
    return re.sub(r"\s+", " ", expression.strip()).strip("`")


def has_every_value(now: str, before: str) -> bool:
    """Whether type ``now`` has every value of ``before``: the rule by which open events change their type."""
    if now == before:
        return True
    if now in _INTEGERS and before in _INTEGERS:
        return _INTEGERS.index(before) < _INTEGERS.index(now)
    wide, narrow = _DECIMAL.fullmatch(now), _DECIMAL.fullmatch(before)
    if wide is not None and narrow is not None:
        digits = [int(each[1]) - int(each[2]) for each in (wide, narrow)]
        return int(wide[2]) >= int(narrow[2]) and digits[0] >= digits[1]
    return (before, now) == ("float", "double")


def split_arguments(text: str) -> Iterator[str]:
    """Yield the parts between commas, leaving alone commas in brackets and quotes."""
    depth, start, quoted = 0, 0, ""
    for place, letter in enumerate(text):
        if quoted:
            quoted = "" if letter == quoted else quoted
        elif letter in "'\"`":
            quoted = letter
        elif letter == "," and depth == 0:
            yield text[start:place]
            start = place + 1
        else:
            depth += (letter in _OPENING) - (letter in _CLOSING)
    if text[start:].strip():
        yield text[start:]


def _whole_call(text: str) -> tuple[str, str] | None:
    """Return the function and its arguments if the whole text is one call."""
    call = _CALL.fullmatch(text)
    if call is None:
        return None
    depth = 0
    for letter in call[2]:
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            return None
    return call[1].lower(), call[2]
