"""Every error class of Spark about state has a verdict and a remedy: those of a new Spark are missed here."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pyspark
import pytest

from sessionizer.causes.table import CAUSES, cause_of
from sessionizer.errors import QueryFailed, QueryInterrupted, RetryEffect
from sessionizer.spark.failures.query_failure import CAUSE_OF_CLASS, classify_failure

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
