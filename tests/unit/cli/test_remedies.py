"""Every error has its one line of advice, its exit code, and a line in the documentation."""

import copy
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sessionizer import errors
from sessionizer.causes.cause import PROCESS_CAUSES, START_CAUSES
from sessionizer.causes.table import CAUSES, ERROR_CAUSES, QUERY_CAUSES, SYSTEM, cause_of_error, remedy_for
from sessionizer.cli.places import existing_result
from sessionizer.control.records.driver_records import Heartbeat, Phase
from sessionizer.control.status.batch_progress import ProgressTeller, progress_line
from sessionizer.deployment.running_spec import require_continuable
from sessionizer.errors import RetryEffect, SessionizerError
from sessionizer.errors import driver_errors as launch_errors
from sessionizer.home.clock import describe_duration
from sessionizer.stream_spec.decisions import Change
from support.expected.error_examples import EXAMPLES
from support.fixtures.reviewed import Reviewed
from support.places import REPOSITORY
from support.processes.fabricated_platform import Platform

CLASSES = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, SessionizerError) and kind is not errors.OfStream
]
DOCUMENTATION = REPOSITORY / "docs" / "command-line.md"


@pytest.mark.parametrize(
    ("change", "command"),
    [(Change("source.topic", "a", "b"), "switch clicks "), (Change("key_groups", 16, 8), "rescale clicks`")],
)
def test_a_change_that_no_start_applies_is_sent_to_its_command(change: Change, command: str) -> None:
    with pytest.raises(errors.InvalidSpec) as refused:
        require_continuable("clicks", [change])
    assert remedy_for(refused.value).startswith(f"run `sessionizer {command}")


def test_rows_of_an_unknown_lineage_are_deleted_by_hand_and_not_by_a_restore() -> None:
    error = errors.StateBehindTables("clicks", "/lake/sessions", "20261121T105501-3fa9c2", 9, None)
    assert "DELETE FROM delta.`/lake/sessions` WHERE lineage = '20261121T105501-3fa9c2'" in remedy_for(error)


def test_no_class_is_left_out() -> None:
    assert set(CLASSES) == {type(example) for example in EXAMPLES}
    assert {kind.__name__ for kind in CLASSES} - set(CAUSES) == {"QueryFailed", "QueryInterrupted", "StoreUnreachable"}


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_a_remedy_is_one_line(error: SessionizerError) -> None:
    assert remedy_for(error).strip()
    assert "\n" not in remedy_for(error)


def test_a_lost_record_of_the_spec_has_a_way_out_that_needs_no_copy() -> None:
    lost = errors.DamagedFile(Path("/home/lineages/a/spec.json"), "cut")
    assert "delete it instead" in remedy_for(lost)
    refused = errors.InvalidSpec("rules.older", 1, "a known key", file=Path("/home/lineages/a/spec.json"))
    assert "--apply" in remedy_for(refused)


def test_no_two_causes_have_one_name() -> None:
    tables = (QUERY_CAUSES, ERROR_CAUSES, START_CAUSES, PROCESS_CAUSES, [SYSTEM])
    assert len(CAUSES) == sum(map(len, tables))


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_is_tried_again_only_where_its_class_says_so(error: SessionizerError) -> None:
    races = errors.LeaseHeld | errors.LeaseLost
    terminal = isinstance(error, errors.TerminalError) and not isinstance(error, races)
    assert (cause_of_error(error).verdict is RetryEffect.TERMINAL) == terminal


def test_a_path_on_a_full_disk_is_waited_for() -> None:
    error = errors.UnwritablePath(Path("/data/x"), "the table sessions", "[Errno 28] No space left on device")
    assert cause_of_error(error) == CAUSES["disk_full"]
    assert remedy_for(error) == CAUSES["disk_full"].remedy


def test_a_spec_that_exists_is_not_made_writable(
    main: Callable[..., int], platform: Platform, capsys: pytest.CaptureFixture[str], reviewed: Reviewed
) -> None:
    platform.add("clicks")
    sample = platform.home.parent / "clicks.csv"
    code = main("init", str(sample), "--streams", str(platform.streams), "--home", str(platform.home))
    assert code == errors.UnwritablePath.exit_code
    reviewed(capsys.readouterr().err)


OF_COMMANDS = [kind for kind in CLASSES if "exit_code" in vars(kind) or kind.__module__ != launch_errors.__name__]
"""Classes that end a command. The others are raised while Airflow launches or ends a driver."""


def test_the_documentation_has_the_exit_codes() -> None:
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", DOCUMENTATION.read_text(), re.MULTILINE)
    declared, of_commands = (
        {(str(kind.exit_code), kind.__name__) for kind in kinds} for kinds in (CLASSES, OF_COMMANDS)
    )
    assert of_commands <= set(rows) <= declared


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_passes_between_processes(error: SessionizerError) -> None:
    same = copy.copy(error)  # by the way of a pickle
    assert (type(same), str(same), remedy_for(same)) == (type(error), str(error), remedy_for(error))


def test_the_documentation_has_every_command() -> None:
    from sessionizer.cli.app import app

    for command in app.registered_commands:
        assert command.callback is not None
        assert f"`sessionizer {command.callback.__name__.replace('_', '-')}" in DOCUMENTATION.read_text()


def test_an_error_ends_the_program_with_message_remedy_and_code(
    main: Callable[..., int], platform: Platform, capsys: pytest.CaptureFixture[str]
) -> None:
    platform.add("clicks")
    code = main("run", "click", "--streams", str(platform.streams), "--home", str(platform.home))
    assert code == errors.UnknownStream.exit_code
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"error: {errors.UnknownStream('click', ['clicks'])}"
    assert second.startswith("remedy: use clicks")
    assert not platform.home.exists()


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [(0, "0 ms"), (999, "999 ms"), (1000, "1 s"), (200_000, "3 m 20 s"), (90_000_000, "1 d 1 h"), (-3000, "-3 s")],
)
def test_lengths_of_time(milliseconds: int, words: str) -> None:
    assert describe_duration(milliseconds) == words


def test_progress_is_told_at_most_so_often_and_only_of_new_batches() -> None:
    teller = ProgressTeller(10_000)
    starting = Heartbeat(uid="a", at=0, started_at=0, phase=Phase.STARTING)
    first, second = (
        Heartbeat(uid="a", at=0, started_at=0, phase=Phase.RUNNING, batch_id=batch, rows_per_second=1234.5, open_keys=9)
        for batch in (0, 1)
    )
    assert teller.line(starting, 0) is None
    assert teller.line(first, 1) == progress_line(first) == "batch 0 · 1,234 ev/s · open 9 · emitted 0"
    assert teller.line(second, 9_000) is None
    assert teller.line(second, 10_001) == progress_line(second)
    assert teller.line(second, 60_000) is None


def test_a_drained_stream_says_so_instead_of_naming_the_year_9999(reviewed: Reviewed) -> None:
    drained = Heartbeat(
        uid="a", at=0, started_at=0, phase=Phase.IDLE, batch_id=6, watermark_ms=253_402_300_789_000,
        watermark_lag_ms=-251_607_014_792_243,
    )  # fmt: skip
    reviewed(progress_line(drained))


def test_a_result_that_exists_has_a_remedy_of_its_own_and_a_closed_output_has_not() -> None:
    closed = errors.UnwritablePath("the standard output", "the result", "Broken pipe")
    found = [remedy_for(error) for error in (existing_result(Path("/data/x")), closed)]
    assert ["--to" in each for each in found] == [True, False]
