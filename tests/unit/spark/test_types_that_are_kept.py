"""Which types of Spark a payload column may have, and as what it is kept."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DayTimeIntervalType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VarcharType,
    VariantType,
    YearMonthIntervalType,
)

from sessionizer.spark.ingest.expressions import normalize_type, not_kept

NOT_KEPT = (TimeType(6), NullType(), VariantType(), DayTimeIntervalType(), YearMonthIntervalType(), StructType())


@pytest.mark.parametrize("kind", NOT_KEPT, ids=str)
def test_what_no_table_has_a_column_for_is_found_wherever_it_is(kind: DataType) -> None:
    assert not_kept(kind) == kind
    assert not_kept(StructType().add("n", LongType()).add("deep", ArrayType(kind))) == kind
    assert not_kept(MapType(StringType(), kind)) == kind
    assert not_kept(MapType(kind, StringType())) == kind


def test_names_are_no_types() -> None:
    assert (
        not_kept(StructType().add("time", LongType()).add("interval of", StringType()).add("void", LongType())) is None
    )


def test_a_time_without_a_zone_and_text_of_a_length_are_kept_as_what_tables_have() -> None:
    found = StructType().add("at", TimestampNTZType()).add("names", MapType(VarcharType(3), ArrayType(IntegerType())))
    kept = StructType().add("at", TimestampType()).add("names", MapType(StringType(), ArrayType(IntegerType())))
    assert not_kept(found) is None
    assert normalize_type(found) == kept
