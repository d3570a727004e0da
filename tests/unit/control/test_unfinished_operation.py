"""A command that has a stream: whether a process carries it out, from any reading of the control directory."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.control.records.driver_records import Heartbeat, Phase
from sessionizer.control.records.operation_record import Ending, OperationRecord, OperationStage
from sessionizer.control.records.process_records import ExitOutcome, ExitRecord, LeaseRecord, Vacancy
from sessionizer.control.records.supervision_records import Desired, DesiredState
from sessionizer.control.status.driver_status import DriverStatus, judge_status
from sessionizer.control.status.unfinished_operation import (
    UNATTENDED_AFTER_MS,
    UnfinishedOperation,
    find_unfinished_operation,
    read_unfinished,
)
from sessionizer.control.timeouts import STALE_AFTER_MS
from sessionizer.home.clock import MINUTE, SECOND
from sessionizer.home.stream_home import StreamHome
from support.fixtures.reviewed import Reviewed
from support.places import known
from support.verbs.begun_restore import leave_waiting, write_operation

NOW = 1_800_000_000_000
LONG_AGO, JUST_NOW = NOW - UNATTENDED_AFTER_MS - MINUTE, NOW - 5 * SECOND
PENDING = OperationRecord(
    id="20260101T000000-abcdef",
    verb="restore",
    stream="clicks",
    by="olga (Airflow)",
    digest="13a24ec4dd774b6d",
    savepoint="monday",
    lineage_from="L1",
    batch_from=4,
    wanted=DesiredState.RUNNING,
    begun_at=LONG_AGO,
    step=OperationStage.TAKEN_BACK,
    step_at=LONG_AGO,
)
MAINTENANCE = Desired(DesiredState.MAINTENANCE, LONG_AGO, "olga", "restore to monday")
LEASE = LeaseRecord(7, LONG_AGO, "restore-1", 11, 11, "worker-3")
DEAD = DriverStatus(desired=MAINTENANCE, lease=LEASE, alive=False)


def beat(at: int) -> Heartbeat:
    return Heartbeat("restore-1", at, LONG_AGO, Phase.STARTING, progress_at=at)


def dead(**changes: Any) -> DriverStatus:
    return replace(DEAD, **changes)


def ended(at: int) -> DriverStatus:
    return dead(exit_record=ExitRecord("restore-1", at, ExitOutcome.STOPPED))


GIVEN_BACK, TAKEN = replace(LEASE, vacancy=Vacancy.RELEASED, vacated_at=JUST_NOW), replace(LEASE, acquired_at=JUST_NOW)
READINGS: dict[str, tuple[DriverStatus, bool, bool]] = {
    # what is read: is the command at work? is it unattended?
    "its process lives": (dead(alive=True, heartbeat=beat(JUST_NOW)), True, False),
    "its process lives elsewhere": (dead(alive=None, heartbeat=beat(JUST_NOW)), True, False),
    "its process was killed long ago": (DEAD, False, True),
    "its process was killed just now": (dead(heartbeat=beat(JUST_NOW)), False, False),
    "its process was killed a while ago": (dead(heartbeat=beat(LONG_AGO)), False, True),
    "its process hangs": (dead(alive=True, heartbeat=beat(LONG_AGO)), False, True),
    "its machine is gone": (dead(alive=None, heartbeat=beat(LONG_AGO)), False, True),
    "its machine was silent": (dead(alive=None, heartbeat=beat(NOW - STALE_AFTER_MS - 1)), False, False),
    "its try ended long ago": (ended(LONG_AGO), False, True),
    "its try ended just now, another is due": (ended(JUST_NOW), False, False),
    "its lease was given back just now": (dead(lease=GIVEN_BACK), False, False),
    "its next try did not beat yet": (dead(lease=TAKEN, alive=True, heartbeat=beat(LONG_AGO - 1)), True, False),
    "its next try asks the driver to stop": (dead(desired=replace(MAINTENANCE, at=JUST_NOW)), False, False),
    "a person stopped the stream": (dead(desired=Desired(DesiredState.STOPPED, JUST_NOW)), False, True),
    "a person started the stream": (dead(desired=Desired(DesiredState.RUNNING)), False, True),
    "there was never a lease": (DriverStatus(desired=MAINTENANCE), False, True),
}


def found(reading: DriverStatus, pending: OperationRecord | None = PENDING) -> UnfinishedOperation:
    return known(find_unfinished_operation("clicks", pending, judge_status(reading, NOW), NOW))


@pytest.mark.parametrize(
    ("case", "record"),
    [
        *((case, PENDING) for case in READINGS),
        # killed before it had a record: nothing else tells of it
        *((case, None) for case, (reading, *_) in READINGS.items() if reading.desired == MAINTENANCE),
    ],
)
def test_a_command_is_unattended_when_nobody_has_shown_a_sign_for_long(
    case: str, record: OperationRecord | None
) -> None:
    reading, at_work, unattended = READINGS[case]
    unfinished = found(reading, record)
    assert (unfinished.is_at_work, unfinished.is_unattended(NOW)) == (at_work, unattended)


def test_a_stream_that_no_command_has() -> None:
    for state in (DesiredState.RUNNING, DesiredState.STOPPED):
        seen = judge_status(replace(DEAD, desired=Desired(state)), NOW)
        assert find_unfinished_operation("clicks", None, seen, NOW) is None


def test_people_read_how_to_go_on(reviewed: Reviewed) -> None:
    unfinished = found(replace(DEAD, heartbeat=beat(LONG_AGO)))
    reviewed(unfinished.go_on)
    reviewed(unfinished.standing)
    assert "clicks.start" in found(DEAD, None).go_on


def test_a_command_that_was_typed_has_no_task_to_clear(reviewed: Reviewed) -> None:
    for by in ("olga", "the canary of lineage L1"):
        reviewed(found(DEAD, replace(PENDING, by=by)).go_on)


def test_a_command_that_was_killed_before_it_had_a_record_is_named(home: StreamHome) -> None:
    dead = judge_status(DEAD, NOW)
    leave_waiting(home, PENDING)
    noted = known(read_unfinished(home, None, dead, NOW))
    assert "carry_out" in noted.go_on
    assert f"`{PENDING.command}`" in noted.go_on
    write_operation(home, replace(PENDING, outcome=Ending.ABANDONED))
    over = known(read_unfinished(home, None, dead, NOW))
    assert PENDING.command not in over.go_on


def test_a_process_that_hangs_is_named() -> None:
    assert "pid 11 on worker-3" in found(READINGS["its process hangs"][0]).standing


_times = st.integers(NOW - 3 * UNATTENDED_AFTER_MS, NOW + MINUTE)
_readings = st.builds(
    DriverStatus,
    desired=st.builds(Desired, st.sampled_from(DesiredState), _times),
    lease=st.none() | st.builds(LeaseRecord, st.just(7), _times, st.just("restore-1"), st.none() | st.just(11)),
    alive=st.none() | st.booleans(),
    heartbeat=st.none() | st.builds(beat, _times),
    exit_record=st.none()
    | st.builds(ExitRecord, st.just("restore-1"), _times, st.sampled_from([ExitOutcome.STOPPED, ExitOutcome.FAILED])),
)


@given(_readings)
def test_nobody_is_told_of_a_command_at_work_and_of_any_other_in_the_end(reading: DriverStatus) -> None:
    now, later = NOW + MINUTE, NOW + 10 * UNATTENDED_AFTER_MS
    unfinished = known(find_unfinished_operation("clicks", PENDING, judge_status(reading, now), now))
    assert not (unfinished.is_at_work and unfinished.is_unattended(later))
    assert unfinished.is_at_work or unfinished.is_unattended(later)
    json.dumps(unfinished.to_json(), allow_nan=False)


@given(_readings, st.integers(1, 100) | st.just(UNATTENDED_AFTER_MS))
def test_what_is_said_stays_the_same_while_nothing_changes(reading: DriverStatus, waited: int) -> None:
    before = find_unfinished_operation("clicks", PENDING, judge_status(reading, NOW), NOW)
    after = find_unfinished_operation("clicks", PENDING, judge_status(reading, NOW + waited), NOW + waited)
    assert before is not None
    assert after is not None
    assert before.try_key == after.try_key
    if before.is_at_work == after.is_at_work and before.process == after.process:
        assert before.standing == after.standing
