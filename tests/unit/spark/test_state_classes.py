"""Every error class of Spark about state and of Delta about a table has a cause. Those of new ones are missed here."""

import json
import re
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyspark
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

from sessionizer.causes.table import CAUSES, cause_of
from sessionizer.control.operation import Operation, new_operation
from sessionizer.control.records.operation_record import OperationStage
from sessionizer.errors import QueryFailed, QueryInterrupted, RetryEffect, RowsGone
from sessionizer.home.stream_home import StreamHome
from sessionizer.spark.failures.query_failure import CAUSE_OF_CLASS, classify_failure
from sessionizer.spark.ingest.expressions import normalize_type, not_kept
from sessionizer.spark.state.commands import runner
from sessionizer.spark.state.commands.runner import SparkRunner
from sessionizer.state.commands.steps import DeleteLaterRows, PointOfNoReturn
from support.places import REPOSITORY

ABOUT_STATE = ("STATE_STORE", "CHECKPOINT_FILE_CHECKSUM", "STREAMING_CHECKPOINT_MISSING", "STREAMING_STATEFUL_OPERATOR")


def conditions(jars: Path, jar: str, file: str) -> dict[str, Any]:
    (found,) = jars.glob(f"{jar}_*.jar")
    with zipfile.ZipFile(found) as opened:
        known: dict[str, Any] = json.loads(opened.read(f"error/{file}.json"))
    return known


def classes_about_state() -> set[str]:
    """Those that a driver can meet; the reader of state as a table (STDS) and the value types are not used."""
    found: set[str] = set()
    jars = Path(pyspark.__file__).parent / "jars"
    for name, condition in conditions(jars, "spark-common-utils", "error-conditions").items():
        if any(part in name for part in ABOUT_STATE) and not name.startswith(("STDS_", "ILLEGAL_")):
            found |= {f"{name}.{sub}" for sub in condition.get("subClass", {})} or {name}
    return found


def test_no_class_is_without_a_verdict() -> None:
    assert classes_about_state() == set(CAUSE_OF_CLASS)


@pytest.mark.parametrize(("name", "cause"), [(name, cause.name) for name, cause in CAUSE_OF_CLASS.items()])
def test_a_query_that_dies_of_it(name: str, cause: str) -> None:
    error = classify_failure(
        "clicks", RuntimeError(f"[{name}] Error of Spark. SQLSTATE: 58030\n=== Streaming Query ===")
    )
    assert isinstance(error, QueryFailed | QueryInterrupted)
    assert error.cause == cause
    assert isinstance(error, QueryFailed) == (CAUSES[cause].verdict is RetryEffect.TERMINAL)
    assert cause_of(error.cause).remedy


def test_what_is_below_a_class_goes_first() -> None:
    text = "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] \nCaused by: java.io.IOException: No space left on device"
    error = classify_failure("clicks", RuntimeError(text))
    assert isinstance(error, QueryInterrupted)
    assert error.cause == "disk_full"


IN_A_TABLE = re.compile(
    "DELTA_(VIOLATE_CONSTRAINT|.*NOT_NULL|CONCURRENT_|.*_CHANGED|SCHEMA_CHANGE_|STREAMING_|.*PROTOCOL_VERSION|"
    "UNSUPPORTED_FEATURE|FEATURES_|.*APPEND_ONLY|.*LOG_(FILE|FAILED)|TRUNCATED_|VERSIONS_NOT|STATE_RECOVER|"
    "MAX_COMMIT|METADATA_|GENERATED_COLUMNS_|IDENTITY_COLUMNS_EXPLICIT|.*TYPE_CHANGE_IN|.*_INVARIANT|CAST_OVERFLOW|"
    "SOURCE_|MISSING_(FILES|PART)|.*COLUMN_MAPPING_(WRITE|SCHEMA)|FILE_NOT_FOUND)"
)
"""Names of Delta's errors that a state of a source or of a sink may cause."""
OF_STATEMENTS = re.compile(
    ".*(NOT_NULL_COLUMN_NOT_FOUND|NOT_NULL_NESTED_FIELD|NEW_NOT_NULL|METADATA_ABSENT|UNSUPPORTED_FEATURES_IN_CONFIG|"
    "COMMAND_INVARIANT|SOURCE_(NOT_DETERMINISTIC|OPERATION))"
)
"""Names of Delta's errors about statements that no driver makes."""


