"""The inputs of a measure's aggregates put into columns of their own, in the tree that Spark parses a measure to.

**Private**: Spark's parser, its trees and its registry of functions.
**Public**: the words of the SQL (``sinks/aggregate_text.py``).
**Lost**: a measure whose aggregates cannot be told by their words is refused, such as one that is called by a qualified
name. An aggregate that does not take any input is refused for its columns, not by its name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from sessionizer.spark.internals.catalyst import CATALYST, children, column_of, kind_of, parsed, replace_children
from sessionizer.spark.internals.door import door
from sessionizer.spark.internals.java_class import java_class, scala_object
from sessionizer.spark.internals.trying import null_where_failing

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import Column, SparkSession

DOOR: Final = "aggregate trees"
VALUE: Final = "value"
"""The field of an input's column that holds its value: the column itself is null where evaluating it failed."""
_PLAIN: Final = frozenset({"Literal", "UnresolvedAttribute", "UnresolvedStar"})
"""Expressions that cannot fail, or that are no value of a row."""
_AROUND: Final = frozenset({"SortOrder", "NamedArgumentExpression"})
"""Expressions in which an aggregate takes an input."""


def rewritten_aggregates(
    spark: SparkSession, aggregates: Mapping[str, str], taking_any_input: Collection[str]
) -> tuple[dict[str, Column], dict[str, Column]]:
    """Return the columns to add to the rows first, and the ``aggregates`` (name to SQL) over them.

    An aggregate is null where an input fails. Raises ParseException, and PrivateDoorBroken.
    """
    with door(DOOR):
        rewriting = _Rewriting(spark, taking_any_input)
        columns = {name: rewriting.guarded(sql).alias(name) for name, sql in aggregates.items()}
        return rewriting.inputs, columns


def is_aggregate(spark: SparkSession, name: str) -> bool:
    """Whether one of Spark's own functions aggregates. Raises PrivateDoorBroken."""
    with door(DOOR):
        registry = scala_object(spark, f"{CATALYST}.analysis.FunctionRegistry").builtin()
        found = registry.lookupFunction(java_class(spark, f"{CATALYST}.FunctionIdentifier")(name))
        return bool(found.isDefined() and found.get().getGroup() == "agg_funcs")


@dataclass(slots=True)
class _Rewriting:
    spark: SparkSession
    taking_any_input: Collection[str]
    inputs: dict[str, Column] = field(default_factory=dict)
    _name_of: dict[str, str] = field(default_factory=dict)
    _failures: list[Column] = field(default_factory=list)
    """Conditions under which a row makes the aggregate that is being rewritten fail."""

    def guarded(self, sql: str) -> Column:
        self._failures = []
        result = column_of(self.spark, self._rewritten(parsed(self.spark, sql)))
        if self._failures:
            failed = F.coalesce(F.bool_or(reduce(or_, self._failures)), F.lit(False))  # noqa: FBT003  lit has no keyword
            result = F.when(~failed, result)
        return null_where_failing(result, self.spark)

    def _rewritten(self, node: Any) -> Any:  # noqa: ANN401  a Java object
        kind, parts = kind_of(node), children(node)
        if kind == "AggregateExpression":
            function = parts[0]
            taken = self._taken(children(function), parts[1:])
            inner = replace_children(self.spark, function, taken[: len(taken) - len(parts) + 1])
            return replace_children(self.spark, node, [inner, *taken[len(taken) - len(parts) + 1 :]])
        if kind == "UnresolvedFunction" and node.nameParts().last().lower() in self.taking_any_input:
            # its children are the arguments, the filter if there is one, and what orders the rows
            at = node.arguments().size()
            end = at + int(node.filter().isDefined())
            taken = self._taken([*parts[:at], *parts[end:]], parts[at:end])
            last = len(taken) - (end - at)
            return replace_children(self.spark, node, [*taken[:at], *taken[last:], *taken[at:last]])
        return replace_children(self.spark, node, [self._rewritten(part) for part in parts]) if parts else node

    def _taken(self, inputs: list[Any], condition: list[Any]) -> list[Any]:
        """Return the inputs of an aggregate, then its filter (none or one), each as a tried column if it may fail."""
        tried = [self._tried(part) for part in [*inputs, *condition]]
        failed = [F.col(name).isNull() for _, name in tried[: len(inputs)] if name]
        if condition:
            # a row that the filter leaves out is not evaluated
            part, name = tried[-1]
            failed = [column_of(self.spark, part) & one for one in failed]
            failed += [F.col(name).isNull()] if name else []
        self._failures += failed
        return [part for part, _ in tried]

    def _tried(self, part: Any) -> tuple[Any, str | None]:  # noqa: ANN401  a Java object
        """Return the replacement of ``part``, and the column that is null where it fails, None if it cannot fail."""
        if kind_of(part) in _AROUND:
            inner, name = self._tried(children(part)[0])
            return replace_children(self.spark, part, [inner, *children(part)[1:]]), name
        if kind_of(part) in _PLAIN or not _reads_columns(part):
            return part, None
        name = self._name_of.setdefault(part.sql(), f"_input_{len(self._name_of)}")
        value = column_of(self.spark, part).alias(VALUE)
        self.inputs[name] = null_where_failing(F.struct(value), self.spark)
        return parsed(self.spark, f"{name}.{VALUE}"), name


def _reads_columns(node: Any) -> bool:  # noqa: ANN401  a Java object
    return kind_of(node) == "UnresolvedAttribute" or any(map(_reads_columns, children(node)))
