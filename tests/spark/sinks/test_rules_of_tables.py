"""A rule that a user adds to a table of the stream: it ends the stream with a named cause, and the way out works."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from sessionizer.errors import QueryFailed
from sessionizer.home.roots import uri_of
from sessionizer.spark.failures.query_failure import classify_failure
from support.expected.landed import table_rows
from support.faults.bad_clicks import line
from support.processes.in_process import catch_up, drain
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

LONG = " or ".join(f"client = 'client {number}'" for number in range(40))


def test_a_constraint_of_a_table_is_named_and_can_be_removed(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec())
    (stage.feed / "1.json").write_bytes(line(0, client="client 1") + b"\n" + line(600, client="client 1"))
    catch_up(spark, stage)
    table = f"alter table delta.`{uri_of(stage.table('sessions'))}`"
    spark.sql(f"{table} add constraint known check ({LONG})")
    (stage.feed / "2.json").write_bytes(line(601, "other", client=None) + b"\n" + line(1_200, client="client 1"))
    with pytest.raises(StreamingQueryException) as ended:
        drain(spark, stage)
    error = classify_failure("clicks", ended.value)
    assert isinstance(error, QueryFailed)
    assert error.cause == "table_rule"
    assert "client 39" in error.detail.splitlines()[0]
    spark.sql(f"{table} drop constraint known")
    drain(spark, stage)
    landed = {name: table_rows(stage.table(name)) for name in ("sessions", "late_events", "quarantine")}
    keys = sorted(row["key"] for row in landed["sessions"])
    assert (keys, landed["late_events"], landed["quarantine"]) == (["other", "victim", "victim", "victim"], [], [])
