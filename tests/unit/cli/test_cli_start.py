"""Refusals of the commands before Spark starts."""

from pathlib import Path

from sessionizer.control.records.process_records import EXIT_FILE
from sessionizer.errors import InvalidSpec, UnwritablePath
from sessionizer.home.stream_home import StreamHome
from support.processes.fabricated_platform import Platform


def test_until_is_a_choice(platform: Platform) -> None:
    platform.add("visits")
    result = platform.call("run", "visits", "--until", "sometime")
    assert result.exit_code == 2
    assert "caught-up" in result.stderr


def test_a_launched_driver_that_never_starts_leaves_its_exit_record(platform: Platform) -> None:
    home = platform.add("visits", "name: visits\n")
    result = platform.call("run", "visits", "--uid", "launched-1")
    assert isinstance(result.exception, InvalidSpec)
    record = EXIT_FILE.of(home, "launched-1").read()
    assert record is not None
    assert (record.error_type, record.terminal) == ("InvalidSpec", True)
    assert [path.name for path in home.root.iterdir()] == ["control"]


def test_the_record_of_a_false_start_does_not_end_a_live_driver_of_that_uid(platform: Platform) -> None:
    platform.add("visits")
    lease, home = platform.drive("visits")
    platform.add("visits", "name: visits\n")
    platform.call("run", "visits", "--uid", lease.uid)
    assert EXIT_FILE.of(home, lease.uid).read() is None


def test_a_person_who_misspells_leaves_nothing(platform: Platform) -> None:
    platform.add("visits", "name: visits\n")
    platform.call("run", "visits")
    assert not StreamHome.of(platform.home, "visits").root.exists()


def test_a_history_is_refused_before_spark(platform: Platform, tmp_path: Path) -> None:
    platform.add("visits")
    there = ("--input", str(tmp_path))
    assert isinstance(platform.call("history", "visits", "--input", "/nowhere").exception, InvalidSpec)
    assert isinstance(platform.call("history", "visits", *there, "--until", "noon").exception, InvalidSpec)
    assert isinstance(platform.call("history", "visits", *there, "--to", str(tmp_path)).exception, UnwritablePath)
