"""A table has one owner: who else would write it is refused before anything of it is touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from sessionizer.errors import TableOwned
from sessionizer.spark.internals.delta_append import Transaction, append_once
from sessionizer.spark.internals.delta_log import table_property
from sessionizer.spark.sinks.table_shapes import TableShape
from sessionizer.spark.sinks.tables import OWNER, claim_tables, ensure_table, require_ours

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

OURS, THEIRS = "clicks@0123456789abcdef", "clicks@fedcba9876543210"
COLUMNS = StructType([StructField("date", LongType())])


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> str:
    """One that was made before tables had owners."""
    ensure_table(spark, TableShape("sessions", "", COLUMNS), str(tmp_path / "its folder"))
    return str(tmp_path / "its folder")


def write(spark: SparkSession, table: str, lineage: str) -> None:
    append_once(spark.createDataFrame([(1,)], COLUMNS), table, Transaction(lineage, 0), lambda: None)


def test_a_table_is_made_with_its_owner(spark: SparkSession, tmp_path: Path) -> None:
    location = str(tmp_path)
    claim_tables(spark, {"sessions": location}, OURS, ())
    ensure_table(spark, TableShape("sessions", "", COLUMNS), location, OURS)
    require_ours(spark, {"sessions": location}, OURS)
    claim_tables(spark, {"sessions": location}, OURS, ())
    with pytest.raises(TableOwned, match=f"{location} .* {OURS}, not to {THEIRS}"):
        claim_tables(spark, {"sessions": location}, THEIRS, ())


def test_one_that_nobody_or_we_alone_wrote_is_claimed_once(spark: SparkSession, table: str) -> None:
    write(spark, table, "ours")
    for _ in range(2):
        claim_tables(spark, {"sessions": table}, OURS, {"ours", "older"})
    assert table_property(spark, table, OWNER) == OURS
    assert spark.read.format("delta").load(table).count() == 1
    assert spark.sql(f"DESCRIBE HISTORY delta.`{table}`").count() == 3


def test_one_that_a_stranger_wrote_is_refused_and_no_other_claimed(
    spark: SparkSession, table: str, tmp_path: Path
) -> None:
    write(spark, table, "theirs")
    free = str(tmp_path / "free")
    ensure_table(spark, TableShape("quarantine", "", COLUMNS), free)
    with pytest.raises(TableOwned, match="of lineage theirs"):
        claim_tables(spark, {"quarantine": free, "sessions": table}, OURS, {"ours"})
    assert table_property(spark, free, OWNER) is None
