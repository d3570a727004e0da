"""Types of columns, as far as a spec tells without Spark: declared columns, and expressions of a known shape.

What this module cannot tell is None. Spark is asked about it before a plan is approved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sessionizer.stream_spec.sql_guard import normal_sql, paths_in
from sessionizer.stream_spec.sql_words import NAMES, SqlWord, WordKind, find_closing, words_of

_ALIASES: Final = {
    "integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint", "real": "float", "dec": "decimal",
    "numeric": "decimal", "timestamp_ltz": "timestamp", "varchar": "string", "char": "string", "character": "string",
}  # fmt: skip
"""Other names of a type."""
_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_SIMPLE: Final = (*_INTEGERS, "float", "double", "string", "boolean", "date", "timestamp", "timestamp_ntz", "binary")
_TEXT_FUNCTIONS: Final = frozenset({"upper", "lower", "trim", "concat", "substring", "substr", "split_part"})
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_STRUCT, _ARRAY, _MAP = "struct", "array", "map"
FIRST_ARGUMENT: Final = frozenset({"coalesce", "ifnull", "nvl"})
"""Functions that give another value for null."""


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A type as Spark names it: ``int``, ``decimal(10,2)``, or ``struct``, ``array``, ``map`` with ``parts`` by name.

    The parts of an array and a map are ``element``, ``key`` and ``value``. An empty ``name`` is a type that is unknown.
    """

    name: str
    parts: tuple[tuple[str, ColumnType], ...] = ()

    def __str__(self) -> str:
        named = self.name == _STRUCT
        inside = ", ".join(f"{name}: {part}" if named else str(part) for name, part in self.parts)
        return f"{self.name}<{inside}>" if self.parts else self.name or "unknown"

    @property
    def kept(self) -> ColumnType:
        """The type in which open events keep it."""
        name = "timestamp" if self.name == "timestamp_ntz" else self.name
        return ColumnType(name, tuple((field, part.kept) for field, part in self.parts))

    def part(self, name: str) -> ColumnType | None:
        """Return the type of ``.name`` behind a value: a field, the fields of each element, a value of a map."""
        parts = dict(self.parts)
        if self.name == _ARRAY:
            inside = parts["element"].part(name)
            return None if inside is None else ColumnType(_ARRAY, (("element", inside),))
        if self.name == _MAP:
            return parts["value"]
        return next((kind for field, kind in self.parts if field.lower() == name.lower()), None)


UNKNOWN: Final = ColumnType("")
_OF_INTEGERS: Final = frozenset(map(ColumnType, _INTEGERS))
_DIGITS_OF_INT: Final = 10


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """A column of the source: its type, and whether it may be null."""

    type: ColumnType
    nullable: bool


class PartKind(StrEnum):
    """Change of a part of a type."""

    ADDED = "added"
    DROPPED = "dropped"
    WIDENED = "widened"
    NARROWED = "narrowed"
    OTHER = "of another type"


@dataclass(frozen=True, slots=True)
class ChangedPart:
    """A part of a type that changed: the ``path`` to it, both types there, None for one that is not there."""

    path: str
    kind: PartKind
    before: ColumnType | None
    now: ColumnType | None


def changed_parts(before: ColumnType, now: ColumnType, path: str = "") -> Iterator[ChangedPart]:
    """Yield each changed part of a type: a field of a struct at any depth, or the whole. An unknown part is the same.

    Fields are known by their names, with their case, because open events are read so.
    """
    if before == now or UNKNOWN in {before, now}:
        return
    if before.name == now.name and before.parts:
        was, is_ = dict(before.parts), dict(now.parts)
        for name in {**was, **is_}:
            inside = f"{path}.{name}" if path else name
            if name not in is_:
                yield ChangedPart(inside, PartKind.DROPPED, was[name], None)
            elif name not in was:
                yield ChangedPart(inside, PartKind.ADDED, None, is_[name])
            else:
                yield from changed_parts(was[name], is_[name], inside)
        return
    kind = PartKind.WIDENED if _widens(before.name, now.name) else (
        PartKind.NARROWED if _widens(now.name, before.name) else PartKind.OTHER
    )  # fmt: skip
    yield ChangedPart(path, kind, before, now)


