"""Refuses the SQL of a spec that reaches beyond its row, or whose value is another when the row is read again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from sessionizer.errors import InvalidSpec
from sessionizer.spark.java_class import java_class, scala_object
from sessionizer.spec.expression_rules import CLOCK, SAME_EACH_TIME, clock_word, forbidden_part, nodes_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.spec.expression_rules import Node

_CATALYST: Final = "org.apache.spark.sql.catalyst"


def parsed(spark: SparkSession, sql: str) -> Any:  # noqa: ANN401  a Java object
    """The expression as Spark parses it: no name in it is looked up. Raises ParseException."""
    return spark._jsparkSession.sessionState().sqlParser().parseExpression(sql)  # noqa: SLF001  there is no public way


def parsed_nodes(spark: SparkSession, sql: str) -> list[Node]:
    """The parts of the parsed expression. Raises ParseException."""
    return nodes_of(json.loads(parsed(spark, sql).toJSON()))


def require_own_row(spark: SparkSession, field: str, sql: str) -> None:
    """Raises InvalidSpec, naming ``field``, for code, a subquery or a function that is not Spark's own.

    To be asked before ``sql`` is resolved: to resolve a subquery over files is to open them. Raises ParseException.
    """
    if (allowed := forbidden_part(parsed_nodes(spark, sql), _own_functions(spark))) is not None:
        raise InvalidSpec(field, sql, allowed)


def require_repeatable(resolved: DataFrame, field: str, sql: str) -> None:
    """Raises InvalidSpec, naming ``field``, if the last column of ``resolved``, which is ``sql``, may change."""
    expression = resolved._jdf.queryExecution().analyzed().expressions().last()  # noqa: SLF001  there is no public way
    if not expression.deterministic():
        raise InvalidSpec(field, sql, f"{SAME_EACH_TIME} {_varying(expression).prettyName().lower()}()")
    moment = scala_object(resolved.sparkSession, f"{_CATALYST}.trees.TreePattern").CURRENT_LIKE()
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


def children(expression: Any) -> list[Any]:  # noqa: ANN401  Java objects
    """The parts of an expression, or of another of Spark's trees."""
    parts = expression.children()
    return [parts.apply(number) for number in range(parts.size())]


def _own_functions(spark: SparkSession) -> frozenset[str]:
    names = scala_object(spark, f"{_CATALYST}.analysis.FunctionRegistry").builtin().listFunction().mkString("|")
    return frozenset(name.rpartition(".")[2] for name in names.split("|"))


def kind_of(expression: Any) -> str:  # noqa: ANN401  a Java object
    """The name of Spark's class for it."""
    return str(expression.getClass().getSimpleName())


def with_children(spark: SparkSession, expression: Any, parts: list[Any]) -> Any:  # noqa: ANN401  Java objects
    """The same with other parts."""
    return expression.withNewChildren(java_class(spark, "org.apache.spark.api.python.PythonUtils").toSeq(parts))
