"""Views of all streams: their list, words, timeline and bundle."""

import errno
import json
import stat
import tarfile
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner, Result

from sessionizer.cli.app import app
from sessionizer.cli.status import since_when
from sessionizer.control.history.files import KEPT_MS, HistoryWriter, Mark, MarkKind, add_mark
from sessionizer.control.history.sample import Sample
from sessionizer.control.operation import new_operation
from sessionizer.control.records.operation_record import Ending, OperationRecord
from sessionizer.control.records.process_records import LAUNCH_FILE, LaunchRecord
from sessionizer.control.records.supervision_records import SUPERVISION_FILE, SupervisionRecord
from sessionizer.control.status.driver_status import State
from sessionizer.errors import ControlUnreachable, DuplicateStream, InvalidSpec, UnknownStream
from sessionizer.fleet.finding import Rule
from sessionizer.fleet.stream_view import INVALID, TOLD_FOR_MS, StreamView, describe_automatic_rollback
from sessionizer.fleet.streams import all_streams, read_records_once
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import Store
from sessionizer.home.roots import ControlPath
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.canary.canary_record import BY_CANARY
from sessionizer.lineage.kept_spec import LineageSpec
from sessionizer.stream_spec.decisions import document_of
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import load_stream
from support.fixtures.reviewed import Reviewed
from support.processes.fabricated_platform import Platform
from support.verbs.begun_restore import write_operation

SECRET = "hunter2"  # noqa: S105 - of the test


def contents_of(file: Path) -> dict[str, str]:
    with tarfile.open(file) as archive:
        found = {}
        for entry in archive.getmembers():
            read = archive.extractfile(entry)
            assert read is not None
            found[entry.name.removeprefix("visits-bundle/")] = read.read().decode()
    return found


def test_it_has_records_history_and_logs_without_credentials(
    platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SESSIONIZER_NOTIFIER_ARGUMENTS", "SPARK_OF_OUR_SITE"):
        monkeypatch.setenv(name, f'{{"to": "{SECRET}"}}')
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "3g")
    _, home = platform.add_driven("visits", batch_id=7, warning=f"password={SECRET}")
    start_lineage(home)
    HistoryWriter(home).add(Sample(at=epoch_ms(), batches=1, rows=5))
    add_mark(home, Mark(kind=MarkKind.ALERT, text="waiting"))
    (home.logs / "driver.driver-1.log").write_text(f"a line\nsasl.jaas.config={SECRET}\n")
    (tmp_path / "passwords").write_text(SECRET)
    (home.logs / "driver.other.log").symlink_to(tmp_path / "passwords")
    file = tmp_path / "bundle.tar.gz"
    shown = platform.call("bundle", "visits", "--to", str(file))
    assert shown.exit_code == 0
    found = contents_of(file)
    assert {"contents.json", "status.json", "machine.json", "spec/visits.yaml"} <= set(found)
    assert "control/heartbeat.json" in found
    assert "control/lineage.json" in found
    assert any(name.startswith("control/history/mark.") for name in found)
    assert any(name.startswith("control/history/2") for name in found)
    assert found["logs/driver.driver-1.log"].startswith("a line")
    assert "logs/driver.other.log" not in found, "a link may lead to any file"
    assert not [name for name, text in found.items() if SECRET in text]
    assert json.loads(found["status.json"])["stream"] == "visits"
    named = json.loads(found["machine.json"])["settings"]
    assert named["SPARK_DRIVER_MEMORY"] == "3g"
    assert {"SESSIONIZER_NOTIFIER_ARGUMENTS", "SPARK_OF_OUR_SITE"} <= set(named)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_part_that_cannot_be_read_is_named(platform: Platform, tmp_path: Path) -> None:
    _, home = platform.add_driven("visits")
    (home.control / "lineage.json").write_text("{")
    file = tmp_path / "bundle.tar.gz"
    assert platform.call("bundle", "visits", "--to", str(file)).exit_code == 0
    found = contents_of(file)
    assert "checkpoint.json" in json.loads(found["contents.json"])["missing"]
    assert found["control/lineage.json"] == "{", "what is broken is what the reader needs"


def test_a_broken_spec_and_a_stream_without_one(platform: Platform, tmp_path: Path) -> None:
    platform.add("visits", "name: visits\n")
    assert platform.call("bundle", "visits", "--to", str(tmp_path / "a.tar.gz")).exit_code == 0
    platform.drive("visits")
    (platform.streams / "visits.yaml").unlink()
    assert platform.call("bundle", "visits", "--to", str(tmp_path / "b.tar.gz")).exit_code == 0
    assert "control/heartbeat.json" in contents_of(tmp_path / "b.tar.gz")


def test_nothing_is_overwritten(platform: Platform, tmp_path: Path) -> None:
    platform.add("visits")
    file = tmp_path / "bundle.tar.gz"
    file.write_text("mine")
    assert isinstance(platform.call("bundle", "visits", "--to", str(file)).exception, InvalidSpec)
    assert file.read_text() == "mine"


