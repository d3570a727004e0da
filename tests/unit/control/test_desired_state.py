"""The desired state of a stream, whose user decides while a command writes it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from upath import UPath

from sessionizer.cli.state_commands import operation_run
from sessionizer.cli.state_commands.operation_run import carry_out
from sessionizer.control.lease import acquire
from sessionizer.control.maintenance import ask_to_stop
from sessionizer.control.operation import new_operation
from sessionizer.control.records import supervision_records as desired_state
from sessionizer.control.records.operation_record import OperationRecord, write_request
from sessionizer.control.records.process_records import LAUNCH_FILE, LaunchRecord, stop_requested
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
from sessionizer.errors import DamagedFile, DataOwned
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import list_names
from sessionizer.home.record_file import RecordFile
from sessionizer.home.roots import DataPath
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import OWNER_FILE, DataOwner, claim_data, require_own_data, start_lineage
from support.fixtures.reviewed import Reviewed
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

    home = platform.add_prepared("clicks")
    lineage = start_lineage(home)
    record = new_operation(home, "rescale", "0123456789abcdef", "ann", (lineage, 7))
    monkeypatch.setattr(operation_run, "write_request", stop_first)
    carry_out(home, record, "tests", 1, ScriptedRunner(home=home, work=lambda *_: lineage))
    assert (read_desired(home).state, read_desired(home).by) == (STOPPED, "tom")


def test_the_owner_of_the_lease_and_one_that_waits_for_it(home: StreamHome, reviewed: Reviewed) -> None:
    said: list[str] = []
    assert ask_to_stop(home, "a test", said.append) == set()
    acquire(home, "driver-1")
    LAUNCH_FILE.of(home).write(
        LaunchRecord(uid="driver-2", at=epoch_ms(), log="a", master="yarn", submission="driver-2")
    )
    assert ask_to_stop(home, "a test", said.append) == {"driver-1", "driver-2"}
    reviewed(said)
    assert stop_requested(home, "driver-1")
    assert stop_requested(home, "driver-2")


def test_a_command_that_has_the_lease_is_waited_for_and_not_asked(home: StreamHome, reviewed: Reviewed) -> None:
    uid = "restore-20261127T162618-c0867f"
    said: list[str] = []
    acquire(home, uid)
    assert ask_to_stop(home, "restore to monday", said.append) == {uid}
    assert not stop_requested(home, uid)
    reviewed(said)


def test_one_that_its_cluster_refused_is_not_asked(home: StreamHome) -> None:
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="refused", at=epoch_ms(), log="a", master="yarn", submission="refused"))
    exit_code = home.submission("refused")
    exit_code.write_text("0\n")
    assert ask_to_stop(home, "a test") == {"refused"}
    exit_code.write_text("1\n")
    assert ask_to_stop(home, "a test") == set()


def test_one_that_gave_its_lease_back_is_not_asked_as_one_that_waits(home: StreamHome) -> None:
    lease = acquire(home, "a")
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="a", at=epoch_ms(), log="a", master="yarn", submission="a"))
    assert ask_to_stop(home, "a test") == {"a"}
    lease.release()
    assert ask_to_stop(home, "a test") == set()


@pytest.fixture(params=["a path", "a URI"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DataPath]:
    if request.param == "a path":
        yield tmp_path / "lake"
        return
    folder = UPath(f"memory://{tmp_path}")
    yield folder
    folder.fs.rm(folder.path, recursive=True)


def home_in(folder: Path, lake: DataPath | None) -> StreamHome:
    home = StreamHome.of(folder, "clicks", lake)
    home.prepare()
    home.prepare_data()
    return home


def test_who_comes_first_has_it_and_another_home_is_told_whose_it_is(
    tmp_path: Path, lake: DataPath, reviewed: Reviewed
) -> None:
    first, second = home_in(tmp_path / "laptop", lake), home_in(tmp_path / "cluster", lake)
    claim_data(first)
    claim_data(first)
    with pytest.raises(DataOwned) as raised:
        require_own_data(second)
    reviewed(raised.value)
    claim_data(second)
    require_own_data(first)


def test_of_two_that_claim_at_once_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second finds nothing, and a moment later the mark of the first."""
    first, second = home_in(tmp_path / "laptop", tmp_path / "lake"), home_in(tmp_path / "cluster", tmp_path / "lake")

    def create_after_the_first(file: RecordFile[DataOwner], record: DataOwner) -> bool:
        monkeypatch.undo()
        claim_data(first)
        return file.create(record)

    monkeypatch.setattr(RecordFile, "create", create_after_the_first)
    with pytest.raises(DataOwned):
        claim_data(second)
    require_own_data(first)


def test_a_home_that_was_moved_keeps_its_data(tmp_path: Path, lake: DataPath) -> None:
    claim_data(home_in(tmp_path / "before", lake))
    (tmp_path / "before").rename(tmp_path / "after")
    require_own_data(home_in(tmp_path / "after", lake))


def test_where_the_home_is_the_data_root_nothing_is_marked(tmp_path: Path) -> None:
    home = home_in(tmp_path, None)
    claim_data(home)
    require_own_data(home)
    assert OWNER_FILE not in list_names(home.data)


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"owner": 1}'])
def test_a_mark_that_nobody_can_read_is_no_mark_of_ours(tmp_path: Path, lake: DataPath, content: bytes) -> None:
    home = home_in(tmp_path / "laptop", lake)
    opened(home.data / OWNER_FILE).write_bytes(content)
    for asked in (claim_data, require_own_data):
        with pytest.raises(DamagedFile):
            asked(home)
