"""Expressions that the guard of SQL allows: Spark resolves them, and they read nothing but their row."""

import random
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionizer.core.wire.alignment import align_values
from sessionizer.errors import InvalidSpec
from sessionizer.spark.ingest.expressions import check_type, normalize_type
from sessionizer.spark.internals.java_errors import JavaError
from sessionizer.spark.internals.trying import try_expression
from sessionizer.spark.session import temporary_settings
from sessionizer.spark.sinks.measures import measure_types
from sessionizer.stream_spec import sql_words
from sessionizer.stream_spec.column_types import (
    carry_over,
    changed_parts,
    expression_type,
    parse_declared_columns,
    read_recorded_type,
)
from sessionizer.stream_spec.sql_guard import BEFORE_BRACKET, Scope, normal_sql, refuse_sql
from support.expected.sql_corpus import ACCEPTED, COLUMNS, FRAGMENTS, MEASURES, REFUSED, REFUSED_MEASURES
from support.expected.type_trees import EDITS, TREES, Tree, arrow, ddl, edited, value

LANGUAGE_CALLS = {"try_cast", "timestampadd", "timestampdiff"}
"""Calls that Spark's grammar has, and its registry has not."""
SYMBOLS_AND_WORDS = {"and", "or", "not", "in", "like", "ilike", "rlike", "regexp", "case", "div"}
BEYOND = {"ScalarSubquery", "Exists", "ListQuery", "LateralSubquery", "WindowExpression", "UnresolvedWindowExpression"}
BEYOND |= {"PlanExpression", "ExpressionWithUnresolvedIdentifier", "PosParameter"}


def rows(spark: SparkSession) -> DataFrame:
    columns = {**COLUMNS, "a1": "string"}
    return spark.createDataFrame([], ", ".join(f"`{name}` {kind}" for name, kind in columns.items()))


@pytest.mark.parametrize("sql", ACCEPTED)
def test_spark_resolves_an_accepted_expression(spark: SparkSession, sql: str) -> None:
    assert check_type(rows(spark), "mapping.key", sql) is not None


def test_sql_reads_no_variable_of_the_driver(spark: SparkSession) -> None:
    text = "${spark.app.name}"
    found = spark.range(1).select(F.expr(f"'{text}'"), F.expr(f"concat('{text}', '')"))
    assert list(found.first() or ()) == [text, text]
    assert spark.sql(f"select '{text}'").first() == (text,)


def test_spark_resolves_accepted_measures(spark: SparkSession) -> None:
    events = rows(spark).drop("a1").select(F.lit("id").alias("session_id"), F.array(F.struct("*")).alias("events"))
    for sql in MEASURES:
        assert measure_types(events, {"m": sql}).names == ["m"]


def test_every_function_of_spark_is_on_a_list(spark: SparkSession) -> None:
    shown = {row[0].rpartition(".")[2] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    names = {name for name in shown if name[0].isalpha()} - SYMBOLS_AND_WORDS
    words = [value for name, value in vars(sql_words).items() if name.isupper() and name[0] != "_"]
    listed = set(chain.from_iterable(value for value in words if isinstance(value, frozenset | dict)))
    assert names == listed - LANGUAGE_CALLS


def mutations(seed: int, count: int) -> Iterator[str]:
    """Make expressions of fragments, and of the corpus with fragments put in or taken out."""
    chance = random.Random(seed)
    known = [*ACCEPTED, *MEASURES, *REFUSED, *REFUSED_MEASURES]
    for _ in range(count):
        if chance.random() < 0.4:
            yield "".join(chance.choices(FRAGMENTS, k=chance.randint(1, 9)))
        else:
            sql = chance.choice(known)
            for _ in range(chance.randint(1, 3)):
                at, end = sorted((chance.randint(0, len(sql)), chance.randint(0, len(sql))))
                sql = sql[:at] + chance.choice(FRAGMENTS) + sql[chance.choice((at, end)) :]
            yield sql


def reached(node: Any) -> Iterator[str]:
    """The classes and functions in a tree of Spark's parser that reach beyond the row."""
    kind = node.getClass().getSimpleName()
    if kind in BEYOND:
        yield kind
    if kind == "UnresolvedFunction":
        name = ".".join(node.nameParts().apply(at) for at in range(node.nameParts().size())).lower()
        name = name.removeprefix("system.").removeprefix("builtin.")
        if name not in sql_words.SCALAR | sql_words.NEVER_FAILING | BEFORE_BRACKET:
            yield name
    for at in range(node.children().size()):
        yield from reached(node.children().apply(at))


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))])
def test_what_passes_reaches_nothing_beyond_its_row_in_the_tree_of_spark(spark: SparkSession, seed: int) -> None:
    parser: Any = spark._jsparkSession.sessionState().sqlParser()
    scope = Scope({**COLUMNS, "a1": "string"}, measure=True)
    found: dict[str, list[str]] = {}
    unspeakable = []
    for sql in mutations(seed, 60_000 if seed > 2 else 6_000):
        if refuse_sql(sql, scope) is not None:
            continue
        try:
            tree = parser.parseExpression(sql)
        except ParseException:
            continue
        except Py4JJavaError:  # Spark's parser lacks the words of its refusal
            unspeakable.append(sql)
            continue
        found[sql] = list(reached(tree))
    assert {sql: beyond for sql, beyond in found.items() if beyond} == {}
    assert len(found) > 150
    for sql in unspeakable:
        with pytest.raises(InvalidSpec):
            check_type(rows(spark), "mapping.key", sql)


