"""What of a driver's log is shown to people, and what never is."""

from pathlib import Path

from sessionizer.control.log_tail import LINE_LIMIT, READ_BYTES, last_words, tail


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


def test_a_link_in_place_of_an_older_part_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "passwords").write_text("secret matter\n")
    log = tmp_path / "logs" / "driver.a.log"
    log.parent.mkdir()
    log.write_text("its own words\n")
    log.with_name("driver.a.log.1").symlink_to(tmp_path / "passwords")
    assert tail(log) == ["its own words"]


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
    assert tail(log) == ["(a line of more than 131,072 bytes)"]
    log.write_bytes(b"\xff\xfe" + b"x" * 30_000)
    assert [len(line) for line in tail(log)] == [LINE_LIMIT]


def test_a_credential_is_hidden_before_the_line_is_cut(tmp_path: Path) -> None:
    log = tmp_path / "driver.a.log"
    url = "jdbc:postgresql://me:hunter2@host/db"
    log.write_text("x" * (LINE_LIMIT - url.index("@") - 1) + " " + url + "\n")
    (line,) = tail(log)
    assert "hunter2" not in line


def test_of_a_line_whose_beginning_was_not_read_nothing_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "driver.a.log"
    log.write_text("password=" + "hunter2" * READ_BYTES + "\nlast\n")
    assert tail(log) == ["last"]
