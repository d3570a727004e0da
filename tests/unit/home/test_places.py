"""Places of a home: paths of a stream, private folders, room on the disk."""

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessionizer.control.maintenance import record_failure
from sessionizer.control.records.process_records import EXIT_FILE, STOP_FILE, lease_file
from sessionizer.control.records.supervision_records import DESIRED_FILE
from sessionizer.errors import DiskFull, HomeCopied, InvalidSpec, TransientError, UnwritablePath
from sessionizer.home import home_identity
from sessionizer.home import local_files as disk_space
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import Store
from sessionizer.home.home_identity import HomeIdentity, home_id, note_home_here, require_home_here
from sessionizer.home.local_files import RESERVE, Reserve, close_to_others, require_room, unwritable
from sessionizer.home.record_file import ControlFile, LineageFile, have_folder
from sessionizer.home.roots import folder_at, platform_home
from sessionizer.home.stream_home import FILES_OF_DRIVERS, LOG_NAME, Below, LineageHome, StreamHome
from sessionizer.lineage.active import make_lineage, require_own_home
from sessionizer.state.savepoints.listing import SavepointFailure, write_data_record
from support.places import known, mounted, opened
from support.record_files import record_files

HERE = HomeIdentity("", "/srv/home", "one", 7_000)


@pytest.fixture(params=[True, False], ids=["numbers", "no numbers"])
def numbers(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the file system of the tests counts as one that keeps the numbers of its folders."""
    kept = frozenset({home_identity._file_system(tmp_path.resolve())} if request.param else ())
    monkeypatch.setattr(home_identity, "_KEEP_NUMBERS", kept)
    return bool(request.param)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (HomeIdentity("", "/srv/home", "one", 7_000), True),
        (HomeIdentity("", "/mnt/home", "one", 7_000), True),  # renamed, or mounted elsewhere
        (HomeIdentity("", "/mnt/home", "two", 7_000), True),  # and from another machine
        (HomeIdentity("", "/srv/home", "one", 7_001), True),  # put back from a copy: the tables tell
        (HomeIdentity("", "/srv/home", "two", 7_001), False),  # copied to another machine
        (HomeIdentity("", "/srv/copy", "one", 7_001), False),
        (HomeIdentity("", "/srv/copy", "one"), False),  # numbers are not kept
        (HomeIdentity("", "/srv/home", "two"), True),
        (HomeIdentity("", "hdfs://n:1/home"), False),
    ],
)
def test_a_home_is_one_by_its_folder_or_its_path(other: HomeIdentity, *, same: bool) -> None:
    assert HERE.is_same(other) is same
    assert other.is_same(HERE) is same


@pytest.mark.usefixtures("numbers")
def test_a_copy_is_refused_until_a_user_says_that_it_was_moved(tmp_path: Path) -> None:
    home, copy = tmp_path / "home", tmp_path / "copy"
    home.mkdir()
    identity = home_id(home)
    require_home_here(home)
    shutil.copytree(home, copy)
    with pytest.raises(HomeCopied) as refused:
        require_home_here(copy)
    assert refused.value.home == identity
    note_home_here(copy)
    require_home_here(copy)
    require_home_here(home)
    assert home_id(copy) == identity


def test_a_rename_is_no_copy_where_numbers_are_kept(tmp_path: Path, *, numbers: bool) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home_id(home)
    moved = home.rename(tmp_path / "moved")
    if numbers:
        require_home_here(moved)
    else:
        with pytest.raises(HomeCopied):
            require_home_here(moved)


@pytest.mark.parametrize(
    ("data", "folder", "outside"),
    [
        (None, None, False),
        (None, "lake", False),
        (None, "/lake", True),
        (None, "hdfs://namenode:8020/lake", True),
        ("/data", None, True),
        ("/data", "lake", True),
    ],
)
def test_only_a_copy_that_writes_outside_of_itself_is_refused(
    tmp_path: Path, data: str | None, folder: str | None, *, outside: bool
) -> None:
    home, copy = tmp_path / "home", tmp_path / "copy"
    home.mkdir()
    home_id(home)
    shutil.copytree(home, copy)
    root = None if data is None else folder_at(data)
    require_own_home(StreamHome.of(home, "clicks", root), folder)
    if outside:
        with pytest.raises(HomeCopied):
            require_own_home(StreamHome.of(copy, "clicks", root), folder)
    else:
        require_own_home(StreamHome.of(copy, "clicks", root), folder)


def test_platform_home_is_absolute_and_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SESSIONIZER_HOME", "")
    assert platform_home() == tmp_path / ".sessionizer"
    monkeypatch.setenv("SESSIONIZER_HOME", "elsewhere")
    assert platform_home() == tmp_path / "elsewhere"


CONTROL_FILES = {
    "desired.json", "desired_by_user.json", "lease.json", "heartbeat.json", "launch.json", "supervision.json",
    "health.json", "watch.json", "pause.json", "positions.json", "lookups/a.json", "lookups/answer.a.json",
    "compaction.json", "lineage.json", "operations/a.json", "history/mark.a.json", "exit.a.json",
    "stop.a", "excluded_ranges/a.json", "erasures/a.json", "requests/a.json", "plans/a.json", "approved_upgrade.json",
}  # fmt: skip
LINEAGE_FILES = {
    "spec.json", "types.json", "drained.json", "excluded_ranges.json", "source.json", "checkpoint.json",
    "fingerprint.json", "origin.json", "migrations.json", "canary.json", "promoted.json", "unreadable_files.json",
    "schema_ids.json", "announced_timeouts.json",
}  # fmt: skip
OF_LINEAGE = {
    "checkpoint": "checkpoint", "punctuations": "punctuations", "open_sessions": "open_sessions.json",
    "unreadable_files": "unreadable_files.json", "schema_ids": "schema_ids.json",
    "announced_timeouts": "announced_timeouts.json",
    "no_events": "no_events", "first_log": "first_log", "migration": "migration", "rehearsal": "rehearsal",
    "batches": "batches.json", "table_changes": "table_changes.json",
}  # fmt: skip


def test_layout_which_streams_of_earlier_releases_have(tmp_path: Path) -> None:
    home = StreamHome.of(tmp_path, "clicks")
    assert home.name == "clicks"
    assert home.control == tmp_path / "streams/clicks/control"
    records = {file.of(home, "a" if file.key else "").path for file in record_files(ControlFile)}
    assert records == {home.control / name for name in CONTROL_FILES}
    assert lease_file(home, 7).path == home.control / "leases/00000007.json"
    assert home.lineage_record == home.control / "lineage.json"
    assert home.submission("a") == home.control / "submit.a"
    assert {file.of(home, "b").path for file in record_files(LineageFile)} == {
        home.control / "lineages/b" / name for name in LINEAGE_FILES
    }
    lineage = home.lineage("20261121T105501-3fa9c2")
    assert lineage.root == home.root / "lineages/20261121T105501-3fa9c2"
    assert lineage.records == home.control / "lineages/20261121T105501-3fa9c2"
    assert {name: getattr(lineage, name) for name in properties(LineageHome)} == {
        name: (lineage.records if file.endswith(".json") else lineage.root) / file for name, file in OF_LINEAGE.items()
    }
    assert (home.checkpoint("a"), home.punctuations("a")) == (
        home.lineage("a").checkpoint,
        home.root / "lineages/a/punctuations",
    )
    assert home.table("sessions") == home.root / "tables/sessions"
    assert home.driver_log("a") == home.root / "logs/driver.a.log"


def test_what_drivers_leave_behind_is_found_by_its_pattern(tmp_path: Path) -> None:
    home = StreamHome.of(tmp_path, "clicks")
    for path in (EXIT_FILE.of(home, "a").path, STOP_FILE.of(home, "a").path, home.submission("a")):
        assert any(mounted(path).match(pattern) for pattern in FILES_OF_DRIVERS)
    assert not any(mounted(DESIRED_FILE.of(home).path).match(pattern) for pattern in FILES_OF_DRIVERS)
    log = known(LOG_NAME.fullmatch(StreamHome.of(tmp_path, "clicks").driver_log("ab-1").name))
    assert log[1] == "ab-1"


def properties(kind: type) -> list[str]:
    return [name for name, value in vars(kind).items() if isinstance(value, Below)]


@pytest.mark.parametrize("name", ["", "Clicks", "../x", "a/b", "1a", "a\n", "a" * 64, "ä"])
def test_names_that_could_leave_the_home_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidSpec, match="name is "):
        StreamHome.of(tmp_path, name)
    with pytest.raises(InvalidSpec):
        StreamHome.of(tmp_path, "clicks").table(name)


@pytest.mark.parametrize("lineage", ["", ".", "..", "a/b", "a\n", "-a"])
def test_lineages_that_could_leave_the_home_are_refused(tmp_path: Path, lineage: str) -> None:
    with pytest.raises(InvalidSpec):
        StreamHome.of(tmp_path, "clicks").checkpoint(lineage)


def test_prepare_may_be_repeated(home: StreamHome) -> None:
    home.prepare()
    assert sorted(path.name for path in home.root.iterdir()) == ["control", "logs"]
    home.prepare_data()
    home.prepare_data()
    assert sorted(path.name for path in home.root.iterdir()) == ["control", "lineages", "logs", "tables"]


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "streams").write_text("in the way")
    with pytest.raises(UnwritablePath) as caught:
        StreamHome.of(tmp_path, "clicks").prepare()
    assert Path(caught.value.path).is_relative_to(tmp_path / "streams/clicks")


def test_a_place_where_even_root_cannot_write_is_named() -> None:
    with pytest.raises(UnwritablePath, match="/proc"):
        StreamHome.of(Path("/proc/self"), "clicks").prepare()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_transient(number: int) -> None:
    error = unwritable(Path("/home/x"), "a control file", OSError(number, "no room"))
    assert isinstance(error, DiskFull)
    assert isinstance(error, TransientError)


def test_any_other_refusal_is_terminal() -> None:
    assert isinstance(unwritable(Path("/x"), "a file", OSError(errno.EROFS, "Read-only")), UnwritablePath)


def test_a_disk_with_room_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_room([tmp_path, tmp_path / "absent"])
    monkeypatch.setattr(disk_space, "LEAST_ROOM", 2**63)
    with pytest.raises(DiskFull, match="bytes are left"):
        require_room([tmp_path])


def test_a_file_system_without_blocks_of_its_own_is_never_full() -> None:
    require_room([Path("/proc")])


def test_the_reserve_takes_room_until_it_is_given_up(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "reserve")
    reserve.take()
    assert reserve.file.stat().st_blocks * 512 >= RESERVE
    reserve.give_up()
    reserve.give_up()
    assert not reserve.file.exists()
    Reserve(tmp_path / "absent" / "reserve").take()


def test_the_exit_record_names_the_cause(home: StreamHome) -> None:
    record_failure(home, "a", DiskFull(home.root, "the next batch", "12 bytes are left"))
    ended = EXIT_FILE.of(home, "a").read()
    assert ended
    assert (ended.error_type, ended.terminal) == ("disk_full", False)


OTHERS = 0o007


@pytest.fixture(params=[0o022, 0o002])
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    """Set the umask of most systems, by which others may read."""
    before = os.umask(request.param)
    yield
    os.umask(before)


def open_files(root: Path) -> list[Path]:
    """Files that another user of the machine can read: every folder above lets them through."""
    found = []
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if Path(folder, name).stat().st_mode & 0o001]
        found += [root / folder / name for name in files if Path(folder, name).stat().st_mode & 0o004]
    return found


@pytest.mark.usefixtures("_umask")
def test_no_record_state_or_savepoint_is_open_to_others(tmp_path: Path) -> None:
    home = StreamHome.of(tmp_path, "visits")
    home.prepare()
    home.prepare_data()
    lineage = make_lineage(home, None)
    opened(home.checkpoint(lineage) / "offsets").mkdir()
    opened(home.checkpoint(lineage) / "offsets/0").write_text("v1")
    have_folder((home.control / "operations"), "the record of an operation")
    ((home.control / "operations") / "a.json").write_text("{}")
    (home.control / "desired.json").write_text("{}")
    write_data_record(home.savepoints / "one" / "failed.json", SavepointFailure(epoch_ms(), "x"))
    write_data_record(tmp_path / "elsewhere" / "two" / "failed.json", SavepointFailure(epoch_ms(), "x"))
    opened(home.tables / "part.parquet").write_text("rows")
    inside = [file.relative_to(tmp_path) for file in open_files(tmp_path) if home.tables not in file.parents]
    assert [path for path in inside if path.name != "home.json"] == []
    assert home.tables / "part.parquet" in open_files(tmp_path)  # its readers are many


@pytest.mark.usefixtures("_umask")
def test_what_an_earlier_release_left_open_is_closed_at_the_next_start(tmp_path: Path) -> None:
    home = StreamHome.of(tmp_path, "visits")
    for folder in (home.control, home.leases, home.lineages, home.savepoints, home.logs):
        opened(folder).mkdir(parents=True)
        opened(folder).chmod(0o2775)
    home.prepare()
    home.prepare_data()
    for folder in (home.control, home.leases, home.lineages, home.savepoints, home.logs):
        assert opened(folder).stat().st_mode & 0o7777 == 0o2770


def test_a_folder_that_its_operator_opened_to_everybody_stays_so(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    close_to_others(tmp_path)
    assert tmp_path.stat().st_mode & 0o777 == 0o777


@pytest.mark.usefixtures("_umask")
def test_what_is_closed_already_is_made_again_without_harm(tmp_path: Path) -> None:
    Store(tmp_path / "a/b").make_folder()
    Store(tmp_path / "a/b").make_folder()
    assert not (tmp_path / "a/b").stat().st_mode & OTHERS
    assert (tmp_path / "a").stat().st_mode & OTHERS
