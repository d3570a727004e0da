"""Refusal of the SQL of a spec that reaches beyond its row, or whose value may change when the row is read again."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from sessionizer.errors import InvalidSpec
from sessionizer.launch.plain_spark import plain
from sessionizer.spark.internals.expression_trees import (
    momentary_function,
    parsed_nodes,
    resolved_nodes,
    varying_function,
)
from sessionizer.stream_spec.expression_rules import (
    CLOCK,
    HIDDEN_COLUMN,
    SAME_EACH_TIME,
    WINDOWS,
    clock_word,
    forbidden_part,
)
from sessionizer.stream_spec.expression_words import changing_word, forbidden_word, no_column_word, window_word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession


@cache
def own_functions(spark: SparkSession) -> frozenset[str]:
    """Return the names of all functions that Spark itself has."""
    shown = spark.sql("SHOW SYSTEM FUNCTIONS").collect()
    return frozenset(row[0].rpartition(".")[2] for row in shown)


def require_own_row(spark: SparkSession, field: str, sql: str, columns: Sequence[str]) -> None:
    """Raise InvalidSpec for code, a subquery, a function that is not Spark's own, or the hidden column of files.

    Called before ``sql`` is resolved, because resolving a subquery over files opens them. Raises ParseException.
    """
    built_in = own_functions(spark)
    allowed = forbidden_word(sql, built_in) if plain() else forbidden_part(parsed_nodes(spark, sql), built_in)
    if allowed is None and HIDDEN_COLUMN in sql.lower():
        allowed = no_column_word(sql, columns)
    if allowed is not None:
        raise InvalidSpec(field, sql, allowed)


def is_window(spark: SparkSession, sql: str) -> bool:
    """Whether ``sql`` looks at several rows. Raises ParseException."""
    if plain():
        return window_word(sql) is not None
    return any(node.kind in WINDOWS for node in parsed_nodes(spark, sql))


def require_repeatable(rows: DataFrame, resolved: DataFrame, field: str, sql: str) -> None:
    """Raise InvalidSpec, naming ``field``, if ``sql``, over ``rows`` the last column of ``resolved``, may change."""
    allowed = changing_word(sql, rows.columns) if plain() else _changing_part(rows, resolved, sql)
    if allowed is not None:
        raise InvalidSpec(field, sql, allowed)


def require_deterministic(rows: DataFrame, sql: str) -> None:
    """Raise AnalysisException if ``sql`` varies by itself although no tree showed it.

    An aggregate takes no such input.
    """
    if plain():
        _ = rows.groupBy().agg(F.first(F.expr(sql))).schema


def _changing_part(rows: DataFrame, resolved: DataFrame, sql: str) -> str | None:
    if (function := varying_function(resolved)) is not None:
        return f"{SAME_EACH_TIME} {function}()"
    if (function := momentary_function(resolved)) is not None:
        if (allowed := no_column_word(sql, rows.columns)) is not None:
            return allowed
        return f"{SAME_EACH_TIME} {function}(), because {CLOCK}"
    if (word := clock_word(resolved_nodes(resolved), sql)) is not None:
        return f"{SAME_EACH_TIME} {word}, because {CLOCK}"
    return None
