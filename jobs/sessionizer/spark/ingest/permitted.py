"""Refuses the SQL of a spec that reaches beyond its row, or whose value is another when the row is read again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sessionizer.errors import InvalidSpec
from sessionizer.spark.internals.catalyst import analyzed, children, momentary_pattern, own_functions, parsed
from sessionizer.stream_spec.expression_rules import CLOCK, SAME_EACH_TIME, clock_word, forbidden_part, nodes_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.stream_spec.expression_rules import Node


def parsed_nodes(spark: SparkSession, sql: str) -> list[Node]:
    """The parts of the parsed expression. Raises ParseException."""
    return nodes_of(json.loads(parsed(spark, sql).toJSON()))


def require_own_row(spark: SparkSession, field: str, sql: str) -> None:
    """Raises InvalidSpec, naming ``field``, for code, a subquery or a function that is not Spark's own.

    To be asked before ``sql`` is resolved: to resolve a subquery over files is to open them. Raises ParseException.
    """
    if (allowed := forbidden_part(parsed_nodes(spark, sql), own_functions(spark))) is not None:
        raise InvalidSpec(field, sql, allowed)


def require_repeatable(resolved: DataFrame, field: str, sql: str) -> None:
    """Raises InvalidSpec, naming ``field``, if the last column of ``resolved``, which is ``sql``, may change."""
    expression = analyzed(resolved).expressions().last()
    if not expression.deterministic():
        raise InvalidSpec(field, sql, f"{SAME_EACH_TIME} {_varying(expression).prettyName().lower()}()")
    moment = momentary_pattern(resolved.sparkSession)
    if expression.containsPattern(moment):
        word = _momentary(expression, moment).prettyName().lower()
        raise InvalidSpec(field, sql, f"{SAME_EACH_TIME} {word}(): {CLOCK}")
    if (word := clock_word(nodes_of(json.loads(expression.toJSON())), sql)) is not None:
        raise InvalidSpec(field, sql, f"{SAME_EACH_TIME} {word}: {CLOCK}")


def _varying(expression: Any) -> Any:  # noqa: ANN401  Java objects
    """The innermost part that makes ``expression`` vary."""
    return next((_varying(child) for child in children(expression) if not child.deterministic()), expression)


def _momentary(expression: Any, moment: Any) -> Any:  # noqa: ANN401  Java objects
    """The innermost part that Spark replaces by the time, the user or the catalog when it plans a query."""
    inner = (child for child in children(expression) if child.containsPattern(moment))
    return next((_momentary(child, moment) for child in inner), expression)