def _widens(before: str, now: str) -> bool:
    """Whether the simple type ``now`` has every value of another, ``before``."""
    if now in _INTEGERS and before in _INTEGERS:
        return _INTEGERS.index(before) < _INTEGERS.index(now)
    wide, narrow = _DECIMAL.fullmatch(now), _DECIMAL.fullmatch(before)
    if wide is not None and narrow is not None:
        digits = [int(each[1]) - int(each[2]) for each in (wide, narrow)]
        return int(wide[2]) >= int(narrow[2]) and digits[0] >= digits[1]
    return (before, now) == ("float", "double")


def carry_over(sql: str, before: ColumnType, now: ColumnType, depth: int = 0) -> str:
    """Return the SQL that makes a value of type ``now`` of ``sql``, a value of type ``before``.

    A struct that lost a field and got another of the same type has renamed it. Other new fields are null.
    """
    if not any(changed_parts(before, now)):
        return sql
    each = f"x{depth or ''}"
    was, is_ = dict(before.parts), dict(now.parts)
    match before.name, now.name:
        case ("struct", "struct"):
            gone = [name for name in was if name not in is_]
            fields = []
            for name, kind in is_.items():
                renamed = next((old for old in gone if name not in was and was[old] == kind), None)
                if renamed is not None:
                    gone.remove(renamed)
                source = name if name in was else renamed
                found = carry_over(f"{sql}.`{source}`", was[source], kind, depth) if source else f"cast(null as {kind})"
                fields += [f"'{name}'", found]
            return f"if({sql} is null, null, named_struct({', '.join(fields)}))"
        case ("array", "array"):
            return f"transform({sql}, {each} -> {carry_over(each, was['element'], is_['element'], depth + 1)})"
        case ("map", "map") if not any(changed_parts(was["key"], is_["key"])):
            inner = carry_over(each, was["value"], is_["value"], depth + 1)
            return f"transform_values({sql}, (k{depth or ''}, {each}) -> {inner})"
    return f"try_cast({sql} as {now})"


def parse_declared_columns(ddl: str | None) -> dict[str, DeclaredColumn]:
    """Parse the columns of a source (``user_id string, ts bigint not null``). A part that is no column is left out."""
    found: dict[str, DeclaredColumn] = {}
    for part in _split(words_of(ddl or "")):
        if part[0].kind in (*NAMES, WordKind.NUMBER):
            bare = part[1:]
            nullable = not any(word.is_name("not") for word in bare)
            found[part[0].name] = DeclaredColumn(_type_of(bare) or _unreadable(bare), nullable)
    return found


def declared_columns(source: Mapping[str, Any]) -> dict[str, DeclaredColumn]:
    """Return the columns that the block ``source`` of a spec declares, itself or by its schema."""
    return parse_declared_columns(source.get("columns") or (source.get("schema") or {}).get("columns"))


def read_recorded_type(kind: Any) -> ColumnType | None:  # noqa: ANN401  a type in Spark's JSON
    """Return a type in Spark's JSON. None for one that is unknown here."""
    match kind:
        case str():
            return _type_of(words_of(kind))
        case {"type": "struct", "fields": list(fields)}:
            parts = [(str(each["name"]), read_recorded_type(each["type"])) for each in fields]
        case {"type": "array", "elementType": element}:
            parts = [("element", read_recorded_type(element))]
        case {"type": "map", "keyType": key, "valueType": value}:
            parts = [("key", read_recorded_type(key)), ("value", read_recorded_type(value))]
        case _:
            return None
    return ColumnType(str(kind["type"]), tuple((name, part or UNKNOWN) for name, part in parts))


