"""The desired state of a stream, whose user decides while a command writes it."""

from dataclasses import replace

import pytest

from sessionizer.cli.state_commands import operation_run
from sessionizer.cli.state_commands.operation_run import carry_out
from sessionizer.control.operation import new_operation
from sessionizer.control.records import supervision_records as desired_state
from sessionizer.control.records.operation_record import OperationRecord, write_request
from sessionizer.control.records.supervision_records import (
    DESIRED_FILE,
    USER_FILE,
    Desired,
    DesiredState,
    begin_maintenance,
    end_maintenance,
    examine_desired,
    read_desired,
    write_desired,
)
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from support.places import opened
from support.processes.fabricated_platform import Platform
from support.verbs.scripted_runner import ScriptedRunner

RUNNING, STOPPED, MAINTENANCE = DesiredState
LATER_MS = 1_000


def decided(home: StreamHome, state: DesiredState = RUNNING, *, minutes_ago: int = 5) -> Desired:
    """A user's decision of some time ago, so that a later one has another time."""
    desired = write_desired(home, state, by="ann", why="")
    at = desired.at - minutes_ago * 60_000
    desired = replace(desired, at=at, seen=at)
    for file in (USER_FILE, DESIRED_FILE):
        file.of(home).write(desired)
    return desired


@pytest.mark.parametrize("has_decided", [True, False])
def test_a_stop_while_a_command_sets_maintenance_holds(home: StreamHome, has_decided: bool) -> None:
    if has_decided:
        decided(home)
    found = read_desired(home)
    write_desired(home, STOPPED, by="tom", why="the machine goes")
    begin_maintenance(home, found, found.state, by="ann", why="restore")
    assert (read_desired(home).state, read_desired(home).by) == (STOPPED, "tom")
    end_maintenance(home, RUNNING, by="ann", why="it is over")
    assert (read_desired(home).state, read_desired(home).by) == (STOPPED, "tom")


@pytest.mark.parametrize("has_decided", [True, False])
def test_a_stop_while_a_command_ends_maintenance_holds(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch, has_decided: bool
) -> None:
    def stop_after(where: StreamHome) -> Desired:
        found = read_desired(where)
        write_desired(where, STOPPED, by="tom", why="the machine goes")
        return found

    if has_decided:
        decided(home)
    begin_maintenance(home, read_desired(home), RUNNING, by="ann", why="restore")
    assert (read_desired(home).state, read_desired(home).afterwards) == (MAINTENANCE, RUNNING)
    with monkeypatch.context() as patched:
        patched.setattr(desired_state, "read_desired", stop_after)
        end_maintenance(home, RUNNING, by="ann", why="it is over")
    assert (read_desired(home).state, read_desired(home).by) == (STOPPED, "tom")
    assert examine_desired(home).value == read_desired(home)


def test_a_command_after_a_stop_has_seen_it(home: StreamHome) -> None:
    decided(home, STOPPED)
    begin_maintenance(home, read_desired(home), STOPPED, by="ann", why="restore")
    assert read_desired(home).state is MAINTENANCE
    end_maintenance(home, RUNNING, by="ann", why="a seed that is given up, or so")
    assert (read_desired(home).state, read_desired(home).by) == (RUNNING, "ann")


def test_a_stop_that_was_killed_between_its_two_files_holds(home: StreamHome) -> None:
    decided(home)
    begin_maintenance(home, read_desired(home), RUNNING, by="ann", why="restore")
    USER_FILE.of(home).write(Desired(STOPPED, epoch_ms(), "tom", "", seen=epoch_ms()))
    assert read_desired(home).state is STOPPED


@pytest.mark.parametrize(("later_ms", "by"), [(LATER_MS, "an earlier release"), (-LATER_MS, "ann")])
def test_of_an_earlier_release_which_notes_nothing_the_later_decision_holds(
    home: StreamHome, later_ms: int, by: str
) -> None:
    at = decided(home).at + later_ms
    DESIRED_FILE.of(home).write(Desired(STOPPED, at, "an earlier release"))
    assert read_desired(home).by == by


def test_maintenance_over_that_of_an_earlier_release_is_seen(home: StreamHome) -> None:
    at = decided(home).at + LATER_MS
    DESIRED_FILE.of(home).write(Desired(STOPPED, at, "an earlier release"))
    begin_maintenance(home, read_desired(home), STOPPED, by="ann", why="restore")
    assert read_desired(home).state is MAINTENANCE


@pytest.mark.parametrize("name", ["desired.json", "desired_by_user.json"])
def test_damage_of_either_file_is_told(home: StreamHome, name: str) -> None:
    decided(home)
    opened(home.control / name).write_text("{")
    assert name in (examine_desired(home).damage or "")


def test_a_stop_while_a_command_asks_for_the_stream_holds_after_it(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop_first(where: StreamHome, record: OperationRecord) -> None:
        write_desired(where, STOPPED, by="tom", why="the machine goes")
        write_request(where, record)

    home = platform.add("clicks")
    home.prepare()
    home.prepare_data()
    lineage = start_lineage(home)
    record = new_operation(home, "rescale", "0123456789abcdef", "ann", (lineage, 7))
    monkeypatch.setattr(operation_run, "write_request", stop_first)
    carry_out(home, record, "tests", 1, ScriptedRunner(home=home, work=lambda *_: lineage))
    assert (read_desired(home).state, read_desired(home).by) == (STOPPED, "tom")
