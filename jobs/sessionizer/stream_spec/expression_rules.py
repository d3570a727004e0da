"""The limits of SQL in a spec, decided on the parts of an expression: pure.

A spec describes the meaning of a row. It does not run code, reads only the row, and gives the same value when the row
is read again. Otherwise a replayed batch would write other rows than the batch that it repeats.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

REFLECTION: Final = frozenset({"reflect", "java_method", "try_reflect"})
BEYOND_THE_ROW: Final = {
    "version": "the version of Spark, which another driver may not have",
    "from_protobuf": "a file that describes a message",
    "to_protobuf": "a file that describes a message",
}
"""Functions of Spark that read more than their arguments, and what they read."""

HIDDEN_COLUMN: Final = "_metadata"
"""A column that Spark adds: the place of the row's file and the time of its last change."""

QUERIES: Final = frozenset({"ScalarSubquery", "Exists", "ListQuery", "LateralSubquery"})
WINDOWS: Final = frozenset({"WindowExpression", "UnresolvedWindowExpression"})
BUILT_IN: Final = ("", "builtin.", "system.builtin.")

SAME_EACH_TIME: Final = "an expression that gives the same value whenever a row is read, not"
CLOCK: Final = (
    "a row that is delivered again, or read again by another lineage, would get another value. "
    "To use the time of arrival, set rules.time_mode: processing_time"
)
_DATETIME: Final = re.compile("date|timestamp")
SPECIAL: Final = re.compile(r"\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
"""Pattern of a text that Spark reads as a date or time relative to now."""
_TYPED_SPECIAL: Final = re.compile(
    r"\b(?:date|timestamp(?:_ntz|_ltz)?)\s*(['\"])\s*(?:now|today|tomorrow|yesterday)\b[^'\"]*\1", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Node:
    """A part of an expression.

    ``kind``: the name of Spark's class for it. ``parent``: the position of the enclosing part, -1 for none.
    ``function``: the function that it calls by name. ``value``: a literal's value. ``type``: the type of a literal or a
    cast.
    """

    kind: str
    parent: int
    function: str = ""
    value: str = ""
    type: str = ""


def nodes_of(parts: Iterable[dict[str, Any]]) -> list[Node]:
    """Return the nodes of an expression from Spark's JSON. Parents come first, each with the number of its children."""
    nodes: list[Node] = []
    owed: list[list[int]] = []
    for part in parts:
        parent = owed[-1][0] if owed else -1
        if owed:
            owed[-1][1] -= 1
        nodes.append(_node(part, parent))
        owed.append([len(nodes) - 1, int(part["num-children"])])
        while owed and not owed[-1][1]:
            owed.pop()
    return nodes


def _node(part: dict[str, Any], parent: int) -> Node:
    names = str(part.get("nameParts", "")).strip("[]").split(", ")
    kind = str(part["class"]).rpartition(".")[2]
    return Node(
        kind=kind,
        parent=parent,
        function=".".join(names).lower() if kind == "UnresolvedFunction" else "",
        value=str(part.get("value", "")),
        type=str(part.get("dataType", "")),
    )


def forbidden_part(nodes: Sequence[Node], built_in: Collection[str]) -> str | None:
    """Return the refusal of a part that reads more than the row, or None.

    ``nodes`` are as parsed, before names are resolved. ``built_in`` are names of Spark's own functions.
    """
    for node in nodes:
        if node.kind in QUERIES:
            return "an expression over the row alone, with no subquery"
        name = _own_name(node.function)
        if name in REFLECTION:
            return f"an expression that calls no Java code, not {name}"
        if name in BEYOND_THE_ROW:
            return describe_refusal(name)
        if node.function and name not in built_in:
            return f"functions of Spark itself, not {node.function}"
    return None


def describe_refusal(name: str) -> str:
    """Return the refusal of the function ``name``, which reads more than the row."""
    return f"an expression over the row alone, not {name}(), because it reads {BEYOND_THE_ROW[name]}"


def shown_columns(columns: Iterable[str]) -> str:
    """Return the names of a source's columns for a message, without the stream's own, which begin with ``_``."""
    return ", ".join(name for name in columns if not name.startswith("_"))


def _own_name(function: str) -> str:
    """Return the bare name of a function of Spark's own, else ``function`` unchanged."""
    schema, dot, name = function.rpartition(".")
    return name if schema + dot in BUILT_IN else function


def clock_word(nodes: Sequence[Node], sql: str) -> str | None:
    """Return the word in ``sql`` that Spark reads as a moment of the clock, or None. ``nodes`` are resolved."""
    for node in nodes:
        parent = nodes[node.parent].kind if node.parent >= 0 else ""
        is_moment = parent.startswith("ParseTo") or (parent == "Cast" and _DATETIME.match(nodes[node.parent].type))
        if node.kind == "Literal" and is_moment and SPECIAL.match(node.value):
            return repr(node.value)
    typed = any(node.kind == "Literal" and _DATETIME.match(node.type) for node in nodes)
    found = _TYPED_SPECIAL.search(sql) if typed else None
    return found[0] if found else None
