"""What is told of SQL without Spark, beside what Spark says: its type, its equal forms, and drafts of migrations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F

from sessionizer.core.wire.alignment import align_values
from sessionizer.spark.ingest.expressions import normalize_type
from sessionizer.spark.internals.java_errors import JavaError
from sessionizer.stream_spec.column_types import (
    carry_over,
    changed_parts,
    expression_type,
    parse_declared_columns,
    parse_type,
    read_recorded_type,
)
from sessionizer.stream_spec.sql_guard import Scope, normal_sql, refuse_sql
from support.expected.sql_corpus import ACCEPTED, COLUMNS
from support.expected.type_trees import EDITS, TREES, arrow, ddl, edited, value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from support.expected.type_trees import Tree

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


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], DDL)


@pytest.mark.parametrize("sql", listed(TOLD + UNTOLD))
def test_a_type_that_is_told_is_the_one_of_spark(rows: DataFrame, sql: str) -> None:
    told = expression_type(sql, parse_declared_columns(DDL))
    found = read_recorded_type(rows.select(F.expr(sql).alias("c")).schema["c"].dataType.jsonValue())
    assert found is not None
    assert (told is None) == (sql in listed(UNTOLD))
    assert told is None or not list(changed_parts(told, found))


def test_texts_that_count_as_the_same_are_the_same_to_spark(spark: SparkSession, rows: DataFrame) -> None:
    columns = {**COLUMNS, "a1": "string"}
    corpus = spark.createDataFrame([], ", ".join(f"`{name}` {kind}" for name, kind in columns.items()))
    variants = [each for sql in ACCEPTED for each in (sql, f" ( {sql} ) ", sql.replace(" ", "  "), sql.upper())]
    pairs = [
        *((corpus, found) for found in alike(variants)),
        *((rows, found) for found in alike(listed(TEXTS))),
    ]
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
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_draft_makes_the_new_type_and_keeps_what_both_have(
    spark: SparkSession, data: st.DataObject, tree: Tree, edit: str
) -> None:
    now = edited(tree, edit, data)
    before, wanted = parse_type(ddl(tree)), parse_type(ddl(now))
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
