"""Where a stream keeps what it owns, and what may not be written."""

from pathlib import Path

import pytest

from sessionizer.control.records.process_records import EXIT_FILE, STOP_FILE, lease_file
from sessionizer.control.records.supervision_records import DESIRED_FILE
from sessionizer.errors import InvalidSpec, UnwritablePath
from sessionizer.home.record_file import ControlFile, LineageFile
from sessionizer.home.roots import platform_home
from sessionizer.home.stream_home import FILES_OF_DRIVERS, LOG_NAME, LineageHome, StreamHome
from support.places import mounted
from support.record_files import record_files


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
    "stop.a", "excluded_ranges/a.json", "requests/a.json",
}  # fmt: skip
LINEAGE_FILES = {
    "spec.json", "types.json", "drained.json", "excluded_ranges.json", "source.json", "checkpoint.json",
    "fingerprint.json", "origin.json", "migrations.json", "canary.json", "promoted.json",
}  # fmt: skip
OF_LINEAGE = {
    "checkpoint": "checkpoint", "punctuations": "punctuations", "open_sessions": "open_sessions.json",
    "unreadable_files": "unreadable_files.json", "schema_ids": "schema_ids.json",
    "announced_timeouts": "announced_timeouts.json",
    "no_events": "no_events", "first_log": "first_log", "rehearsal": "rehearsal",
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
    log = LOG_NAME.fullmatch(StreamHome.of(tmp_path, "clicks").driver_log("ab-1").name)
    assert log is not None
    assert log[1] == "ab-1"


def properties(kind: type) -> list[str]:
    return [name for name, value in vars(kind).items() if isinstance(value, property)]


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
