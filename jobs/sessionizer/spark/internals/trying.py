"""Expressions that are null where evaluating them fails, so that no value of a row ends a stream (docs/adr/0005).

**Private**: Catalyst's ``TryEval``, which backs Spark's ``try_*`` functions and has no public name.
**Public**: ``try_add`` of a day and a number of days, which is null if either cannot be evaluated. The number is the
size of an array that holds the value. A bare name cannot fail and is not tried.
**Lost**: a value is evaluated twice. Spark does not promise that ``try_add`` is null if a part inside it fails,
although it does so now. In a release that changes this, one absurd value ends the stream, as it would without a door.
"""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from sessionizer.launch.driver_environment import plain
from sessionizer.spark.internals.java_class import catalyst, column_of, expression_of
from sessionizer.spark.internals.java_errors import door

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

DOOR: Final = "try"
_SOME_DAY: Final = date(1970, 1, 1)
_BARE_NAME: Final = re.compile(r"\s*(?:[^\W\d]\w*|`[^`]+`)(?:\.(?:[^\W\d]\w*|`[^`]+`))*\s*")


def try_expression(spark: SparkSession, sql: str) -> Column:
    """Return the expression, null where evaluating it fails.

    Without this ``timestamp_seconds(x)`` of one absurd x ends the stream, ANSI mode or not.
    """
    if plain() and _BARE_NAME.fullmatch(sql):
        return F.expr(sql)
    return try_column(F.expr(sql), spark)


def try_column(column: Column, spark: SparkSession) -> Column:
    """Return ``column``, null where evaluating it fails. Raises PrivateDoorBroken."""
    if plain():
        return F.when(_can_be_evaluated(column), column)
    with door(DOOR):
        return column_of(spark, catalyst(spark, "TryEval")(expression_of(spark, column)))


def _can_be_evaluated(column: Column) -> Column:
    # the size of an array is not known to Spark before it has made the array, whatever is in it
    return F.try_add(F.lit(_SOME_DAY), F.size(F.array(column))).isNotNull()
