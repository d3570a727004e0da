"""A measure that cannot be computed of one session is null there, and there only: of all others it is as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from sessionizer.errors import InvalidSpec
from sessionizer.spark.sinks.measures import GuardedAggregates, add_measures, measure_types
from support.expected.landed import table_rows
from support.faults.bad_clicks import line
from support.processes.in_process import catch_up, drain
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

EVENTS = "array<struct<at: timestamp, page: string, amount: double, seconds: bigint, tags: map<string, string>>>"
ABSURD = 2**62
PLAIN: dict[str, list[tuple[Any, ...]]] = {
    "a": [("/", 1.5, 5, {"x": "1"}), ("/cart", None, 7, {"x": "2"}), ("/", 2.5, 6, {"x": "3"})],
    "b": [("/bad", 1.0, ABSURD, {"y": "1"}), ("/", 3.0, 8, {"x": "4"})],
    "c": [("/bad", None, None, None)],
}
MEASURES = {
    # with no session that fails
    "hits": "count(*)",
    "pages": "count(distinct page)",
    "spent": "coalesce(sum(amount) filter (where page = '/'), 0.0)",
    "carts": "count_if(page = '/cart')",
    "entry": "first(page)",
    "exit": "last(lower(page))",
    "best": "max_by(page, amount)",
    "trail": "array_join(collect_list(upper(page)), '>')",
    "median": "percentile_cont(0.5) within group (order by amount * 2)",
    "each": "listagg(page, ',')",
    "share": "count_if(page = '/') / count(*)",
    "unlike": "any_value(amount * 2) ignore nulls",
    "quantiles": "cast(percentile(amount + 1, array(0.0, 1.0)) as string)",
    # with b failing in a value of an event
    "latest": "max(timestamp_seconds(seconds))",
    "moments": "count(distinct timestamp_seconds(seconds))",
    "kept": "first(timestamp_seconds(seconds))",
    "ordered": "percentile_cont(0.5) within group (order by unix_micros(timestamp_seconds(seconds)))",
    "filtered": "count(*) filter (where timestamp_seconds(seconds) > timestamp '1970-01-01 00:00:06')",
    "spared": "max(timestamp_seconds(seconds)) filter (where page <> '/bad')",
    "raised": "sum(if(page = '/bad', raise_error('no'), amount))",
    # with b failing in what is made of the result
    "after": "timestamp_seconds(sum(seconds))",
    "twice": "max(seconds) + unix_micros(timestamp_seconds(max(seconds)))",
}
AND_PLAIN_IN_THE_LONG_RUN = pytest.mark.parametrize(
    "either_way", ["tuned", pytest.param("plain", marks=pytest.mark.long)], indirect=True
)
FAILS_IN_B = ("latest", "moments", "kept", "ordered", "filtered", "raised", "after", "twice")


def sessions(spark: SparkSession) -> DataFrame:
    rows = [(key, [(None, *event) for event in events]) for key, events in PLAIN.items()]
    return spark.createDataFrame(rows, f"session_id string, events {EVENTS}")


def unguarded(spark: SparkSession, sql: str, keys: tuple[str, ...]) -> dict[str, Any]:
    """What Spark itself makes of a measure."""
    events = sessions(spark).where(F.col("session_id").isin(*keys)).select("session_id", F.explode("events").alias("e"))
    found = events.select("session_id", "e.*").groupBy("session_id").agg(F.expr(sql).alias("measure"))
    return {row.session_id: row.measure for row in found.collect()}


@AND_PLAIN_IN_THE_LONG_RUN
@pytest.mark.usefixtures("either_way")
def test_a_session_that_fails_is_null_and_the_others_are_as_spark_has_them(spark: SparkSession) -> None:
    found = add_measures(sessions(spark), GuardedAggregates.of(spark, MEASURES)).collect()
    of_key = {row.session_id: row for row in found}
    assert sorted(of_key) == ["a", "b", "c"]
    for name, sql in MEASURES.items():
        sound = ("a",) if name == "raised" else ("a", "c") if name in FAILS_IN_B else ("a", "b", "c")
        expected = unguarded(spark, sql, sound)
        assert {key: of_key[key][name] for key in sound} == expected, name
        assert all(of_key[key][name] is None for key in of_key if key not in sound), name


@AND_PLAIN_IN_THE_LONG_RUN
@pytest.mark.usefixtures("either_way")
def test_a_stream_goes_on_past_a_session_that_fails(spark: SparkSession, tmp_path: Path) -> None:
    spec = clicks_spec()
    spec["mapping"]["payload"] = {"seconds": "cast(amount as bigint)"}
    spec["measures"] = {"latest": "unix_seconds(max(timestamp_seconds(seconds)))", "total": "sum(seconds)"}
    stage = Stage.set_up(tmp_path, spec)
    clicks = [line(0, "ann", amount=5), line(0, "bob", amount=7), line(1, "bob", amount=1e18), line(1, "ann", amount=6)]
    (stage.feed / "1.json").write_bytes(b"\n".join(clicks))
    # brings ann's and bob's sessions to their end, in a batch before its own
    (stage.feed / "2.json").write_bytes(line(600, "cy", amount=8))
    catch_up(spark, stage)
    assert len(table_rows(stage.table("sessions"))) == 2

    drain(spark, stage)

    found = {row["key"]: (row["latest"], row["total"]) for row in table_rows(stage.table("sessions"))}
    assert found == {"ann": (6, 11), "bob": (None, 10**18 + 7), "cy": (8, 8)}
    assert table_rows(stage.table("quarantine")) == []


@pytest.mark.usefixtures("either_way")
def test_the_types_are_those_of_the_bare_aggregates(spark: SparkSession) -> None:
    frame = sessions(spark)
    types = measure_types(frame, MEASURES)
    events = frame.select(F.explode("events").alias("e")).select("e.*")
    for name, sql in MEASURES.items():
        assert types[name].dataType == events.groupBy().agg(F.expr(sql).alias(name)).schema[name].dataType


REFUSED = {
    "count(*) + (select max(value) from text.`/proc/self/environ`)": "no subquery",
    "count_if(page in (select value from text.`/proc/self/environ`))": "no subquery",
    "max(reflect('java.lang.System', 'getenv', 'HOME'))": "not reflect",
    "max(uuid())": "not uuid()",
    "count_if(at > current_timestamp())": "not current_timestamp()",
    "count_if(at > 'now')": "not 'now'",
    "max(rand())": "not rand()",
    "lower(page)": "a SQL aggregate over at, page",
    "sum(count(*)) over ()": "not a window",
    "explode(collect_list(page))": "not explode",
    "hll_sketch_estimate(hll_union_agg(cast(page as binary)))": "not hll_union_agg",
    "sum(nobodys(page))": "not nobodys",
    "sum(at - timestamp '2000-01-01')": "no intervals",
}


@pytest.mark.usefixtures("either_way")
def test_what_spark_cannot_plan_is_refused_before_a_batch_dies_of_it(spark: SparkSession) -> None:
    both = {"pages": "count(distinct page)", "amounts": "count(distinct amount)"}
    both |= {"each": "listagg(page) within group (order by page)"}
    with pytest.raises(InvalidSpec, match=r"measures\.each is .* can plan"):
        measure_types(sessions(spark), both)


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_no_measure_is_refused_with_its_field(spark: SparkSession, sql: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        measure_types(sessions(spark), {"one": sql})
    assert (caught.value.field, caught.value.value) == ("measures.one", sql)
    assert REFUSED[sql] in caught.value.allowed
