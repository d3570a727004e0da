"""What a file says of itself: its format and its writer; files of earlier releases are read, those of newer refused."""

import importlib
import json
import os
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sessionizer
from sessionizer.control.lease import acquire
from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Heartbeat, Phase
from sessionizer.control.records.process_records import (
    LAUNCH_FILE,
    ExitOutcome,
    ExitRecord,
    LaunchRecord,
    lease_file,
    read_launch,
    request_stop,
    write_exit,
)
from sessionizer.control.records.supervision_records import (
    HEALTH_FILE,
    SUPERVISION_FILE,
    TOLD_OF_ORPHAN,
    TOLD_OF_UNWATCHED,
    WATCH_FILE,
    DesiredState,
    Health,
    Problem,
    SupervisionRecord,
    WatchRecord,
    read_desired,
    write_desired,
)
from sessionizer.core.key_group.group_load import OpenInGroup
from sessionizer.errors import DamagedFile, SessionizerError
from sessionizer.home.home_identity import home_id
from sessionizer.home.json_record import JsonRecord
from sessionizer.home.record_file import RecordFile
from sessionizer.home.roots import ControlPath, DataPath
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import DRAINED_FILE, begin_drain, read_lineage, start_lineage
from sessionizer.lineage.batch_log import BatchLog, OpenSessions
from sessionizer.lineage.excluded_ranges import (
    EXCLUDED_RANGES_FILE,
    ExcludedRange,
    ExcludedRanges,
    read_excluded_ranges,
)
from sessionizer.lineage.kept_spec import SPEC_FILE, TYPES_FILE, KeptTypes, LineageSpec, note_source_ids
from sessionizer.spark.ingest.file_source.unfit_files import UnreadableFiles
from sessionizer.spark.ingest.kafka_values.registry import SCHEMA_IDS_FILE, SchemaIds, asked_ids
from sessionizer.spark.ingest.punctuation import ANNOUNCED_FILE, AnnouncedTimeouts, TimeoutTable
from sessionizer.state.lineages.table_changes import NotifiedChanges
from support.faults.damaged_files import field_damages
from support.places import REPOSITORY

EXCLUDED = ExcludedRanges((ExcludedRange("a.json", files=("file:/a.json",)),))
OPEN_THERE = OpenInGroup(sessions=2, latest_due_ms=500, held_bytes=100, admitted=3, merged=True)


def written_by_all(home: StreamHome) -> str:
    """Every JSON file that the platform writes beside a stream's tables, except the rows of a source."""
    home.prepare()
    home_id(home.root.parent.parent)
    lineage = start_lineage(home, spec=LineageSpec({"name": "clicks"}, 1, 2))
    acquire(home, "driver-1")
    write_desired(home, DesiredState.RUNNING, by="a test", why="")
    HEARTBEAT_FILE.of(home).write(Heartbeat("driver-1", 5, 1, Phase.IDLE))
    write_exit(home, ExitRecord("driver-1", 5, ExitOutcome.STOPPED))
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="driver-1", at=1, log="a"))
    SUPERVISION_FILE.of(home).write(SupervisionRecord(failures=1))
    WATCH_FILE.of(home).write(WatchRecord(run_id="r", try_number=1))
    HEALTH_FILE.of(home).write(Health(worked_at=3, ailment=Problem.STALE))
    request_stop(home, "driver-1", "a test")
    assert TOLD_OF_ORPHAN.is_news(home, "driver-1")
    assert TOLD_OF_UNWATCHED.is_news(home, "driver-1")
    begin_drain(home, lineage)
    TYPES_FILE.of(home, lineage).write(KeptTypes("event_time"))
    of_lineage = home.lineage(lineage)
    OpenSessions(of_lineage.open_sessions).learn(0, [(3, OPEN_THERE)])
    UnreadableFiles.of(home, lineage).put_aside("file:/a.parquet", "not Parquet")
    note_source_ids(home, lineage, {"clicks": "a"})
    EXCLUDED_RANGES_FILE.of(home, lineage).write(EXCLUDED)
    NotifiedChanges(of_lineage.table_changes).note({"/lake/sessions": 3}, [])
    SCHEMA_IDS_FILE.of(home, lineage).write(SchemaIds((3, 20)))
    announced = of_lineage.announced_timeouts
    announced.write_text('{"timeouts": {"bob": 9}}')
    assert timeouts(announced, home.punctuations(lineage)).announce_changes() == {"bob": 1_000}
    return lineage


