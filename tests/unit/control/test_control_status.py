"""What a stream is doing, from any control directory."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.control.lease import acquire
from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Heartbeat, Phase
from sessionizer.control.records.process_records import (
    ExitOutcome,
    ExitRecord,
    LaunchRecord,
    LeaseRecord,
    Vacancy,
    request_stop,
    write_exit,
)
from sessionizer.control.records.supervision_records import Desired, DesiredState, write_desired
from sessionizer.control.status.driver_status import DriverStatus, Stall, State, judge_status, read_driver
from sessionizer.control.timeouts import Timeouts
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome

GRACE, STALE, NOW = 100, 50, 10_000


def launched(uid: str, at: int) -> LaunchRecord:
    return LaunchRecord(uid=uid, at=at, log="")


LEASE = LeaseRecord(1, NOW - 1_000, "a", 1, 1, "here")
BEAT = Heartbeat("a", NOW - 10, NOW - 1_000, Phase.RUNNING)
LIVE = DriverStatus(lease=LEASE, alive=True, heartbeat=BEAT)

FENCED = replace(LEASE, vacancy=Vacancy.FENCED)
STARTING = replace(BEAT, phase=Phase.STARTING)


def live(**changes: Any) -> DriverStatus:
    return replace(LIVE, **changes)


def beating(**changes: Any) -> DriverStatus:
    return live(heartbeat=replace(BEAT, **changes))


def ended(outcome: ExitOutcome, at: int = NOW - 4) -> DriverStatus:
    return live(exit_record=ExitRecord("a", at, outcome))


REFUSED = ExitRecord("b", NOW - 2, ExitOutcome.FAILED, terminal=True)
FRESH = replace(LEASE, acquired_at=NOW - GRACE)
CASES: dict[str, tuple[DriverStatus, State | Stall, int | None]] = {
    "nothing at all": (DriverStatus(), State.NEVER_STARTED, None),
    "another's heartbeat only": (DriverStatus(heartbeat=BEAT), State.NEVER_STARTED, None),
    "launched": (DriverStatus(uid="a", launch=launched("a", NOW - GRACE)), State.STARTING, GRACE),
    "launched long ago": (DriverStatus(uid="a", launch=launched("a", NOW - GRACE - 1)), State.VANISHED, GRACE + 1),
    "launched beside another": (live(uid="b", launch=launched("b", NOW - 3)), State.STARTING, 3),
    "refused before the lease": (live(uid="b", exit_record=REFUSED), State.FAILED, 2),
    "leased": (DriverStatus(lease=FRESH, alive=True), State.STARTING, GRACE),
    "leased long ago": (DriverStatus(lease=LEASE, alive=True), Stall.NO_START, 1_000),
    "starting for ever": (live(heartbeat=STARTING), Stall.NO_START, 10),
    "a start that gets on": (live(heartbeat=replace(STARTING, progress_at=NOW - GRACE)), State.STARTING, 10),
    "a start that got on": (live(heartbeat=replace(STARTING, progress_at=NOW - GRACE - 1)), Stall.NO_START, 10),
    "progress of a driver before": (live(lease=FRESH, heartbeat=replace(STARTING, progress_at=1)), State.STARTING, 10),
    "beating": (LIVE, State.RUNNING, 10),
    "beating elsewhere": (live(alive=None), State.RUNNING, 10),
    "beating from the future": (beating(at=NOW + 9), State.RUNNING, 0),
    "idle": (beating(phase=Phase.IDLE), State.IDLE, 10),
    "silent": (beating(at=NOW - STALE - 1), Stall.SILENT, STALE + 1),
    "silent elsewhere": (replace(beating(at=NOW - 99), alive=None), Stall.SILENT, 99),
    "beats without progress": (beating(progress_at=NOW - STALE - 1), Stall.NO_PROGRESS, 10),
    "progress in a long batch": (beating(batch_at=1, progress_at=NOW - 20), State.RUNNING, 10),
    "progress in its first batch": (beating(running_batch=0, progress_at=NOW - STALE), State.RUNNING, 10),
    "stopping": (beating(phase=Phase.STOPPING), State.STOPPING, 10),
    "asked to stop": (live(stop_requested=True), State.STOPPING, 10),
    "asked to stop, no progress": (
        replace(beating(phase=Phase.STOPPING, progress_at=NOW - 99), stop_requested=True),
        Stall.NO_PROGRESS,
        10,
    ),
    "asked to stop, silent": (replace(beating(at=NOW - 99), stop_requested=True), Stall.SILENT, 99),
    "fenced, not yet killed": (live(lease=FENCED), State.STOPPING, 10),
    "fenced and killed": (live(lease=FENCED, alive=False), State.VANISHED, 10),
    "fenced elsewhere": (live(lease=FENCED, alive=None), State.VANISHED, 10),
    "released": (DriverStatus(lease=replace(LEASE, vacancy=Vacancy.RELEASED), alive=True), State.STOPPED, 1_000),
    "killed": (live(alive=False), State.VANISHED, 10),
    "stopped": (ended(ExitOutcome.STOPPED), State.STOPPED, 4),
    "lost the lease": (ended(ExitOutcome.LEASE_LOST), State.STOPPED, 4),
    "failed": (ended(ExitOutcome.FAILED), State.FAILED, 4),
    "failed in an earlier attempt": (ended(ExitOutcome.FAILED, NOW - 1_001), State.RUNNING, 10),
    "damaged lease, beating": (live(lease=LeaseRecord(1, NOW - 1_000), alive=None), State.RUNNING, 10),
}


def state_of(expected: State | Stall) -> State:
    return expected if isinstance(expected, State) else State.STALLED


@pytest.mark.parametrize("case", CASES)
def test_the_state_and_its_reason_follow_from_the_reading(case: str) -> None:
    reading, expected, age_ms = CASES[case]
    observation = judge_status(reading, NOW, Timeouts(GRACE, STALE))
    assert (observation.stall or observation.state, observation.age_ms) == (expected, age_ms)
    assert observation.state is state_of(expected)


def test_every_state_has_a_case() -> None:
    assert {state_of(expected) for _, expected, _ in CASES.values()} == set(State)


_uids = st.sampled_from(["a", "b"])
_times = st.integers(-10, 3 * NOW)
_records = st.builds(
    DriverStatus,
    desired=st.builds(Desired, st.sampled_from(DesiredState)),
    lease=st.none()
    | st.builds(
        LeaseRecord,
        st.integers(1, 9),
        _times,
        st.none() | _uids,
        st.none() | st.integers(),
        host=st.none() | st.just("here"),
        vacancy=st.none() | st.sampled_from(Vacancy),
    ),
    alive=st.none() | st.booleans(),
    heartbeat=st.none() | st.builds(Heartbeat, _uids, _times, _times, st.sampled_from(Phase)),
    exit_record=st.none() | st.builds(ExitRecord, _uids, _times, st.sampled_from(ExitOutcome)),
    stop_requested=st.booleans(),
    uid=st.just("") | _uids,
    launch=st.none() | st.builds(launched, _uids, _times),
)


@given(_records, _times, st.integers(0, NOW), st.integers(0, NOW))
def test_any_reading_has_a_verdict(reading: DriverStatus, now: int, grace: int, stale: int) -> None:
    observation = judge_status(reading, now, Timeouts(grace, stale))
    assert observation.age_ms is None or observation.age_ms >= 0
    assert observation.state is not State.NEVER_STARTED or observation.lease is None
    if observation.state.is_live and observation.lease:
        assert observation.alive is not False
        assert observation.exit_record is None
    if observation.alive is True and observation.lease and observation.exit_record is None:
        assert observation.state is not State.VANISHED
    json.dumps(observation.to_json(), allow_nan=False)


@given(_records, _times)
def test_time_alone_never_brings_a_driver_back(reading: DriverStatus, now: int) -> None:
    lost = {State.STALLED, State.VANISHED, State.FAILED, State.STOPPED}
    before, after = judge_status(reading, now), judge_status(reading, now + 10**9)
    assert before.state not in lost or after.state is before.state


@pytest.mark.parametrize(
    ("wanted", "fit"),
    [
        (DesiredState.RUNNING, {State.STARTING, State.RUNNING, State.IDLE}),
        (DesiredState.STOPPED, {State.NEVER_STARTED, State.STOPPED, State.FAILED, State.VANISHED}),
        (DesiredState.MAINTENANCE, {State.NEVER_STARTED, State.STOPPED, State.FAILED, State.VANISHED}),
    ],
)
def test_whether_it_is_as_desired(wanted: DesiredState, fit: set[State]) -> None:
    for reading, expected, _ in CASES.values():
        wanting = replace(reading, desired=Desired(wanted))
        assert judge_status(wanting, NOW, Timeouts(GRACE, STALE)).is_as_desired is (state_of(expected) in fit)


def test_a_home_that_does_not_exist_was_never_started(tmp_path: Path) -> None:
    observation = read_driver(StreamHome.of(tmp_path, "clicks"), epoch_ms())
    assert observation.state is State.NEVER_STARTED
    assert observation.damage == ()


def test_the_life_of_a_driver_as_read_from_disk(home: StreamHome) -> None:
    def state() -> State:
        return read_driver(home, epoch_ms()).state

    lease = acquire(home, "a")
    assert state() is State.STARTING
    HEARTBEAT_FILE.of(home).write(Heartbeat("a", epoch_ms(), epoch_ms(), Phase.IDLE))
    assert state() is State.IDLE
    request_stop(home, "a", "a test")
    assert state() is State.STOPPING
    write_desired(home, DesiredState.STOPPED, by="a test", why="")
    write_exit(home, ExitRecord("a", epoch_ms(), ExitOutcome.STOPPED))
    lease.release()
    observation = read_driver(home, epoch_ms())
    assert observation.state is State.STOPPED
    assert observation.is_as_desired
    assert read_driver(home, epoch_ms(), uid="b", launch=launched("b", epoch_ms())).state is State.STARTING


def test_damage_is_reported_not_raised(home: StreamHome) -> None:
    acquire(home, "a")
    for name in ("desired.json", "heartbeat.json", "exit.a.json"):
        (home.control / name).write_text("{")
    observation = read_driver(home, epoch_ms())
    assert observation.state is State.STARTING
    assert [line.split()[0].rsplit("/", 1)[1] for line in observation.damage] == [
        "desired.json",
        "heartbeat.json",
        "exit.a.json",
    ]
    (home.leases / "00000002.json").write_text("{")
    assert read_driver(home, epoch_ms()).damage