def delta_classes() -> list[str]:
    names = conditions(REPOSITORY / ".jars" / "spark", "delta-spark", "delta-error-classes")
    return sorted(name for name in names if IN_A_TABLE.match(name) and not OF_STATEMENTS.match(name))


@pytest.mark.parametrize("name", delta_classes())
def test_what_a_users_table_causes_has_a_name(name: str) -> None:
    error = classify_failure("clicks", RuntimeError(f"[{name}] Error of Delta. SQLSTATE: 23001"))
    assert isinstance(error, QueryFailed | QueryInterrupted)
    assert error.cause != "unknown"


NOT_KEPT = (TimeType(6), NullType(), VariantType(), DayTimeIntervalType(), YearMonthIntervalType(), StructType())
LONG, TEXT = LongType(), StringType()


@pytest.mark.parametrize("kind", NOT_KEPT, ids=str)
def test_what_no_table_has_a_column_for_is_found_wherever_it_is(kind: DataType) -> None:
    inside = StructType().add("n", LONG).add("deep", ArrayType(kind))
    assert [not_kept(each) for each in (kind, inside, MapType(TEXT, kind), MapType(kind, TEXT))] == [kind] * 4


def test_a_time_without_a_zone_and_text_of_a_length_are_kept_as_what_tables_have() -> None:
    found = StructType().add("at", TimestampNTZType()).add("names", MapType(VarcharType(3), ArrayType(IntegerType())))
    kept = StructType().add("at", TimestampType()).add("names", MapType(TEXT, ArrayType(IntegerType())))
    assert not_kept(found) is None
    assert normalize_type(found) == kept
    assert not_kept(StructType().add("time", LONG).add("interval of", TEXT).add("void", LONG)) is None, "names"


NOT_NEEDED = cast("Any", None)


class Runner(SparkRunner[Any]):
    """Has a batch that should come back."""

    def look(self) -> Any:
        raise NotImplementedError

    def row_changes(self) -> tuple[list[Any], Any]:
        return [], SimpleNamespace(missing=["a batch"])


@pytest.mark.parametrize("begun", [False, True])
def test_rows_that_are_gone_end_it_while_it_can_be_abandoned(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    operation = Operation(home, new_operation(home, "restore", "0123456789abcdef", "ann", ("a", 7)), lambda: None)
    operation.reached(OperationStage.SEEDED if begun else OperationStage.STOPPED)
    changed: list[str] = []

    def gone(*_: object) -> None:
        raise RowsGone("clicks", "/lake/sessions", 3, "vacuumed")

    monkeypatch.setattr(runner, "count_changes", gone)
    monkeypatch.setattr(runner, "change_rows", lambda *_: changed.append("rows"))
    found = Runner(spark=NOT_NEEDED, home=home, command=NOT_NEEDED)
    assert PointOfNoReturn().is_done(operation.record) == begun
    if begun:  # a run before has brought some of them back, and goes to its end
        found.run(DeleteLaterRows(), operation)
        assert changed == ["rows"]
        return
    with pytest.raises(RowsGone):
        found.run(PointOfNoReturn(), operation)
    assert changed == []
    assert not operation.record.is_past_return


def test_an_unknown_step_is_no_step_of_it(home: StreamHome) -> None:
    with pytest.raises(NotImplementedError):
        Runner(spark=NOT_NEEDED, home=home, command=NOT_NEEDED).run(cast("Any", "step"), NOT_NEEDED)