def _type_of(words: Sequence[SqlWord]) -> ColumnType | None:
    """Return the type at the beginning of ``words``. ``not null`` and a comment may follow."""
    words = words[1:] if words and words[0].is_symbol(":") else words
    if not words or words[0].kind is not WordKind.NAME:
        return None
    name, end, parts = _ALIASES.get(words[0].name, words[0].name), 1, tuple[tuple[str, ColumnType], ...]()
    if len(words) > 1 and words[1].is_symbol("<", "("):
        end = find_closing(words, 1) + 1
        inside = list(_split(words[2 : end - 1]))
        if words[1].written == "<":
            found = _parts_of(name, inside)
            if found is None:
                return None
            parts = found
        elif name != "string":
            name += f"({','.join(''.join(word.written for word in each) for each in inside)})"
    rest = " ".join(word.name for word in words[end:] if word.kind is not WordKind.TEXT)
    if rest not in {"", "not null", "comment", "not null comment"}:
        return None
    if name == "decimal":
        name = "decimal(10,0)"
    elif _DECIMAL.fullmatch(f"{name[:-1]},0)"):
        name = f"{name[:-1]},0)"
    known = name in _SIMPLE or _DECIMAL.fullmatch(name) or parts
    return ColumnType(name, parts) if known else None


def _parts_of(name: str, inside: Sequence[Sequence[SqlWord]]) -> tuple[tuple[str, ColumnType], ...] | None:
    if name == _STRUCT:
        return tuple((_bare(each[0]), _type_of(each[1:]) or _unreadable(each[1:])) for each in inside)
    names = {_ARRAY: ("element",), _MAP: ("key", "value")}.get(name, ())
    if not names or len(names) != len(inside):
        return None
    return tuple((part, _type_of(each) or _unreadable(each)) for part, each in zip(names, inside, strict=True))


def _unreadable(words: Sequence[SqlWord]) -> ColumnType:
    """Return a type that differs from every other text."""
    return ColumnType(" ".join(word.written.lower() for word in words))


def _bare(word: SqlWord) -> str:
    return word.written.strip("`")


def expression_type(expression: str, columns: Mapping[str, DeclaredColumn]) -> ColumnType | None:
    """Return the type of a column or a part of it, a cast, a text function, a struct, an array or a map. Else None."""
    return _typed(words_of(expression), columns)


def _typed(words: Sequence[SqlWord], columns: Mapping[str, DeclaredColumn]) -> ColumnType | None:
    while words and words[0].is_symbol("(") and find_closing(words, 0) == len(words) - 1:
        words = words[1:-1]
    if len(words) == 1 and words[0].kind is WordKind.TEXT:
        return ColumnType("string")
    if len(words) == 1 and words[0].written.isdecimal() and len(words[0].written) < _DIGITS_OF_INT:
        return ColumnType("int")
    if len(words) > 2 and words[-2].is_symbol("::") and (_whole_path(words[:-2]) or _whole_call(words[:-2])):  # noqa: PLR2004
        return _type_of(words[-1:])
    if (call := _whole_call(words)) is not None:
        return _type_of_call(*call, columns)
    path = _whole_path(words)
    return resolve_path(path, columns) if path else None


def _type_of_call(
    name: str, arguments: Sequence[Sequence[SqlWord]], columns: Mapping[str, DeclaredColumn]
) -> ColumnType | None:
    types = [_typed(each, columns) or UNKNOWN for each in arguments]
    if name in {"cast", "try_cast"} and len(arguments) == 1:
        return _type_of(arguments[0][_as_in(arguments[0]) + 1 :])
    if name in FIRST_ARGUMENT and types:
        # of types that differ Spark makes a third one, but for integers
        integers = sorted({each.name for each in types}, key=_INTEGERS.index) if {*types} <= _OF_INTEGERS else []
        return ColumnType(integers[-1]) if integers else (types[0] if {*types} == {types[0]} - {UNKNOWN} else None)
    if name in _TEXT_FUNCTIONS:
        return ColumnType("string")
    return _constructed(name, arguments, types) or (_type_of(words_of(name)) if name in (*_SIMPLE, "decimal") else None)


