"""A command that has a stream and that no process carries out: told once, by the stream's watch or by the report."""

from dataclasses import replace

import pytest

from sessionizer.control.operation import new_operation
from sessionizer.control.records.operation_record import Ending, OperationRecord, OperationStage
from sessionizer.control.records.supervision_records import DesiredState, write_desired
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.alerting.alert import Alert, AlertKind
from sessionizer_airflow.errors import PersonNeeded, StreamFindings
from sessionizer_airflow.reports import report_stuck
from support.expected.driver_statuses import Heard
from support.fixtures.reviewed import Reviewed
from support.processes.fabricated_platform import Platform
from support.verbs.begun_restore import write_operation

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