def test_no_such_stream(platform: Platform, tmp_path: Path) -> None:
    answer = platform.call("bundle", "nothing", "--to", str(tmp_path / "bundle.tar.gz"))
    assert isinstance(answer.exception, UnknownStream)
    assert not (tmp_path / "bundle.tar.gz").exists()


NOW = 1_790_000_000_000


def timeline(platform: Platform, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["timeline", *arguments, "--home", str(platform.home)])


def past(home: StreamHome, **figures: int) -> int:
    """A batch a minute ago, and a crash after it."""
    at = epoch_ms() - 60_000
    HistoryWriter(home).add(Sample(at=at, batches=1, rows=600, batch_ms=500, **figures))  # type: ignore[arg-type]
    add_mark(home, Mark(at=at + 1, kind=MarkKind.CRASH, what="memory", text="heap", uid="a"))
    return at


def test_figures_and_marks(platform: Platform) -> None:
    home = platform.add("visits")
    past(home, late=7)
    shown = timeline(platform, "visits", "--since", "30m")
    assert shown.exit_code == 0
    assert shown.stdout.rstrip().endswith(" driver a: heap")
    (row,) = [line.split() for line in shown.stdout.splitlines() if "500 ms" in line]
    assert row[2:4] == ["10", "1"]
    assert row[-2:] == ["7", "0"]


def test_json(platform: Platform) -> None:
    home = platform.add("visits")
    at = past(home)
    told = json.loads(timeline(platform, "visits", "--since", "2h", "--json").stdout)
    assert told["stream"] == "visits"
    assert [(each["rows"], each["batches"]) for each in told["samples"]] == [(600, 1)]
    assert [(each["kind"], each["at"]) for each in told["marks"]] == [("crash", at + 1)]


def test_a_stream_without_a_history(platform: Platform, reviewed: Reviewed) -> None:
    platform.add("visits").prepare()
    shown = timeline(platform, "visits")
    assert shown.exit_code == 0
    assert "no history" in shown.stdout
    reviewed(shown.stderr)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("30m", NOW - 1_800_000),
        ("6h", NOW - 21_600_000),
        ("7d", NOW - KEPT_MS),
        ("99d", NOW - KEPT_MS),
        ("2026-09-21T13:00", 1_789_995_600_000),
        ("1999-01-01", NOW - KEPT_MS),
    ],
)
def test_since(text: str, moment: int) -> None:
    assert since_when(text, NOW) == moment


@pytest.mark.parametrize("text", ["", "soon", "0h", "6", "6w", "-6h"])
def test_no_time(text: str) -> None:
    with pytest.raises(InvalidSpec, match="--since"):
        since_when(text, NOW)


def test_status_tells_health_and_what_the_advice_does_not(platform: Platform) -> None:
    _, home = platform.add_driven("visits", batch_id=41, input_rows=100)
    HistoryWriter(home).add(Sample(at=epoch_ms() - 60_000, batches=1, rows=1_000, refused=500))
    shown = platform.call("status", "visits")
    assert "rows were refused" in shown.stdout
    (told,) = json.loads(platform.call("status", "visits", "--json").stdout)
    assert (told["health"]["word"], told["health"]["rule"]) == ("degraded", "rows_refused")
    assert told["state"] == "RUNNING", "what there was before stays"


@pytest.fixture
def rollback(home: StreamHome) -> OperationRecord:
    record = new_operation(home, "rollback", "d", f"{BY_CANARY}new", ("new", 3))
    return replace(record, outcome=Ending.DONE, lineage_to="old")


def test_an_automatic_rollback_is_told_for_a_day(rollback: OperationRecord) -> None:
    line = describe_automatic_rollback([rollback], "no batch", rollback.step_at + TOLD_FOR_MS)
    assert line is not None
    assert all(part in line for part in ("lineage new", "no batch", "lineage old"))
    assert describe_automatic_rollback([rollback], "no batch", rollback.step_at + TOLD_FOR_MS + 1) is None


def test_other_operations_are_not(rollback: OperationRecord) -> None:
    now = rollback.step_at
    assert describe_automatic_rollback([], None, now) is None
    for other in (replace(rollback, by="alice"), replace(rollback, outcome=Ending.ABANDONED)):
        assert describe_automatic_rollback([other], "why", now) is None
    assert describe_automatic_rollback([rollback, replace(rollback, by="alice")], "why", now) is None


def views(platform: Platform) -> dict[str, StreamView]:
    return {view.name: view for view in all_streams(platform.home, platform.streams)}


