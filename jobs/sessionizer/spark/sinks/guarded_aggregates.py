"""SQL aggregates that are null where evaluating them fails, so that no failure spreads to another aggregate.

An aggregate cannot be wrapped as a mapping is, because only an expression without an aggregate can be tried. Spark
evaluates its inputs row by row, then its function over the rows, then the expression over the result. So the inputs are
tried in columns of their own, in which a failed value differs from a null one. The result is tried as a whole. The
functions in between are those that take any input (docs/adr/0058).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from sessionizer.spark.ingest.years import find_beyond_years
from sessionizer.spark.sinks.aggregate_text import rewritten_texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class GuardedAggregates:
    """Aggregates. ``inputs``: columns to add to the rows first. ``columns``: the aggregates over them, by name.

    ``results``: expressions over the aggregates, by name. Without one the aggregates are the results. None of them is
    resolved: the same objects do for every batch.
    """

    inputs: Mapping[str, Column]
    columns: Mapping[str, Column]
    results: Mapping[str, Column] = field(default_factory=dict)

    @classmethod
    def of(cls, spark: SparkSession, aggregates: Mapping[str, str]) -> GuardedAggregates:
        """Build the checked aggregates by name. Raises ParseException."""
        if not aggregates:
            return cls.none()
        return cls(*rewritten_texts(spark, aggregates))

    @classmethod
    def none(cls) -> GuardedAggregates:
        """Return no aggregate at all."""
        return cls({}, {})

    def evaluate(self, rows: DataFrame, key: str) -> DataFrame:
        """Return ``key`` and a column for each aggregate over the rows of that key."""
        inputs = (column.alias(name) for name, column in self.inputs.items())
        found = rows.select("*", *inputs).groupBy(key).agg(*self.columns.values())
        if self.results:
            found = found.select(key, *(column.alias(name) for name, column in self.results.items()))
        return _drop_impossible_years(found)


def _drop_impossible_years(found: DataFrame) -> DataFrame:
    """Return the same measures, null for a day or instant that not every reader has a value for."""
    columns = {}
    for each in found.schema:
        measure = F.col(f"`{each.name}`")
        if (beyond := find_beyond_years(measure, each.dataType)) is not None:
            columns[each.name] = F.when(~beyond, measure)
    return found.withColumns(columns) if columns else found