def _constructed(name: str, arguments: Sequence[Sequence[SqlWord]], types: Sequence[ColumnType]) -> ColumnType | None:
    names, one_entry = arguments[::2], 2
    if name == "named_struct" and len(types) % 2 == 0 and all(len(each) == 1 for each in names):
        is_named = all(each[0].kind is WordKind.TEXT for each in names)
        found = tuple(zip((each[0].value for each in names), types[1::2], strict=True)) if is_named else ()
        return ColumnType(_STRUCT, found) if found else None
    if name == _STRUCT and types and all(map(_whole_path, arguments)):
        return ColumnType(_STRUCT, tuple(zip((_bare(each[-1]) for each in arguments), types, strict=True)))
    if name == _ARRAY and types and len(set(types)) == 1:
        return ColumnType(_ARRAY, (("element", types[0]),))
    if name == _MAP and len(types) == one_entry:
        return ColumnType(_MAP, (("key", types[0]), ("value", types[1])))
    return None


def _as_in(words: Sequence[SqlWord]) -> int:
    """Return the place of the last ``as`` of a cast, or the end."""
    return next((at for at in reversed(range(len(words))) if words[at].is_name("as")), len(words))


def is_path(expression: str) -> bool:
    """Whether the expression is a column, or a part of one by its dotted name."""
    return _whole_path(words_of(expression)) is not None


def resolve_path(path: Sequence[str], columns: Mapping[str, DeclaredColumn]) -> ColumnType | None:
    """Return the type of a column, or of a part of it, by its dotted name. None if there is none."""
    column = columns.get(path[0].lower())
    found = None if column is None else column.type
    for name in path[1:]:
        found = None if found is None else found.part(name)
    return found


def reads_other_type(
    expression: str, before: Mapping[str, DeclaredColumn], now: Mapping[str, DeclaredColumn]
) -> str | None:
    """Return the first column in ``expression``, or part of one, whose type changed. None if none did.

    A column that is the whole expression may become a longer integer, because its values stay as they are.
    """
    paths = paths_in(expression)
    if paths is None:
        return None if before == now else "a column"
    is_alone = is_path(expression)
    for path in paths:
        was, is_ = resolve_path(path, before), resolve_path(path, now)
        is_longer = was is not None and is_ is not None and was.name in _INTEGERS and _widens(was.name, is_.name)
        if was != is_ and not (is_alone and is_longer):
            return ".".join(path)
    return None


def replaces_null(expression: str, other: str) -> bool:
    """Whether ``expression`` is ``other`` with another value in place of null."""
    call = _whole_call(words_of(expression))
    if call is None or call[0] not in FIRST_ARGUMENT or not call[1]:
        return False
    first = call[1][0]
    return normal_sql(expression[first[0].start : first[-1].end]) == normal_sql(other)


def strip_cast(expression: str) -> str:
    """Return the normal form of what an expression casts to another type, or of itself."""
    words = words_of(expression)
    call = _whole_call(words)
    if call is None or len(call[1]) != 1:
        return normal_sql(expression)
    inside = list(call[1][0])
    if call[0] in {"cast", "try_cast"}:
        inside = inside[: _as_in(inside)]
    elif call[0] not in _SIMPLE:
        return normal_sql(expression)
    return strip_cast(expression[inside[0].start : inside[-1].end]) if inside else normal_sql(expression)


def _split(words: Sequence[SqlWord]) -> Iterator[Sequence[SqlWord]]:
    """Yield the words between commas, leaving alone commas in brackets."""
    depth, start = 0, 0
    for at, word in enumerate(words):
        if word.is_symbol(",") and depth == 0:
            if at > start:
                yield words[start:at]
            start = at + 1
        depth += word.is_symbol("(", "[", "<") - word.is_symbol(")", "]", ">")
    if words[start:]:
        yield words[start:]


def _whole_call(words: Sequence[SqlWord]) -> tuple[str, Sequence[Sequence[SqlWord]]] | None:
    """Return the function and its arguments if the whole text is one call."""
    if len(words) < 3 or words[0].kind is not WordKind.NAME or not words[1].is_symbol("("):  # noqa: PLR2004  f ( )
        return None
    if find_closing(words, 1) != len(words) - 1:
        return None
    return words[0].name, list(_split(words[2:-1]))


def _whole_path(words: Sequence[SqlWord]) -> list[str] | None:
    names = words[::2]
    is_dotted = len(words) % 2 == 1 and all(point.is_symbol(".") for point in words[1::2])
    return [_bare(word) for word in names] if is_dotted and all(word.kind in NAMES for word in names) else None
