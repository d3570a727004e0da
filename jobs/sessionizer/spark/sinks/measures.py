"""Measures: SQL aggregates over each finished session's events, as columns of its row.

By the words of its SQL a measure is taken apart into the inputs of its aggregates, the aggregates themselves, and the
expression over their results. Each is computed in a step of its own. In the first and the last, any part that can fail
is tried. A measure is null where evaluating it fails, and no failure spreads to another one.

An aggregate cannot be wrapped as a mapping is, because only an expression without an aggregate can be tried. Spark
evaluates its inputs row by row, then its function over the rows, then the expression over the result. So the inputs are
tried in columns of their own, in which a failed value differs from a null one. The result is tried as a whole. The
functions in between are those that take any input (docs/adr/0058).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Final, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from sessionizer.errors import InvalidSpec, SpecProblems
from sessionizer.spark.ingest.expressions import VARIES, find_beyond_years, reads_clock, require_permitted
from sessionizer.spark.internals.java_errors import JavaError, java_message
from sessionizer.spark.internals.trying import ReadsClock, require_no_text_moment, try_column
from sessionizer.stream_spec.sql_guard import BUILT_IN, SAME_EACH_TIME
from sessionizer.stream_spec.sql_words import (
    NEVER_FAILING,
    SqlWord,
    WordKind,
    calls,
    find_closing,
    find_qualified_name,
    words_of,
)

_VALUE: Final = "value"
_NO_COLUMN: Final = frozenset(
    ["null", "true", "false", "interval", "date", "timestamp", "day", "month", "year", "hour", "minute", "second"]
)
_Tried: TypeAlias = "tuple[str, str | None]"
"""Replacement of words, and the column that is null where they fail, None if they cannot fail."""


@dataclass(slots=True)
class _Rewriting:
    spark: SparkSession
    inputs: dict[str, Column] = field(default_factory=dict)
    calls: dict[str, Column] = field(default_factory=dict)
    _name_of: dict[str, str] = field(default_factory=dict)
    _failures: list[Column] = field(default_factory=list)
    """Conditions under which a row makes the measure that is being rewritten fail."""

    def result(self, sql: str) -> Column:
        """Return the value of ``sql`` over the columns of its aggregates."""
        self._failures = []
        words, written, at, done = words_of(sql), [], 0, 0
        while at < len(words):
            if not self._is_call(words, at):
                at += 1
                continue
            call, end = self._call(sql, words, at)
            begin, _ = find_qualified_name(words, at)
            written += [sql[done : words[begin].start], self._aggregated(F.expr(call))]
            at, done = end, words[end - 1].end
        result = F.expr("".join([*written, sql[done:]]))
        if self._failures:
            failed = self._aggregated(F.coalesce(F.bool_or(reduce(or_, self._failures)), F.lit(False)))  # noqa: FBT003
            result = F.when(~F.col(failed), result)
        return try_column(result, self.spark)

    def _is_call(self, words: Sequence[SqlWord], at: int) -> bool:
        _, name = find_qualified_name(words, at)
        compares = at > 0 and words[at - 1].is_name("like", "ilike", "rlike")
        own = name.removesuffix(words[at].name) in BUILT_IN
        return own and calls(words, at) and words[at].name in NEVER_FAILING and not compares

    def _aggregated(self, call: Column) -> str:
        name = f"_aggregate_{len(self.calls)}"
        self.calls[name] = call.alias(name)
        return name

    def _call(self, sql: str, words: Sequence[SqlWord], at: int) -> tuple[str, int]:
        end = find_closing(words, at + 1)
        given = list(words[at + 2 : end])
        distinct = f"{given.pop(0).written} " if given and given[0].is_name("distinct", "all") else ""
        taken = [self._tried(sql, part) for part in _parts(given)]
        clauses, ordered, condition, end = self._clauses(sql, words, end + 1)
        self._note_failures([*taken, *ordered], condition)
        return f"{words[at].written}({distinct}{_list_texts(taken)}){clauses}", end

    def _clauses(self, sql: str, words: Sequence[SqlWord], at: int) -> tuple[str, list[_Tried], _Tried | None, int]:
        """Return the clauses behind a call's brackets: their text, what they order by, their condition, and the end."""
        found, ordered, condition = "", list[_Tried](), None
        while at < len(words) and words[at].is_name("filter", "within", "ignore", "respect"):
            clause = words[at].name
            if clause in ("ignore", "respect"):
                found += f" {clause} nulls"
                at += 2
                continue
            opening = at + (1 if clause == "filter" else 2)
            end = find_closing(words, opening)
            if clause == "filter":
                condition = self._tried(sql, words[opening + 2 : end])
                found += f" filter (where {condition[0]})"
            else:
                ordered = [self._ordered(sql, part) for part in _parts(words[opening + 3 : end])]
                found += f" within group (order by {_list_texts(ordered)})"
            at = end + 1
        return found, ordered, condition, at

    def _note_failures(self, taken: Sequence[_Tried], condition: _Tried | None) -> None:
        failed = [F.col(name).isNull() for _, name in taken if name]
        if condition is not None:
            # a row that the filter leaves out is not evaluated
            failed = [F.expr(condition[0]) & one for one in failed]
            failed += [F.col(condition[1]).isNull()] if condition[1] else []
        self._failures += failed

    def _ordered(self, sql: str, words: Sequence[SqlWord]) -> _Tried:
        last = len(words)
        while last > 1 and words[last - 1].is_name("asc", "desc", "nulls", "first", "last"):
            last -= 1
        text, name = self._tried(sql, words[:last])
        return " ".join([text, *(word.written for word in words[last:])]), name

    def _tried(self, sql: str, words: Sequence[SqlWord]) -> _Tried:
        if not words:
            return "", None
        text = sql[words[0].start : words[-1].end]
        is_bare = find_qualified_name(words, len(words) - 1)[0] == 0
        if is_bare or not any(_reads_column(words, at) for at in range(len(words))):
            return text, None
        name = self._name_of.setdefault(text, f"_input_{len(self._name_of)}")
        self.inputs[name] = try_column(F.struct(F.expr(text).alias(_VALUE)), self.spark)
        return f"{name}.{_VALUE}", name


