"""Hundreds of lines of Spark's, and what of them a person needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.spark.failures.query_failure import cause_in_one_line

if TYPE_CHECKING:
    from support.fixtures.reviewed import Reviewed

STACK = "\n".join(f"\tat org.apache.spark.Frame.number{number}(Frame.scala)" for number in range(780))
NAMED = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///feed/1.csv.  SQLSTATE: KD001"


def said(cause: str) -> str:
    return f"Job aborted.\n{NAMED}\n{STACK}\nCaused by: java.lang.IllegalArgumentException: {cause}\n{STACK}"


def test_of_a_header_in_another_order_the_first_two_names_that_differ(reviewed: Reviewed) -> None:
    cause = (
        "CSV header does not conform to the schema.\n Header: ID, ts, user_id\n Schema: id, user_id, ts\n"
        "Expected: user_id but found: ts\nCSV file: file:///feed/1.csv"
    )
    reviewed(cause_in_one_line(said(cause)))


def test_of_a_header_of_another_length_both(reviewed: Reviewed) -> None:
    cause = (
        "Number of column in CSV header is not equal to number of fields in the schema:\n"
        " Header length: 2, schema size: 3\nCSV file: file:///feed/1.csv"
    )
    reviewed(cause_in_one_line(said(cause)))


def test_of_any_other_file_the_causes_below_or_the_line_that_names_it() -> None:
    assert cause_in_one_line(said("no dictionary\nCaused by: java.io.EOFException\n")) == "no dictionary: EOFException"
    assert cause_in_one_line(NAMED) == NAMED
    mismatch = NAMED.replace("NO_HINT", "PARQUET_COLUMN_DATA_TYPE_MISMATCH")
    assert cause_in_one_line(said("column: [a]").replace(NAMED, mismatch)) == mismatch


def test_nothing_of_an_error_that_is_of_no_file() -> None:
    assert cause_in_one_line("No space left on device") is None
