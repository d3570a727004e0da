"""SQL aggregates that are null where evaluating them fails, and fail nobody else's.

An aggregate cannot be wrapped as a mapping is: Spark evaluates its inputs row by row, then its function over the rows,
then what is made of the result, and only an expression without an aggregate can be tried. So what goes in is tried in a
column of its own, where a value that failed is told from one that is null; what comes out is tried as a whole; and the
functions in between are those that take whatever their inputs are (docs/adr/0058).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from sessionizer.spark.internals.catalyst import children, column_of, kind_of, null_where_failing, parsed, with_children
from sessionizer.spark.internals.java_class import java_class, scala_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

_NAMES: Final = """
any any_value approx_count_distinct approx_percentile array_agg avg bit_and bit_or bit_xor bool_and bool_or collect_list
collect_set corr count count_if covar_pop covar_samp every first first_value histogram_numeric kurtosis last last_value
listagg max max_by mean median min min_by mode percentile percentile_approx percentile_cont percentile_disc regr_avgx
regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness some std stddev stddev_pop
stddev_samp string_agg sum try_avg try_sum var_pop var_samp variance
"""
TAKES_ANY_INPUT: Final = frozenset(_NAMES.split())
"""Spark's aggregates that fail for no value of a column: sums wrap around or are null, sketches are not among them."""

_PLAIN: Final = frozenset({"Literal", "UnresolvedAttribute", "UnresolvedStar"})
"""What cannot fail, or is no value of a row."""
_AROUND: Final = frozenset({"SortOrder", "NamedArgumentExpression"})
"""What an aggregate takes an input in."""
_VALUE: Final = "value"


@dataclass(frozen=True, slots=True)
class GuardedAggregates:
    """``inputs``: columns to add to the rows first. ``columns``: the aggregates over them, by name.

    None of them is resolved: the same objects do for every batch.
    """

    inputs: Mapping[str, Column]
    columns: Mapping[str, Column]

    @classmethod
    def of(cls, spark: SparkSession, aggregates: Mapping[str, str]) -> GuardedAggregates:
        """The aggregates by name; they have been checked. Raises ParseException."""
        rewriting = _Rewriting(spark)
        columns = {name: rewriting.guarded(sql).alias(name) for name, sql in aggregates.items()}
        return cls(rewriting.inputs, columns)

    @classmethod
    def none(cls) -> GuardedAggregates:
        """No aggregate at all."""
        return cls({}, {})

    def over(self, rows: DataFrame, key: str) -> DataFrame:
        """``key`` and a column for each aggregate over the rows of that key."""
        inputs = (column.alias(name) for name, column in self.inputs.items())
        return rows.select("*", *inputs).groupBy(key).agg(*self.columns.values())


def may_aggregate(spark: SparkSession, function: str) -> bool:
    """Whether ``function``, one of Spark's own, is known to take any input, or is no aggregate."""
    name = function.rpartition(".")[2]
    if name in TAKES_ANY_INPUT:
        return True
    registry = scala_object(spark, "org.apache.spark.sql.catalyst.analysis.FunctionRegistry").builtin()
    found = registry.lookupFunction(java_class(spark, "org.apache.spark.sql.catalyst.FunctionIdentifier")(name))
    return not (found.isDefined() and found.get().getGroup() == "agg_funcs")


@dataclass(slots=True)
class _Rewriting:
    spark: SparkSession
    inputs: dict[str, Column] = field(default_factory=dict)
    _name_of: dict[str, str] = field(default_factory=dict)
    _failures: list[Column] = field(default_factory=list)
    """When a row makes the aggregate that is being rewritten fail."""

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
            inner = with_children(self.spark, function, taken[: len(taken) - len(parts) + 1])
            return with_children(self.spark, node, [inner, *taken[len(taken) - len(parts) + 1 :]])
        if kind == "UnresolvedFunction" and node.nameParts().last().lower() in TAKES_ANY_INPUT:
            # its children are the arguments, the filter if there is one, and what orders the rows
            at = node.arguments().size()
            end = at + int(node.filter().isDefined())
            taken = self._taken([*parts[:at], *parts[end:]], parts[at:end])
            last = len(taken) - (end - at)
            return with_children(self.spark, node, [*taken[:at], *taken[last:], *taken[at:last]])
        return with_children(self.spark, node, [self._rewritten(part) for part in parts]) if parts else node

    def _taken(self, inputs: list[Any], condition: list[Any]) -> list[Any]:
        """The inputs of an aggregate, then its filter (none or one), each where it may fail as a tried column."""
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
        """What to put for ``part``, and the column that is null where it fails, None if it cannot."""
        if kind_of(part) in _AROUND:
            inner, name = self._tried(children(part)[0])
            return with_children(self.spark, part, [inner, *children(part)[1:]]), name
        if kind_of(part) in _PLAIN or not _reads_columns(part):
            return part, None
        name = self._name_of.setdefault(part.sql(), f"_input_{len(self._name_of)}")
        value = column_of(self.spark, part).alias(_VALUE)
        self.inputs[name] = null_where_failing(F.struct(value), self.spark)
        return parsed(self.spark, f"{name}.{_VALUE}"), name


def _reads_columns(node: Any) -> bool:  # noqa: ANN401  a Java object
    return kind_of(node) == "UnresolvedAttribute" or any(map(_reads_columns, children(node)))
