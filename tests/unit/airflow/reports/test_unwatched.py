"""Streams that should run and do not, orphans and stuck commands: reported again and again, told once."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sessionizer.control.operation import new_operation
from sessionizer.control.records.operation_record import Ending, OperationRecord, OperationStage
from sessionizer.control.records.process_records import (
    LAUNCH_FILE,
    ExitOutcome,
    ExitRecord,
    LaunchRecord,
    stop_requested,
    write_exit,
)
from sessionizer.control.records.supervision_records import (
    SUPERVISION_FILE,
    WATCH_FILE,
    DesiredState,
    SupervisionRecord,
    WatchRecord,
    note_pause,
    write_desired,
)
from sessionizer.fleet.streams import find_view
from sessionizer.home.clock import epoch_ms
from sessionizer.home.names import name_process
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow import sessions_asset
from sessionizer_airflow.alerting import Alert, AlertKind
from sessionizer_airflow.assets import watched_sessions_asset
from sessionizer_airflow.errors import PersonNeeded, StreamFindings
from sessionizer_airflow.operators.desired_state import ask_pause
from sessionizer_airflow.reports import report_assets, report_orphans, report_stuck, report_unwatched
from support.expected.driver_statuses import Heard
from support.fixtures.reviewed import Reviewed
from support.processes.fabricated_platform import Platform
from support.verbs.begun_restore import write_operation

MINUTE = 60_000
PATIENCE = 9 * MINUTE


def died(platform: Platform, name: str, *, minutes_ago: int) -> StreamHome:
    """A stream that has a spec, and whose driver ended then."""
    platform.add(name)
    _, home = platform.drive(name)
    then = epoch_ms() - minutes_ago * MINUTE
    platform.fall_silent(name, since=then)
    write_exit(home, ExitRecord(uid="driver-1", at=then, outcome=ExitOutcome.FAILED, message="it broke"))
    WATCH_FILE.of(home).write(WatchRecord(run_id="now", try_number=1, until=then, streams=str(platform.streams)))
    return home


def test_a_dead_driver_that_nobody_looks_after_is_reported_and_told_once(
    platform: Platform, said: Heard, alerts: list[Alert], reviewed: Reviewed
) -> None:
    died(platform, "clicks", minutes_ago=2 * 24 * 60)  # so that no second counts in what is told
    for _ in range(2):
        with pytest.raises(StreamFindings) as caught:
            report_unwatched(platform.home, platform.streams, PATIENCE, said, alerts.append)
        reviewed(caught.value)
    assert "clicks.supervise" in PersonNeeded.wrap(caught.value).remedy
    (alert,) = alerts
    assert (alert.kind, alert.stream) == (AlertKind.UNWATCHED, "clicks")
    assert "for 2 d" in alert.reason


def test_a_live_driver_that_is_silent_counts_as_well(platform: Platform, said: Heard, alerts: list[Alert]) -> None:
    platform.add("clicks")
    platform.drive("clicks")
    report_unwatched(platform.home, platform.streams, PATIENCE, said, alerts.append)
    platform.fall_silent("clicks", since=epoch_ms() - 30 * MINUTE)
    with pytest.raises(StreamFindings, match="no sign"):
        report_unwatched(platform.home, platform.streams, PATIENCE, said, alerts.append)


def test_a_file_of_no_stream_hides_no_other_stream(platform: Platform, said: Heard, alerts: list[Alert]) -> None:
    (platform.streams / "Bad-Name.yaml").write_text("name: Bad-Name")
    died(platform, "clicks", minutes_ago=20)
    with pytest.raises(StreamFindings, match="clicks"):
        report_unwatched(platform.home, platform.streams, PATIENCE, said, alerts.append)
    assert [alert.stream for alert in alerts] == ["clicks"]


def test_a_broken_spec_has_no_dag_to_unpause(platform: Platform, said: Heard, alerts: list[Alert]) -> None:
    died(platform, "clicks", minutes_ago=20)
    platform.add("clicks", "name: [")
    with pytest.raises(StreamFindings) as caught:
        report_unwatched(platform.home, platform.streams, PATIENCE, said, alerts.append)
    remedy = PersonNeeded.wrap(caught.value).remedy
    assert ("clicks.yaml" in remedy, "unpause" in remedy) == (True, False)


def watched(home: StreamHome, *, minutes_ago: int, streams: Path | None = None) -> None:
    until = epoch_ms() - minutes_ago * MINUTE
    folder = None if streams is None else str(streams)
    WATCH_FILE.of(home).write(WatchRecord(run_id="now", try_number=1, until=until, streams=folder))


def test_a_driver_that_runs_and_is_watched_by_nobody_is_told(
    platform: Platform, said: Heard, alerts: list[Alert], reviewed: Reviewed
) -> None:
    """Its DAG was paused, or its DAG file was removed."""
    platform.add("clicks")
    _, home = platform.drive("clicks")
    for minutes_ago in (-200, 2):
        watched(home, minutes_ago=minutes_ago)
        report_unwatched(platform.home, platform.streams, PATIENCE, said, alerts.append)
    watched(home, minutes_ago=2 * 24 * 60)
    for _ in range(2):
        with pytest.raises(StreamFindings) as caught:
            report_unwatched(platform.home, platform.streams, PATIENCE, said, alerts.append)
        reviewed(caught.value)
    assert "clicks.stop" in PersonNeeded.wrap(caught.value).remedy
    assert [(alert.kind, alert.stream) for alert in alerts] == [(AlertKind.UNWATCHED, "clicks")]


@pytest.mark.parametrize("is_silent", [False, True])
@pytest.mark.parametrize("uid", ["driver-1", "restore-20261125T200000-abc123"])
def test_what_nobody_watches_is_called_by_its_kind(
    platform: Platform, said: Heard, alerts: list[Alert], uid: str, is_silent: bool
) -> None:
    platform.add("clicks")
    _, home = platform.drive("clicks", uid)
    watched(home, minutes_ago=20)
    if is_silent:
        platform.fall_silent("clicks", since=epoch_ms() - 30 * MINUTE)
    with pytest.raises(StreamFindings):
        report_unwatched(platform.home, platform.streams, PATIENCE, said, alerts.append)
    assert f"{name_process(uid)} " in alerts[0].reason


def test_a_stream_of_another_folder_is_no_orphan_and_is_not_forgotten(
    platform: Platform, tmp_path: Path, said: Heard, alerts: list[Alert]
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "visits.yaml").touch()
    _, home = platform.drive("visits")
    watched(home, minutes_ago=-60, streams=theirs)
    report_orphans(platform.home, platform.streams, said, alerts.append)
    report_unwatched(platform.home, platform.streams, PATIENCE, said, alerts.append)
    watched(home, minutes_ago=20, streams=theirs)
    with pytest.raises(StreamFindings, match="visits"):
        report_unwatched(platform.home, platform.streams, PATIENCE, said, alerts.append)
    (theirs / "visits.yaml").unlink()
    with pytest.raises(StreamFindings, match="visits"):
        report_orphans(platform.home, platform.streams, said, alerts.append)


def test_what_is_looked_after_or_not_wanted_is_let_be(
    platform: Platform, said: Heard, alerts: list[Alert], reviewed: Reviewed
) -> None:
    platform.add("never_started")
    died(platform, "just_now", minutes_ago=1)
    SUPERVISION_FILE.of(died(platform, "backing_off", minutes_ago=20)).write(
        SupervisionRecord(failures=4, last_failure_ms=epoch_ms() - 4 * MINUTE)
    )
    SUPERVISION_FILE.of(died(platform, "given_up", minutes_ago=20)).write(SupervisionRecord(failures=6, given_up=True))
    write_desired(died(platform, "stopped", minutes_ago=20), DesiredState.STOPPED, by="a test", why="")
    report_unwatched(platform.home, platform.streams, PATIENCE, said, alerts.append)
    assert alerts == []
    reviewed(said)


def test_it_is_news_again_after_it_was_mended(platform: Platform, said: Heard, alerts: list[Alert]) -> None:
    home = died(platform, "clicks", minutes_ago=20)
    with pytest.raises(StreamFindings):
        report_unwatched(platform.home, platform.streams, PATIENCE, said, alerts.append)
    exit_record = home.control / "exit.driver-1.json"
    kept = json.loads(exit_record.read_text())
    exit_record.write_text(json.dumps({**kept, "at": epoch_ms()}))
    report_unwatched(platform.home, platform.streams, PATIENCE, said, alerts.append)
    exit_record.write_text(json.dumps(kept))
    with pytest.raises(StreamFindings):
        report_unwatched(platform.home, platform.streams, PATIENCE, said, alerts.append)
    assert len(alerts) == 2


@pytest.mark.parametrize(("answer", "rule"), [(True, "paused"), (False, "working"), (None, "working")])
def test_a_paused_supervisor_is_noted_and_judged(platform: Platform, answer: bool | None, rule: str) -> None:
    platform.add("clicks")
    _, home = platform.drive("clicks")
    launch = LaunchRecord(uid="driver-1", at=epoch_ms() - MINUTE, log="logs/driver.log")
    LAUNCH_FILE.of(home).write(launch)
    ask_pause(home, {"clicks.supervise": answer}.__getitem__)
    assert find_view(platform.home, platform.streams, "clicks").health.rule == rule


def test_a_stream_that_never_ran_gets_no_note(platform: Platform) -> None:
    platform.add("clicks")
    home = StreamHome.of(platform.home, "clicks")
    ask_pause(home, lambda _: True)
    assert not home.control.exists()


@pytest.mark.parametrize("kind", ["sessions", "report_due"])
def test_an_asset_that_another_dag_has_is_reported_and_judged(platform: Platform, said: Heard, kind: str) -> None:
    platform.add("clicks")
    platform.add("visits")
    _, home = platform.drive("clicks")
    note_pause(home, paused=False)
    report_assets(platform.home, platform.streams, said, lambda _: None)
    with pytest.raises(StreamFindings) as caught:
        report_assets(platform.home, platform.streams, said, {f"clicks.{kind}": f"clicks.{kind}"}.get)
    assert len(caught.value.lines) == 1
    assert 'sessions_asset("clicks")' in caught.value.remedy
    note_pause(home, paused=False, taken=f"clicks.{kind}")
    note_pause(home, paused=False)
    assert find_view(platform.home, platform.streams, "clicks").health.rule == "asset_taken"
    own = watched_sessions_asset("clicks", platform.home, MINUTE)
    report_assets(platform.home, platform.streams, said, {own.name: own.uri}.get)


def test_a_consumer_declares_the_asset_of_the_stream(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    """With another address it takes the name, and without the watcher it takes that away."""
    monkeypatch.setenv("SESSIONIZER_HOME", str(platform.home))
    consumed, own = sessions_asset("clicks"), watched_sessions_asset("clicks", platform.home, MINUTE)
    assert (consumed.name, consumed.uri) == (own.name, own.uri)
    (watcher,), (of_stream,) = consumed.watchers, own.watchers
    assert (watcher.name, watcher.trigger.serialize()) == (of_stream.name, of_stream.trigger.serialize())


def test_orphan_is_reported_until_it_is_gone(
    platform: Platform, said: list[str], alerts: list[Alert], reviewed: Reviewed
) -> None:
    platform.add("clicks")
    _, home = platform.drive("clicks", lineage="old", batch_id=4)
    report_orphans(platform.home, platform.streams, said.append, alerts.append)
    reviewed(said.pop())
    (platform.streams / "clicks.yaml").unlink()
    for _ in range(2):
        with pytest.raises(StreamFindings, match="driver driver-1") as caught:
            report_orphans(platform.home, platform.streams, said.append, alerts.append)
        assert "`sessionizer stop clicks`" in caught.value.remedy
    assert len(said) == 2
    (alert,) = alerts
    assert (alert.kind, alert.stream, alert.lineage, alert.batch_id) == (AlertKind.ORPHANED, "clicks", "old", 4)
    assert "`sessionizer stop clicks`" in alert.what_to_do
    assert not stop_requested(home, "driver-1")
    platform.add("clicks")
    report_orphans(platform.home, platform.streams, said.append, alerts.append)
    (platform.streams / "clicks.yaml").unlink()
    with pytest.raises(StreamFindings):
        report_orphans(platform.home, platform.streams, said.append, alerts.append)
    assert len(alerts) == 2, "it is news again"


@pytest.mark.parametrize("uid", ["driver-1", "restore-20261125T200000-abc123"])
def test_what_runs_without_a_spec_is_called_by_its_kind(
    platform: Platform, said: list[str], alerts: list[Alert], uid: str
) -> None:
    platform.drive("clicks", uid)
    with pytest.raises(StreamFindings) as caught:
        report_orphans(platform.home, platform.streams, said.append, alerts.append)
    for told in (caught.value.lines[0], said[0], alerts[0].reason):
        assert told.startswith(f"{name_process(uid)} ")


def test_two_streams_one_of_them_renamed(platform: Platform, said: list[str], alerts: list[Alert]) -> None:
    for name in ("clicks", "visits"):
        platform.add(name)
        platform.drive(name)
    (platform.streams / "visits.yaml").rename(platform.streams / "visitors.yaml")
    with pytest.raises(StreamFindings) as caught:
        report_orphans(platform.home, platform.streams, said.append, alerts.append)
    assert [alert.stream for alert in alerts] == ["visits"]
    assert len(caught.value.lines) == 1


def test_spec_that_cannot_be_read_makes_no_orphan(platform: Platform, said: list[str], alerts: list[Alert]) -> None:
    platform.add("clicks", "name: [")
    platform.drive("clicks")
    report_orphans(platform.home, platform.streams, said.append, alerts.append)
    assert alerts == []


def begun(home: StreamHome, *, minutes_ago: int, desired: DesiredState = DesiredState.STOPPED) -> OperationRecord:
    """Record a restore that had taken rows back, and had its last sign then."""
    home.prepare()
    then = epoch_ms() - minutes_ago * MINUTE
    fresh = new_operation(home, "restore", "13a24ec4dd774b6d", "olga (Airflow)", ("L1", 4), savepoint="monday")
    record = replace(fresh, begun_at=then, step=OperationStage.TAKEN_BACK, step_at=then)
    write_operation(home, record)
    write_desired(home, desired, by="olga", why="restore to monday")
    return record


def test_a_command_that_nobody_carries_out_is_reported_and_told_once(
    platform: Platform, said: Heard, alerts: list[Alert], reviewed: Reviewed
) -> None:
    home = platform.add("clicks")
    record = begun(home, minutes_ago=20)
    for _ in range(2):
        with pytest.raises(StreamFindings) as caught:
            report_stuck(platform.home, platform.streams, PATIENCE, said, alerts.append)
    assert len(caught.value.lines) == 1
    reviewed(PersonNeeded.wrap(caught.value).remedy)
    (alert,) = alerts
    assert (alert.kind, alert.stream) == (AlertKind.OPERATION_STUCK, "clicks")
    write_operation(home, replace(record, outcome=Ending.DONE))
    report_stuck(platform.home, platform.streams, PATIENCE, said, alerts.append)
    reviewed(said)


def test_a_command_that_is_carried_out_or_tried_again_soon_is_let_be(
    platform: Platform, said: Heard, alerts: list[Alert]
) -> None:
    platform.add("carried_out")
    begun(platform.add("carried_out"), minutes_ago=20)
    platform.drive("carried_out")
    begun(platform.add("just_now"), minutes_ago=1)
    platform.add("untouched")
    report_stuck(platform.home, platform.streams, PATIENCE, said, alerts.append)
    assert alerts == []


def test_a_second_try_that_dies_is_told_anew(platform: Platform, said: Heard, alerts: list[Alert]) -> None:
    home = platform.add("clicks")
    record = begun(home, minutes_ago=40)
    for step_at in (record.step_at, record.step_at + 20 * MINUTE):
        write_operation(home, replace(record, step_at=step_at))
        with pytest.raises(StreamFindings):
            report_stuck(platform.home, platform.streams, PATIENCE, said, alerts.append)
    assert len(alerts) == 2


def test_status_says_that_nobody_carries_it_out(platform: Platform, reviewed: Reviewed) -> None:
    begun(platform.add("clicks"), minutes_ago=20)
    shown = platform.call("status", "clicks").output
    (told,) = (line for line in shown.splitlines() if "olga" in line)
    reviewed(told[: told.index(" at ")])
    assert "sessionizer carry-out clicks" in shown
    assert '"is_at_work": false' in platform.call("status", "clicks", "--json").output
