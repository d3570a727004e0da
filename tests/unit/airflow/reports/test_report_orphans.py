"""Orphans are reported again and again, told once, and never touched."""

from dataclasses import replace

import pytest

from sessionizer.control.operation import new_operation
from sessionizer.control.records.operation_record import Ending, OperationRecord, OperationStage
from sessionizer.control.records.process_records import stop_requested
from sessionizer.control.records.supervision_records import DesiredState, write_desired
from sessionizer.home.clock import epoch_ms
from sessionizer.home.names import name_process
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.alerting.alert import Alert, AlertKind
from sessionizer_airflow.errors import PersonNeeded, StreamFindings
from sessionizer_airflow.reports import report_orphans, report_stuck
from support.expected.driver_statuses import Heard
from support.fixtures.reviewed import Reviewed
from support.processes.fabricated_platform import Platform
from support.verbs.begun_restore import write_operation


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


MINUTE = 60_000
PATIENCE = 10 * MINUTE


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
