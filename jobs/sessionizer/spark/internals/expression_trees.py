"""Parts of a spec's expression, as Spark itself parses and resolves it.

**Private**: Spark's parser and its trees.
**Public**: the words of the SQL, and Spark's own refusals (``ingest/permitted.py``).
**Lost**: words tell less than a tree, so anything that they leave open is refused. Examples are a comment, a name that
is also that of a clock, and the text ``'now'`` even where it is no time.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from sessionizer.spark.internals.catalyst import CATALYST, analyzed, children, parsed
from sessionizer.spark.internals.door import door
from sessionizer.spark.internals.java_class import scala_object
from sessionizer.stream_spec.expression_rules import nodes_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.stream_spec.expression_rules import Node

DOOR: Final = "expression trees"


def parsed_nodes(spark: SparkSession, sql: str) -> list[Node]:
    """Return the parts of the parsed expression. Raises ParseException, and PrivateDoorBroken."""
    with door(DOOR):
        return nodes_of(json.loads(parsed(spark, sql).toJSON()))


def resolved_nodes(resolved: DataFrame) -> list[Node]:
    """Return the parts of the last column of ``resolved``. Raises PrivateDoorBroken."""
    with door(DOOR):
        return nodes_of(json.loads(_last_column(resolved).toJSON()))


def varying_function(resolved: DataFrame) -> str | None:
    """Return the function that makes the last column of ``resolved`` vary, None if it always has the same value."""
    with door(DOOR):
        expression = _last_column(resolved)
        return None if expression.deterministic() else str(_varying(expression).prettyName().lower())


def momentary_function(resolved: DataFrame) -> str | None:
    """Return the function in the last column of ``resolved`` that Spark replaces by the time, user or catalog."""
    with door(DOOR):
        expression = _last_column(resolved)
        moment = scala_object(resolved.sparkSession, f"{CATALYST}.trees.TreePattern").CURRENT_LIKE()
        if not expression.containsPattern(moment):
            return None
        return str(_momentary(expression, moment).prettyName().lower())


def _last_column(resolved: DataFrame) -> Any:  # noqa: ANN401  a Java object
    return analyzed(resolved).expressions().last()


def _varying(expression: Any) -> Any:  # noqa: ANN401  Java objects
    """Return the innermost part that makes ``expression`` vary."""
    return next((_varying(child) for child in children(expression) if not child.deterministic()), expression)


def _momentary(expression: Any, moment: Any) -> Any:  # noqa: ANN401  Java objects
    """Return the innermost part that is marked with ``moment``."""
    inner = (child for child in children(expression) if child.containsPattern(moment))
    return next((_momentary(child, moment) for child in inner), expression)
