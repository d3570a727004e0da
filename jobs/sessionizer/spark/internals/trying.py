"""Expressions that are null where evaluating them fails, and that read no clock (docs/adr/0005, docs/adr/0145).

**Private**: Catalyst's ``TryEval``, which backs Spark's ``try_*`` functions and has no public name. The analyzed
expression, in which every cast of a text is seen, also one that nobody wrote.
**Public**: ``try_add`` of a day and a number of days, which is null if either cannot be evaluated. The number is the
size of an array that holds the value. A bare name cannot fail and is not tried.
**Lost**: a value is evaluated twice. Spark does not promise that ``try_add`` is null if a part inside it fails,
although it does so now. In a release that changes this, one absurd value ends the stream, as it would without a door.
A text that is only a time of day becomes a moment of the day on which it is read.
"""

import re
from contextlib import suppress
from datetime import date
from typing import Any, Final

from py4j.java_gateway import is_instance_of
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.types import _parse_datatype_json_string

from sessionizer.launch.driver_environment import plain
from sessionizer.spark.internals.java_class import CATALYST, catalyst, column_of, expression_of
from sessionizer.spark.internals.java_errors import JavaError, door
from sessionizer.stream_spec.sql_guard import TIME_OF_DAY, is_relative_moment

DOOR: Final = "try"
_MOMENTS: Final = (T.DateType, T.TimestampType, T.TimestampNTZType)
_PARSERS: Final = frozenset({"JsonToStructs", "CsvToStructs", "VariantGet"})
"""Expressions that read moments in a text without a cast."""
_BARE_NAME: Final = re.compile(r"\s*(?:[^\W\d]\w*|`[^`]+`)(?:\.(?:[^\W\d]\w*|`[^`]+`))*\s*")


class ReadsClock(Exception):
    """The ``part`` of an expression makes a moment of a text by the clock of the moment at which it is read."""

    def __init__(self, part: str) -> None:
        super().__init__(part)
        self.part = part


def try_expression(rows: DataFrame, sql: str) -> Column:
    """Return the expression over ``rows``, null where evaluating it fails, and for a text that is only a time of day.

    Without this ``timestamp_seconds(x)`` of one absurd x ends the stream, ANSI mode or not. Raises ReadsClock for a
    part that reads the clock, AnalysisException, PrivateDoorBroken.
    """
    if plain():
        return F.expr(sql) if _BARE_NAME.fullmatch(sql) else try_column(F.expr(sql), rows.sparkSession)
    with door(DOOR):
        spark, plan = rows.sparkSession, rows.select("*", F.expr(sql).alias("_"))._jdf.queryExecution().analyzed()  # noqa: SLF001  there is no public way
        return try_column(column_of(spark, _Moments(spark).drop_clock(plan.expressions().last().child())), spark)


def require_no_text_moment(aggregated: DataFrame) -> None:
    """Raise ReadsClock if an expression of the ``aggregated`` rows makes a moment of a text. Nothing in plain Spark."""
    if plain():
        return
    with door(DOOR):
        plan = aggregated._jdf.queryExecution().analyzed()  # noqa: SLF001  there is no public way
        moments = _Moments(aggregated.sparkSession, may_sanitize=False)
        for each in _children(plan, "expressions"):
            moments.drop_clock(each)


def try_column(column: Column, spark: SparkSession) -> Column:
    """Return ``column``, null where evaluating it fails. Raises PrivateDoorBroken."""
    if plain():
        # the size of an array is not known to Spark before it has made the array, whatever is in it
        return F.when(F.try_add(F.lit(date(1970, 1, 1)), F.size(F.array(column))).isNotNull(), column)
    with door(DOOR):
        return column_of(spark, catalyst(spark, "TryEval")(expression_of(spark, column)))


class _Moments:
    """The moments that Catalyst's expressions make of texts.

    Spark reads ``10:00`` as a time of the current day wherever it casts a text to a timestamp. It reads a constant such
    as ``now`` by the clock when it plans the cast.
    """

    def __init__(self, spark: SparkSession, *, may_sanitize: bool = True) -> None:
        self.spark = spark
        self.may_sanitize = may_sanitize
        self._gateway: Any = spark.sparkContext._gateway  # noqa: SLF001  there is no public way

    def drop_clock(self, node: Any) -> Any:  # noqa: ANN401  a Java object
        """Return the analyzed expression ``node``, whose casts find no time of day. Raises ReadsClock."""
        if self._is(node, "RuntimeReplaceable") and not _parses(node):
            return self.drop_clock(node.replacement())
        before = _children(node, "children")
        after = [self.drop_clock(child) for child in before]
        if self._is(node, "Cast"):
            after = [self._cast(node, after[0])]
        elif _parses(node) and _has_moment(_type_of(node)):
            raise ReadsClock(node.sql())
        if all(one is other for one, other in zip(before, after, strict=True)):
            return node
        return node.withNewChildren(self.spark.sparkContext._jvm.PythonUtils.toSeq(after))  # type: ignore[union-attr]  # noqa: SLF001

    def _cast(self, cast: Any, child: Any) -> Any:  # noqa: ANN401  Java objects
        """Return the child of a ``cast``, empty in place of a text that is only a time of day."""
        given, made = _type_of(cast.child()), _type_of(cast)
        if isinstance(given, T.StringType) and isinstance(made, _MOMENTS) and child.foldable():
            with suppress(JavaError):
                if is_relative_moment(str(child.eval(None))):
                    raise ReadsClock(cast.sql())
            return child
        if not _may_read_time_of_day(given, made):
            return child
        if not (self.may_sanitize and isinstance(given, T.StringType)):
            raise ReadsClock(cast.sql())
        return expression_of(self.spark, F.regexp_replace(column_of(self.spark, child), F.lit(TIME_OF_DAY), F.lit("")))

    def _is(self, node: Any, name: str) -> bool:  # noqa: ANN401  a Java object
        return bool(is_instance_of(self._gateway, node, f"{CATALYST}.expressions.{name}"))


def _children(node: Any, member: str) -> list[Any]:  # noqa: ANN401  a Java object
    found = getattr(node, member)()
    return [found.apply(at) for at in range(found.size())]


def _type_of(node: Any) -> T.DataType:  # noqa: ANN401  a Java object
    return _parse_datatype_json_string(node.dataType().json())


def _parses(node: Any) -> bool:  # noqa: ANN401  a Java object
    return node.getClass().getSimpleName() in _PARSERS


def _has_moment(kind: T.DataType) -> bool:
    return '"timestamp"' in kind.json()


def _may_read_time_of_day(given: T.DataType, made: T.DataType) -> bool:
    match given, made:
        case T.StringType(), T.TimestampType():
            return True
        case T.VariantType(), _:
            return _has_moment(made)
        case T.ArrayType(), T.ArrayType():
            return _may_read_time_of_day(given.elementType, made.elementType)
        case T.MapType(), T.MapType():
            pairs = (given.keyType, made.keyType), (given.valueType, made.valueType)
            return any(_may_read_time_of_day(*pair) for pair in pairs)
        case T.StructType(), T.StructType():
            fields = zip(given, made, strict=False)
            return any(_may_read_time_of_day(one.dataType, other.dataType) for one, other in fields)
    return False
