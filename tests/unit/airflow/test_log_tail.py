"""What of a driver's log is shown to people, and what never is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer_airflow.log_tail import LINE_LIMIT, last_words, redacted, tail

if TYPE_CHECKING:
    from pathlib import Path


def test_the_last_lines_without_blank_ones(tmp_path: Path) -> None:
    log = tmp_path / "driver.a.log"
    log.write_text("".join(f"line {number}\n\n" for number in range(100)))
    assert tail(log, 3) == ["line 97", "line 98", "line 99"]


def test_a_log_that_was_just_cut_is_completed_from_the_part_before(tmp_path: Path) -> None:
    log = tmp_path / "driver.a.log"
    (tmp_path / "driver.a.log.2").write_text("oldest\n")
    (tmp_path / "driver.a.log.1").write_text("old\nolder than new\n")
    log.write_text("new\n")
    assert tail(log, 2) == ["older than new", "new"]
    assert tail(log) == ["oldest", "old", "older than new", "new"]


def test_the_causes_of_a_death_are_seen_behind_their_stacks(tmp_path: Path) -> None:
    stack = "".join(f"\tat org.apache.spark.Thing.method{number}(Thing.scala:{number})\n" for number in range(40))
    log = tmp_path / "driver.a.log"
    log.write_text(
        "26/11/23 ERROR MicroBatchExecution: Query clicks terminated with error\n"
        f"org.apache.spark.SparkException: Job aborted due to stage failure\n{stack}"
        f"Caused by: java.io.IOException: No space left on device\n{stack}\t... 71 more\n"
        "end of it\n"
    )
    assert not any("Caused by" in line for line in tail(log)), "what it was like"
    assert last_words(log) == [
        "26/11/23 ERROR MicroBatchExecution: Query clicks terminated with error",
        "org.apache.spark.SparkException: Job aborted due to stage failure",
        "\tat org.apache.spark.Thing.method0(Thing.scala:0)",
        "\t… 39 more frames",
        "Caused by: java.io.IOException: No space left on device",
        "\tat org.apache.spark.Thing.method0(Thing.scala:0)",
        "\t… 40 more frames",
        "end of it",
    ]


def test_no_log(tmp_path: Path) -> None:
    assert tail(tmp_path / "nothing.log") == []


def test_long_lines_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    log = tmp_path / "driver.a.log"
    log.write_bytes(b"\xff\xfe" + b"x" * 300_000)
    (line,) = tail(log)
    assert len(line) == LINE_LIMIT


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("password=hunter2 user=me", "password=*** user=me"),
        ('sasl.jaas.config: username="u" password="p w\\"d";', 'sasl.jaas.config: username="u" password=***;'),
        ("spark.hadoop.fs.s3a.secret.key=abc/def+1", "spark.hadoop.fs.s3a.secret.key=***"),
        ('{"api_key": "12345", "n": 1}', '{"api_key": ***, "n": 1}'),
        ("fs.azure.account.key... SAS_TOKEN: 'sv=1&sig=2'", "fs.azure.account.key... SAS_TOKEN: ***"),
        ("Authorization: Bearer eyJhbGciOi.x-y_z", "Authorization: Bearer ***"),
        ("jdbc:postgresql://me:pw@host/db", "jdbc:postgresql://me:***@host/db"),
        ("key AKIAABCDEFGHIJKLMNOP used", "key *** used"),
        ("java.lang.OutOfMemoryError: Java heap space", "java.lang.OutOfMemoryError: Java heap space"),
        ("batch 3 · 1,234 ev/s · http://10.0.0.1:4040/jobs", "batch 3 · 1,234 ev/s · http://10.0.0.1:4040/jobs"),
    ],
)
def test_credentials_are_never_shown(line: str, shown: str) -> None:
    assert redacted(line) == shown
