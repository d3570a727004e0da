"""Every error class of Spark about state and of Delta about a table has a cause. Those of new ones are missed here."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pyspark
import pytest

from sessionizer.causes.table import CAUSES, cause_of
from sessionizer.errors import QueryFailed, QueryInterrupted, RetryEffect
from sessionizer.spark.failures.query_failure import CAUSE_OF_CLASS, classify_failure
from support.places import REPOSITORY

ABOUT_STATE = ("STATE_STORE", "CHECKPOINT_FILE_CHECKSUM", "STREAMING_CHECKPOINT_MISSING", "STREAMING_STATEFUL_OPERATOR")


def conditions() -> dict[str, Any]:
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-common-utils_*.jar")
    with zipfile.ZipFile(jar) as opened:
        found: dict[str, Any] = json.loads(opened.read("error/error-conditions.json"))
    return found


def classes_about_state() -> set[str]:
    """Those that a driver can meet; the reader of state as a table (STDS) and the value types are not used."""
    found: set[str] = set()
    for name, condition in conditions().items():
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
    (jar,) = (REPOSITORY / ".jars" / "spark").glob("delta-spark_*.jar")
    with zipfile.ZipFile(jar) as opened:
        names = json.loads(opened.read("error/delta-error-classes.json"))
    return sorted(name for name in names if IN_A_TABLE.match(name) and not OF_STATEMENTS.match(name))


@pytest.mark.parametrize("name", delta_classes())
def test_what_a_users_table_causes_has_a_name(name: str) -> None:
    error = classify_failure("clicks", RuntimeError(f"[{name}] Error of Delta. SQLSTATE: 23001"))
    assert isinstance(error, QueryFailed | QueryInterrupted)
    assert error.cause != "unknown"