def timeouts(file: ControlPath, punctuations: DataPath) -> TimeoutTable:
    announced = RecordFile(file, AnnouncedTimeouts)
    table: Any = TimeoutTable(None, None, 1_000, {}, announced, punctuations)  # type: ignore[arg-type]
    return table  # type: ignore[no-any-return]


def own_files(home: StreamHome, lineage: str) -> list[ControlPath]:
    platform = home.root.parent.parent
    folders = (home.control, home.leases, home.lineage(lineage).records)
    return [platform / "home.json", *(path for folder in folders for path in folder.iterdir() if path.is_file())]


def rewritten(path: ControlPath, **changes: object) -> dict[str, Any]:
    """The file with these keys; None leaves one out."""
    content = {**json.loads(path.read_text()), **changes}
    content = {name: value for name, value in content.items() if value is not None or name not in changes}
    path.write_text(json.dumps(content))
    return content


def test_every_file_names_its_format_and_its_writer(home: StreamHome) -> None:
    lineage = written_by_all(home)
    files = own_files(home, lineage)
    assert len(files) == 28
    for path in files:
        content = json.loads(path.read_text())
        assert content["format"] >= 1, path
        assert content["writer"].startswith(f"{os.getpid()}@"), path


def test_no_record_is_written_without_its_stamp() -> None:
    sources = [path for root in ("jobs", "plugins") for path in (REPOSITORY / root).rglob("*.py")]
    unstamped = re.compile(r"(write|create)_json\((?!.*stamped\().*to_json\(\)")
    assert [path.name for path in sources if unstamped.search(path.read_text())] == []


def test_every_kind_of_record_refuses_a_newer_format_by_name(tmp_path: Path) -> None:
    kinds = record_kinds()
    assert len(kinds) >= 12
    for kind in kinds:
        path = tmp_path / f"{kind.__name__}.json"
        path.write_text(json.dumps({"format": 9, "unheard": "of"}))
        reading = RecordFile(path, kind).examine()
        assert reading.value is None
        assert "format 9, and this release reads 1" in (reading.damage or "")


@pytest.mark.parametrize("odd", [0, "1", 1.0, True, []])
def test_a_format_that_is_none_is_damage(home: StreamHome, odd: object) -> None:
    written_by_all(home)
    rewritten(home.control / "desired.json", format=odd)
    with pytest.raises(DamagedFile, match="it has format"):
        read_desired(home)


def test_a_newer_file_of_a_lineage_is_refused_and_not_taken_for_none(home: StreamHome) -> None:
    lineage = written_by_all(home)
    of_lineage = home.lineage(lineage).records
    for name in (
        "drained.json",
        "spec.json",
        "types.json",
        "open_sessions.json",
        "unreadable_files.json",
        "schema_ids.json",
        "excluded_ranges.json",
        "announced_timeouts.json",
    ):
        rewritten(of_lineage / name, format=9)
    rewritten(home.control / "lineage.json", format=9)
    readers = (
        lambda: read_lineage(home),
        lambda: DRAINED_FILE.of(home, lineage).require(),
        lambda: SPEC_FILE.of(home, lineage).require(),
        lambda: TYPES_FILE.of(home, lineage).require(),
        lambda: OpenSessions(of_lineage / "open_sessions.json"),
        lambda: UnreadableFiles.of(home, lineage).uris(),
        lambda: asked_ids(SCHEMA_IDS_FILE.of(home, lineage)),
        lambda: read_excluded_ranges(home, lineage),
        lambda: ANNOUNCED_FILE.of(home, lineage).require(),
    )
    for read in readers:
        with pytest.raises(DamagedFile, match="it has format 9"):
            read()