CLOCK_WORDS = ("now", "today", "yesterday", "Tomorrow", "today UTC", "10:00", "T10")
COMPUTED: tuple[Callable[[str, str], str], ...] = (
    lambda a, b: f"'{a}' || '{b}'",
    lambda a, b: f"concat('{a}', '{b}')",
    lambda a, b: f"reverse('{(a + b)[::-1]}')",
    lambda a, b: f"cast(unhex('{(a + b).encode().hex()}') as string)",
    lambda a, b: f"decode(X'{(a + b).encode().hex()}', 'utf-8')",
    lambda a, b: f"replace('{a}_{b}', '_', '')",
    lambda a, b: f"substr('_{a}{b}', 2)",
    lambda a, b: f"element_at(split('_,{a}{b}', ','), 2)",
    lambda a, b: f"coalesce(null, '{a}' || '{b}')",
    lambda a, b: f"case when true then '{a}' || '{b}' end",
    lambda a, b: f"array_join(array('{a}', '{b}'), '')",
    lambda a, b: f"named_struct('f', '{a}' || '{b}').f",
    lambda a, b: f"if(u is null, '{a}' || '{b}', '{a}' || '{b}')",
    lambda a, b: f"nullif('{a}' || '{b}', u)",
)
"""Texts of a word in two parts, which no text of the SQL is."""
MOMENTS = (
    "cast({} as timestamp)", "({})::date", "to_date({})", "try_to_timestamp({})", "timestamp({})",
    "date_trunc('second', {})", "at > {}", "day <=> {}", "({}) + interval 1 day", "extract(doy from {})",
    "date_add({}, 1)", "from_utc_timestamp({}, 'UTC')", "transform(array({}), x -> cast(x as timestamp))[0]",
    "date_diff(day, {})", "coalesce(at, ({})::timestamp)", "timestampadd(DAY, 1, {})", "cast(array({}) as array<date>)",
    "to_json(struct(cast({} as timestamp) as at))", "cast(struct({}) as struct<at: timestamp>).at", "last_day({})",
    "from_json('{{\"at\":\"' || {} || '\"}}', 'at timestamp').at", "from_csv({}, 'at timestamp').at",
    "variant_get(parse_json('\"' || {} || '\"'), '$', 'timestamp')", "date_format({}, 'yyyy-MM-dd')",
    "try_cast({} as timestamp_ntz)", "weekday(try_to_date({}))",
)  # fmt: skip
"""Expressions that make a moment of a text."""


@pytest.mark.parametrize("draws", [1, pytest.param(3, marks=pytest.mark.long)])
def test_a_computed_word_of_the_clock_never_passes(spark: SparkSession, draws: int) -> None:
    chance = random.Random(4)
    passed: dict[str, list[Any]] = {}
    for moment, computed in [(moment, chance.choice(COMPUTED)) for moment in MOMENTS for _ in range(draws)]:
        word = chance.choice(CLOCK_WORDS)
        cut = chance.randint(1, len(word) - 1)
        sql = moment.format(computed(word[:cut], word[cut:]))
        for zone in ("Pacific/Kiritimati", "Etc/GMT+12"):  # it is never the same day in both
            with temporary_settings(spark, {"spark.sql.session.timeZone": zone}):
                row = spark.createDataFrame([("x",)], "u string").selectExpr(
                    "u", "date'2024-01-01' as day", "timestamp'2024-01-01' as at"
                )
                try:
                    check_type(row, "mapping.key", sql)
                except InvalidSpec:
                    continue
                (value,) = row.select(try_expression(row, sql).cast("string").alias("value")).collect()
                passed.setdefault(sql, []).append(value["value"])
    assert {sql: found for sql, found in passed.items() if len(found) != 2 or found[0] != found[1]} == {}
    assert len(passed) < len(MOMENTS) * draws * 2 // 3


@pytest.mark.parametrize(
    "sql", ["max(cast(u as timestamp))", "max(at) filter (where at > u)", "count_if(day > reverse('won'))"]
)
def test_a_measure_makes_no_moment_of_a_text(spark: SparkSession, sql: str) -> None:
    events = rows(spark).select(F.lit("id").alias("session_id"), F.array(F.struct("u", "at", "day")).alias("events"))
    with pytest.raises(InvalidSpec, match="by the clock"):
        measure_types(events, {"m": sql})