def test_no_stream_waits_for_a_store_that_is_away(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    platform.add("clicks")
    (platform.home / "streams").mkdir(parents=True)
    asked: list[StreamHome] = []

    def read(home: StreamHome, _spec: StreamSpec) -> StreamView:
        asked.append(home)
        raise ControlUnreachable(home.control, "no answer within 8 s")

    monkeypatch.setattr(Store, "names", Mock(side_effect=TimeoutError(errno.ETIMEDOUT, "no answer within 8 s")))
    with pytest.raises(ControlUnreachable):
        list(all_streams(platform.home, platform.streams, read=read))
    assert asked == []


def test_each_record_of_a_stream_is_read_once(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    home, read, usual = platform.add_prepared("clicks"), list[ControlPath](), Store._read
    start_lineage(home, spec=LineageSpec(document_of(load_stream(platform.streams / "clicks.yaml")), 1))

    def count(store: Store) -> bytes:
        read.append(store._path)
        return usual(store)

    monkeypatch.setattr(Store, "_read", count)
    seen = read_records_once(home, load_stream(platform.streams / "clicks.yaml"))
    assert seen.lineage is not None
    assert home.lineage_record in read
    assert len(read) == len(set(read))


def test_every_stream_is_there_once_with_what_is_known_of_it(platform: Platform, reviewed: Reviewed) -> None:
    _, home = platform.add_driven("clicks", batch_id=7, running_since=epoch_ms() - 60_000)
    SUPERVISION_FILE.of(home).write(SupervisionRecord(failures=2))
    platform.add("young")
    platform.drive("gone")
    found = views(platform)
    assert list(found) == ["clicks", "young", "gone"]
    clicks, young, gone = found.values()
    assert (clicks.state, young.state, gone.state) == (State.RUNNING, State.NEVER_STARTED, State.RUNNING)
    assert clicks.supervision == SupervisionRecord(failures=2)
    reviewed(clicks.notes)
    assert [view.is_orphan for view in found.values()] == [False, False, True]
    assert (gone.health.rule, gone.health.findings[0].what[:15]) == (Rule.ORPHAN, "driver driver-1")
    assert json.loads(json.dumps(clicks.to_json()))["heartbeat"]["batch_id"] == 7


def test_a_spec_that_cannot_be_read_hides_nothing_of_its_driver(platform: Platform) -> None:
    platform.add("clicks", "name: [")
    platform.drive("clicks")
    (view,) = views(platform).values()
    assert (view.state, view.seen, view.owner.state) == (INVALID, None, State.RUNNING)
    assert isinstance(view.problem, InvalidSpec)
    assert "correct" in view.health.findings[0].what_to_do


def test_a_home_that_cannot_be_looked_into_is_its_own_problem(platform: Platform) -> None:
    for name in ("clicks", "visits"):
        platform.add(name)
        platform.drive(name)
    leases = platform.home / "streams/clicks/control/leases"
    for file in leases.iterdir():
        file.unlink()
    leases.rmdir()
    leases.symlink_to(leases)
    found = views(platform)
    assert isinstance(found["clicks"].problem, ControlUnreachable)
    assert found["visits"].state == State.RUNNING
    with pytest.raises(ControlUnreachable):
        _ = found["clicks"].owner


def test_two_files_of_one_name_are_one_stream_with_a_problem(platform: Platform) -> None:
    """Airflow makes no DAGs of either."""
    platform.add_driven("clicks")
    (platform.streams / "clicks.yml").write_text((platform.streams / "clicks.yaml").read_text())
    (view,) = all_streams(platform.home, platform.streams)
    assert (view.state, view.owner.state, view.health.rule) == (INVALID, State.RUNNING, "invalid_spec")
    assert isinstance(view.problem, DuplicateStream)


def test_a_command_without_a_process_is_seen_though_the_spec_was_removed(platform: Platform) -> None:
    home = StreamHome.of(platform.home, "clicks")
    home.prepare()
    assert not views(platform)["clicks"].is_listed
    record = new_operation(home, "restore", "0123456789abcdef", "olga", ("a", 3), savepoint="nightly")
    write_operation(home, replace(record, step_at=1))
    view = views(platform)["clicks"]
    assert (view.is_listed, view.is_orphan, view.health.rule) == (True, False, "stuck_command")
    assert record.command in platform.call("status").stdout
    platform.drive("clicks")
    view = views(platform)["clicks"]
    assert (view.is_listed, view.is_orphan) == (True, False), "the process that has the lease is its command"


def test_a_file_whose_name_no_stream_may_have(platform: Platform) -> None:
    (platform.streams / "Bad-Name.yaml").write_text("name: Bad-Name")
    (view,) = views(platform).values()
    assert (view.home, view.state) == (None, INVALID)


def test_it_is_as_patient_as_the_installation_says(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    platform.add_driven("clicks", batch_id=1)
    platform.fall_silent("clicks", since=epoch_ms() - 60_000)
    assert views(platform)["clicks"].state == State.RUNNING
    monkeypatch.setenv("SESSIONIZER_STALE_LIMIT", "30 seconds")
    assert views(platform)["clicks"].state == State.STALLED


def test_a_driver_that_waits_for_its_lease_is_the_newest_not_the_owner(platform: Platform) -> None:
    lease, home = platform.add_driven("clicks")
    lease.release()
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="driver-2", at=epoch_ms() + 1, log="a"))
    view = views(platform)["clicks"]
    assert view.driver is not None
    assert (view.driver.uid, view.owner.uid) == ("driver-2", "driver-1")