def test_an_odd_field_of_a_record_is_named_or_does_no_harm(home: StreamHome) -> None:
    """Whoever reads it: a driver would end by an unknown cause, and try again until its budget is used up."""
    lineage = written_by_all(home)
    begun = {"earlier": {}, "first": {}, "batches": [], "written": {"sessions": 3}, "accepted": ["a"]}
    home.lineage(lineage).batches.write_text(json.dumps({"format": 1, "writer": "1@a", **begun}))
    readers: dict[str, Callable[[ControlPath], object]] = {
        "open_sessions.json": lambda file: figures_of(OpenSessions(file)),
        "unreadable_files.json": lambda _: UnreadableFiles.of(home, lineage).uris(),
        "schema_ids.json": lambda _: asked_ids(SCHEMA_IDS_FILE.of(home, lineage)),
        "excluded_ranges.json": lambda _: read_excluded_ranges(home, lineage),
        "announced_timeouts.json": lambda file: timeouts(file, home.punctuations(lineage)).announce_changes(),
        "table_changes.json": lambda file: NotifiedChanges(file).looked("/lake/sessions"),
        "batches.json": lambda file: BatchLog(file).recent,
    }
    for name, read in readers.items():
        file = home.lineage(lineage).records / name
        whole = file.read_bytes()
        read(file)
        for what, odd in field_damages(whole):
            file.write_bytes(odd)
            try:
                read(file)
            except SessionizerError:
                continue
            except Exception as error:
                error.add_note(f"{name}: {what}")
                raise
        file.write_bytes(whole)


def figures_of(sessions: OpenSessions) -> list[object]:
    return [
        sessions.total,
        sessions.most,
        sessions.latest_due_ms,
        sessions.held_bytes,
        sessions.load,
        sessions.heaviest,
    ]


def test_files_of_the_first_releases_are_read(home: StreamHome) -> None:
    lineage = written_by_all(home)
    expected = everything_read(home, lineage)
    for path in own_files(home, lineage):
        if path.name != "spec.json":  # its first formats are others
            rewritten(path, format=None, writer=None)
    assert everything_read(home, lineage) == expected


def test_a_client_may_have_any_name(tmp_path: Path) -> None:
    file = tmp_path / "announced_timeouts.json"
    assert RecordFile(file, AnnouncedTimeouts).require() is None
    file.write_text(json.dumps({"format": 1, "writer": "1@a", "timeouts": {"writer": 7}}))
    assert RecordFile(file, AnnouncedTimeouts).require() == AnnouncedTimeouts({"writer": 7})


@pytest.mark.parametrize("content", ['{"format": 1, "writer": "1@a"}', "", "[]"])
def test_a_file_without_its_content_is_damaged(tmp_path: Path, content: str) -> None:
    file = tmp_path / "announced_timeouts.json"
    file.write_text(content)
    with pytest.raises(DamagedFile):
        RecordFile(file, AnnouncedTimeouts).require()


def everything_read(home: StreamHome, lineage: str) -> list[object]:
    of_lineage = home.lineage(lineage).records
    sessions = OpenSessions(of_lineage / "open_sessions.json")
    return [
        home_id(home.root.parent.parent),
        read_lineage(home),
        lease_file(home, 1).examine(),
        read_desired(home),
        HEARTBEAT_FILE.of(home).read(),
        read_launch(home),
        SUPERVISION_FILE.of(home).read(),
        WATCH_FILE.of(home).read(),
        HEALTH_FILE.of(home).read(),
        TOLD_OF_ORPHAN.is_news(home, "driver-1"),
        DRAINED_FILE.of(home, lineage).require(),
        TYPES_FILE.of(home, lineage).require(),
        (sessions.total, sessions.latest_due_ms),
        UnreadableFiles.of(home, lineage).uris(),
        asked_ids(SCHEMA_IDS_FILE.of(home, lineage)),
        read_excluded_ranges(home, lineage),
        ANNOUNCED_FILE.of(home, lineage).require(),
    ]


def record_kinds() -> list[type[JsonRecord]]:
    """All in the packages of records: none is left out by forgetting it here."""
    for room in ("home", "control", "lineage"):
        package = importlib.import_module(f"{sessionizer.__name__}.{room}")
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(found.name)
    return sorted(JsonRecord.__subclasses__(), key=lambda kind: kind.__name__)