DDL = """u bigint, v string, d decimal(9,2), geo struct<lat: double, Lon: float>, pts array<struct<x: int, y: int>>,
m map<string, struct<a: int>>, at timestamp, `two words` int, user string"""
TOLD = """
u; U; geo; geo.lat; GEO.LON; pts; pts.x; m.key; m.key.a; cast(u as int); try_cast(v as decimal(5)); int(v); string(u)
v::date; (v); upper(v); coalesce(v, ''); coalesce(u, 0); named_struct('A', u, 'b', geo.lat); struct(geo.lat, V)
array(u, u); map(v, u); `two words`; cast(geo as struct<a: double, b: double>); 'text'; decimal(v); date(v); 7
array(named_struct('a', u + 1))
"""
UNTOLD = "u + 1; u || v; nvl(d, 0); coalesce(geo.lat, 0); transform(pts, p -> p.x); struct(u as a); 1.5"
TEXTS = """
U; `u`; (u); Upper( V ); upper(v); UPPER(`v`); m.Key; m.key; m.`Key`; struct(U); struct(u); (u, V); (u, v); user; `user`
u<-1; u < -1; 'A'; 'a'; 1. e3; 1.e3; geo.LAT; geo.lat; ((geo.lat)); arrays_zip(pts.x, pts.y); array(U); array(u)
v = 'u'; V='u'; date '2020-01-01'; DATE'2020-01-01'; transform(pts, p -> p.x); transform(PTS, P -> P.x)
case when u > 1 then v end; CASE WHEN U>1 THEN V END; struct(GEO.lat); struct(geo.lat); u   +1; u + 1; (u)+1
"""


KEPT_AS_TEXT = ("timestampdiff", "timestampadd", "dateadd", "datediff", "assert_true")
"""Calls whose unit or condition Spark also keeps as text: day and DAY are two."""


def listed(text: str) -> list[str]:
    return [sql.strip() for line in text.split("\n") for sql in line.split(";") if sql.strip()]


def test_a_type_that_is_told_is_the_one_of_spark(spark: SparkSession) -> None:
    rows, columns = spark.createDataFrame([], DDL), parse_declared_columns(DDL)
    for sql in listed(TOLD + UNTOLD):
        told = expression_type(sql, columns)
        found = read_recorded_type(rows.select(F.expr(sql).alias("c")).schema["c"].dataType.jsonValue())
        assert found is not None
        assert (told is None) == (sql in listed(UNTOLD)), sql
        assert told is None or not list(changed_parts(told, found)), sql


def test_texts_that_count_as_the_same_are_the_same_to_spark(spark: SparkSession) -> None:
    corpus, typed = rows(spark), spark.createDataFrame([], DDL)
    variants = [each for sql in ACCEPTED for each in (sql, f" ( {sql} ) ", sql.replace(" ", "  "), sql.upper())]
    pairs = [(over, found) for over, texts in ((corpus, variants), (typed, listed(TEXTS))) for found in alike(texts)]
    assert len(pairs) > len(ACCEPTED)
    for over, (first, *others) in pairs:
        for other in others:
            try:
                one, same = (over.select(F.expr(sql).alias("c")) for sql in (first, other))
            except (AnalysisException, ParseException, JavaError):
                continue  # the check of a spec refuses it
            assert one.schema == same.schema, (first, other)
            assert one.sameSemantics(same) or first.startswith(KEPT_AS_TEXT), (first, other)


def alike(texts: list[str]) -> list[list[str]]:
    """The texts with the same normal form, where there are several."""
    forms: dict[str, list[str]] = {}
    for sql in dict.fromkeys(texts):
        forms.setdefault(normal_sql(sql), []).append(sql)
    return [found for found in forms.values() if len(found) > 1]


@given(st.data(), TREES, st.sampled_from(EDITS))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_draft_makes_the_new_type_and_keeps_what_both_have(
    spark: SparkSession, data: st.DataObject, tree: Tree, edit: str
) -> None:
    now = edited(tree, edit, data)
    before, wanted = read_recorded_type(ddl(tree)), read_recorded_type(ddl(now))
    assert before is not None
    assert wanted is not None
    sql = carry_over("geo", before, wanted)
    assert refuse_sql(sql, Scope({"geo": ""})) is None
    values = pa.array([value(tree)], arrow(tree))
    made = spark.createDataFrame(pa.table({"geo": values})).select(F.expr(sql).alias("geo"))
    kind = read_recorded_type(normalize_type(made.schema["geo"].dataType).jsonValue())
    assert kind is not None
    assert not list(changed_parts(kind, wanted))
    if edit in {"drop", "add", "widen", "reorder"}:
        kept = align_values(values, arrow(now)).to_pylist()
        assert made.toArrow()["geo"].to_pylist() == kept