def _list_texts(parts: Sequence[_Tried]) -> str:
    return ", ".join(text for text, _ in parts)


def _parts(words: Sequence[SqlWord]) -> list[list[SqlWord]]:
    """Split words at commas outside of brackets."""
    parts: list[list[SqlWord]] = [[]]
    depth = 0
    for word in words:
        depth += word.is_symbol("(", "[") - word.is_symbol(")", "]")
        if word.is_symbol(",") and not depth:
            parts.append([])
        else:
            parts[-1].append(word)
    return [part for part in parts if part]


def _reads_column(words: Sequence[SqlWord], at: int) -> bool:
    word = words[at]
    is_name = word.kind is WordKind.NAME and not calls(words, at) and word.name not in _NO_COLUMN
    return word.kind is WordKind.QUOTED_NAME or is_name


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
        rewriting = _Rewriting(spark)
        return cls(rewriting.inputs, rewriting.calls, {name: rewriting.result(sql) for name, sql in aggregates.items()})

    def evaluate(self, rows: DataFrame, key: str) -> DataFrame:
        """Return ``key`` and a column for each aggregate over the rows of that key."""
        inputs = (column.alias(name) for name, column in self.inputs.items())
        found = rows.select("*", *inputs).groupBy(key).agg(*self.columns.values())
        if self.results:
            found = found.select(key, *(column.alias(name) for name, column in self.results.items()))
        columns = {}  # null for a day or instant that not every reader has a value for
        for each in found.schema:
            measure = F.col(f"`{each.name}`")
            if (beyond := find_beyond_years(measure, each.dataType)) is not None:
                columns[each.name] = F.when(~beyond, measure)
        return found.withColumns(columns) if columns else found


_SESSION: Final = "_session"
_KNOWN: Final = ", ".join(sorted(NEVER_FAILING))


def measure_types(sessions: DataFrame, measures: Mapping[str, str]) -> StructType:
    """Return the columns that the measures add. Raises InvalidSpec for one that is no aggregate over the events."""
    events = sessions.select(F.col("session_id").alias(_SESSION), F.explode("events").alias("event"))
    events = events.select(_SESSION, "event.*")
    columns, misfits = StructType(), SpecProblems()
    for name, sql in measures.items():
        with misfits.noted():
            columns = columns.add(_fitting(events, name, sql))
    misfits.raise_them()
    _require_plan(events, measures)
    return columns


def _fitting(events: DataFrame, name: str, sql: str) -> StructField:
    field = f"measures.{name}"
    try:
        require_permitted(events, field, sql, measure=True)
        require_no_text_moment(events.drop(_SESSION).groupBy().agg(F.expr(sql).alias(name)))
        guarded = GuardedAggregates.of(events.sparkSession, {name: sql})
        if not guarded.columns:
            raise InvalidSpec(field, sql, f"aggregates that never fail: {_KNOWN}")
        for column in events.select(*guarded.inputs.values()).schema if guarded.inputs else ():
            if "interval" in column.dataType.simpleString():
                allowed = "an aggregate of values that are no intervals, because a sum of intervals may overflow"
                raise InvalidSpec(field, sql, allowed)
        return guarded.evaluate(events, _SESSION).schema[name]
    except ReadsClock as error:
        raise reads_clock(field, sql, error) from error
    except (PySparkException, JavaError) as error:
        if isinstance(error, PySparkException) and error.getCondition() == VARIES:
            varying = "".join((error.getMessageParameters() or {}).values())
            raise InvalidSpec(field, sql, f"{SAME_EACH_TIME} {varying}") from error
        names = ", ".join(column for column in events.columns if column != _SESSION)
        raise InvalidSpec(field, sql, f"a SQL aggregate over {names} ({java_message(error)})") from error


def _require_plan(events: DataFrame, measures: Mapping[str, str]) -> None:
    """Raise InvalidSpec if Spark cannot plan a measure that it could resolve, because its aggregates have bugs."""
    if _unplannable(events, measures) is None:
        return
    together: dict[str, str] = {}
    for name, sql in measures.items():
        together[name] = sql
        if (error := _unplannable(events, together)) is not None:
            allowed = f"an aggregate that Spark can plan together with the measures before it ({java_message(error)})"
            raise InvalidSpec(f"measures.{name}", sql, allowed) from error


def _unplannable(events: DataFrame, measures: Mapping[str, str]) -> PySparkException | JavaError | None:
    """Return the error of planning the measures, None if Spark can. The plan runs over no events at all."""
    computed = GuardedAggregates.of(events.sparkSession, measures).evaluate(events, _SESSION)
    try:
        computed.write.format("noop").mode("overwrite").save()
    except (PySparkException, JavaError) as error:
        return error
    return None


def add_measures(
    sessions: DataFrame, measures: GuardedAggregates, events: DataFrame | None = None, by: str = "session_id"
) -> DataFrame:
    """Return ``sessions`` (unique ``by``) with the measures. ``events``: their events, if ``sessions`` have none."""
    if not measures.columns:
        return sessions
    source = sessions if events is None else events
    each = source.select(F.col(by).alias(_SESSION), F.explode("events").alias("event"))
    computed = measures.evaluate(each.select(_SESSION, "event.*"), _SESSION)
    return sessions.join(computed, sessions[by] == computed[_SESSION], "left").drop(_SESSION)
