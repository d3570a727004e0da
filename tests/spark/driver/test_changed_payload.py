"""The payload of a stream that is changed while sessions are open: each event keeps what it came with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from sessionizer.errors import InvalidSpec
from sessionizer.home.roots import uri_of
from support.expected.landed import table_rows
from support.faults.bad_clicks import line
from support.processes.driver_process import DriverProcess
from support.processes.in_process import catch_up, drain
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession


def spec_with(payload: Mapping[str, str], **others: Any) -> dict[str, Any]:
    spec = clicks_spec()
    return {**spec, "mapping": {**spec["mapping"], "payload": dict(payload)}, **others}


def run_by(spark: SparkSession, stage: Stage, payload: Mapping[str, str], *lines: bytes, **others: Any) -> None:
    """One more driver, with one more file."""
    stage.write_spec(spec_with(payload, **others))
    (stage.feed / f"{len(list(stage.feed.iterdir()))}.json").write_bytes(b"\n".join(lines))
    catch_up(spark, stage)


def payloads(stage: Stage) -> list[dict[str, Any]]:
    """Of the events of the only session."""
    (session,) = table_rows(stage.table("sessions"))
    ours = {"event_time", "event_id", "closes"}
    return [{name: value for name, value in event.items() if name not in ours} for event in session["events"]]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage.set_up(tmp_path, clicks_spec())


def test_columns_may_come_and_go_and_change_places_while_sessions_are_open(spark: SparkSession, stage: Stage) -> None:
    run_by(spark, stage, {"type": "type", "page": "page"}, line(0, page="/0"))
    run_by(spark, stage, {"page": "page", "type": "type"}, line(1, page="/1"))
    run_by(spark, stage, {"type": "type", "amount": "amount", "page": "page"}, line(2, page="/2", amount=2.0))
    run_by(spark, stage, {"amount": "amount", "type": "type"}, line(3, page="/3", amount=3.0))
    run_by(spark, stage, {"page": "page", "amount": "amount", "type": "type"}, line(4, page="/4", amount=4.0))
    drain(spark, stage)
    assert payloads(stage) == [
        {"type": "view", "page": "/0", "amount": None},
        {"type": "view", "page": "/1", "amount": None},
        {"type": "view", "page": "/2", "amount": 2.0},
        {"type": "view", "page": None, "amount": 3.0},
        {"type": "view", "page": "/4", "amount": 4.0},
    ]


PAGE_AS_NUMBER = "cast(length(page) as int)"
CHANGES_THAT_CANNOT_BE: dict[str, tuple[Any, ...]] = {
    "text to number": ({"page": "page"}, {"page": PAGE_AS_NUMBER}, "mapping.payload.page is 'int'. Use string"),
    "text, gone, number": ({"page": "page"}, {}, {"page": PAGE_AS_NUMBER}, "page is 'int'. Use string"),
    "narrowed": ({"n": "timeout_s * 1L"}, {"n": "timeout_s"}, "mapping.payload.n is 'int'. Use bigint"),
    "inside a struct": (
        {"at": "named_struct('page', page, 'n', 1)"},
        {"at": "named_struct('n', 'one')"},
        "mapping.payload.at is 'string'. Use int at n,",
    ),
    "widened, which the tables cannot": ({"n": "timeout_s"}, {"n": "timeout_s * 1L"}, "Use int, the type in the table"),
}
CHANGES = [
    pytest.param(name, marks=() if name == "text to number" else pytest.mark.long) for name in CHANGES_THAT_CANNOT_BE
]


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_cannot_be_is_refused_before_anything_is_written(
    spark: SparkSession, stage: Stage, name: str
) -> None:
    *before, last, said = CHANGES_THAT_CANNOT_BE[name]
    for number, payload in enumerate(before):
        run_by(spark, stage, payload, line(number))
    left = versions(stage)
    with pytest.raises(InvalidSpec) as caught:
        run_by(spark, stage, {**last, "another": "1"}, line(9))
    assert said in str(caught.value)
    assert versions(stage) == left
    run_by(spark, stage, before[0], line(8))
    drain(spark, stage)
    assert len(payloads(stage)) == len(before) + 2


def versions(stage: Stage) -> dict[str, int]:
    """How many commits each table has."""
    return {name: DeltaTable(uri_of(stage.table(name))).version() for name in ("sessions", "quarantine", "late_events")}


def test_another_time_mode_is_refused(spark: SparkSession, stage: Stage) -> None:
    run_by(spark, stage, {}, line(0))
    rules = {**clicks_spec()["rules"], "time_mode": "processing_time"}
    with pytest.raises(InvalidSpec, match=r"rules\.time_mode is 'processing_time'. Use 'event_time'"):
        run_by(spark, stage, {}, line(1), rules=rules)


@pytest.mark.long
def test_a_table_that_may_widen_takes_a_wider_type(spark: SparkSession, stage: Stage) -> None:
    run_by(spark, stage, {"n": "timeout_s", "at": "named_struct('n', timeout_s)"}, line(0, timeout_s=20))
    for name in ("sessions", "late_events"):
        location = stage.table(name)
        spark.sql(f"alter table delta.`{location}` set tblproperties ('delta.enableTypeWidening' = 'true')")
    wider = {"at": "named_struct('n', timeout_s * 10000000000)", "n": "timeout_s * 10000000000"}
    run_by(spark, stage, wider, line(1, timeout_s=20))
    drain(spark, stage)
    (session,) = spark.read.format("delta").load(str(stage.table("sessions"))).collect()
    assert [(event.n, event.at.n) for event in session.events] == [(20, 20), (200_000_000_000, 200_000_000_000)]


@pytest.mark.long
def test_a_driver_says_which_column_and_what_is_in_reach(spark: SparkSession, stage: Stage) -> None:
    run_by(spark, stage, {"page": "page"}, line(0))
    stage.write_spec(spec_with({"page": PAGE_AS_NUMBER}))
    with DriverProcess.start(stage, "other", until="caught-up", apply=True) as driver:
        assert driver.wait() == InvalidSpec.exit_code
        assert "mapping.payload.page is 'int'. Use string" in driver.said
        assert "Traceback" not in driver.said
