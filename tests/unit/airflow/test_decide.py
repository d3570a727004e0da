"""The decision, by its table and by properties that no situation may break."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.control.desired_state import Desired, DesiredState
from sessionizer.control.exit_record import ExitRecord, Outcome
from sessionizer.control.observation import State
from sessionizer_airflow.supervision.decide import EXIT_GRACE, decide
from sessionizer_airflow.supervision.decisions import Adopt, GiveUp, Launch, Replace, StandBy, Wait
from sessionizer_airflow.supervision.history import History
from sessionizer_airflow.supervision.policy import MINUTE, SECOND, SupervisionPolicy
from sessionizer_airflow.supervision.situation import Driver, Situation

NOW = 1_800_000_000_000
POLICY = SupervisionPolicy()
ENDED = {State.STOPPED, State.FAILED, State.VANISHED}
RUNNING = Desired(DesiredState.RUNNING)


def driver(
    state: State = State.RUNNING, *, present: bool | None = None, ending: ExitRecord | None = None, lived: int = MINUTE
) -> Driver:
    return Driver(
        uid="abc123",
        state=state,
        present=state.is_live if present is None else present,
        launched_ms=NOW - lived,
        heard_ms=NOW,
        batch_id=3,
        ending=ending,
    )


def ending(outcome: Outcome = Outcome.FAILED, *, terminal: bool = False, kind: str = "QueryFailed") -> ExitRecord:
    return ExitRecord("abc123", NOW, outcome, terminal, kind, "first line\nsecond line")


def failures(count: int, at: int = NOW) -> History:
    return History(failures=count, last_failure_ms=at, last_failure="it broke", charged_uid="abc123")


@pytest.mark.parametrize("state", [State.STARTING, State.RUNNING, State.IDLE, State.DRAINING])
def test_live_driver_is_adopted(state: State) -> None:
    assert decide(Situation(desired=RUNNING, driver=driver(state)), History(), POLICY, NOW) == Adopt("abc123", state)


def test_first_start() -> None:
    assert isinstance(decide(Situation(desired=RUNNING), History(), POLICY, NOW), Launch)


def test_stalled_driver_is_replaced_even_when_it_should_stop() -> None:
    for desired in (RUNNING, Desired(DesiredState.STOPPED)):
        decision = decide(Situation(desired=desired, driver=driver(State.STALLED)), History(), POLICY, NOW)
        assert isinstance(decision, Replace)


def test_backoff_doubles_up_to_its_limit() -> None:
    waits = [POLICY.backoff(failure) // SECOND for failure in range(1, 10)]
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300, 300]


@pytest.mark.parametrize("count", [1, 5])
def test_dead_driver_is_restarted_after_the_backoff(count: int) -> None:
    situation = Situation(desired=RUNNING, driver=driver(State.VANISHED))
    ready = NOW + POLICY.backoff(count)
    assert isinstance(decide(situation, failures(count), POLICY, ready - 1), Wait)
    assert isinstance(decide(situation, failures(count), POLICY, ready), Launch)


def test_budget_ends() -> None:
    situation = Situation(desired=RUNNING, driver=driver(State.VANISHED))
    decision = decide(situation, failures(POLICY.restart_budget + 1), POLICY, NOW)
    assert isinstance(decision, GiveUp)
    assert "6 failures in a row" in decision.reason


def test_long_life_refills_the_budget() -> None:
    old = History(failures=5, charged_uid="another")
    lived = driver(State.VANISHED, lived=POLICY.healthy_after)
    assert old.charge(lived, "it broke", POLICY, NOW).failures == 1
    short = driver(State.VANISHED, lived=POLICY.healthy_after - 1)
    assert old.charge(short, "it broke", POLICY, NOW).failures == 6


def test_terminal_error_is_not_retried_and_told_in_one_line() -> None:
    situation = Situation(desired=RUNNING, driver=driver(State.FAILED, ending=ending(terminal=True)))
    decision = decide(situation, History(), POLICY, NOW)
    assert isinstance(decision, GiveUp)
    assert decision.reason == "driver abc123 failed (QueryFailed: first line)"


@pytest.mark.parametrize("kind", ["LeaseHeld", "LeaseLost"])
def test_lost_race_is_no_reason_to_give_up(kind: str) -> None:
    situation = Situation(desired=RUNNING, driver=driver(State.FAILED, ending=ending(terminal=True, kind=kind)))
    assert isinstance(decide(situation, failures(1), POLICY, NOW + MINUTE), Launch)


def test_driver_dealt_with_by_a_person_is_replaced_at_once() -> None:
    situation = Situation(desired=RUNNING, driver=driver(State.FAILED, ending=ending(terminal=True)))
    assert isinstance(decide(situation, History(forgiven_uid="abc123"), POLICY, NOW), Launch)


def test_leaving_process_is_awaited_then_ended() -> None:
    situation = Situation(desired=RUNNING, driver=driver(State.STOPPED, present=True, ending=ending(Outcome.DRAINED)))
    assert isinstance(decide(situation, History(), POLICY, NOW + EXIT_GRACE), Wait)
    assert isinstance(decide(situation, History(), POLICY, NOW + EXIT_GRACE + 1), Replace)


situations = st.builds(
    Situation,
    desired=st.sampled_from([Desired(state) for state in DesiredState]),
    driver=st.none()
    | st.builds(
        Driver,
        uid=st.just("abc123"),
        state=st.sampled_from(State),
        present=st.booleans(),
        launched_ms=st.integers(NOW - 10 * MINUTE, NOW),
        heard_ms=st.integers(NOW - 10 * MINUTE, NOW),
        stop_requested=st.booleans(),
        batch_id=st.none() | st.integers(0, 9),
        ending=st.none() | st.builds(ending, st.sampled_from(Outcome), terminal=st.booleans()),
    ),
)
histories = st.builds(
    History,
    failures=st.integers(0, 9),
    last_failure_ms=st.integers(NOW - 10 * MINUTE, NOW),
    charged_uid=st.sampled_from([None, "abc123"]),
    forgiven_uid=st.sampled_from([None, "abc123"]),
)


@given(situations, histories)
def test_never_launches_beside_a_driver_or_against_the_wish(situation: Situation, history: History) -> None:
    if isinstance(decide(situation, history, POLICY, NOW), Launch):
        assert situation.wanted
        assert situation.driver is None or not (situation.driver.present or situation.driver.state.is_live)


@given(situations, histories)
def test_unwanted_stream_is_never_adopted_or_given_up(situation: Situation, history: History) -> None:
    if not situation.wanted:
        assert isinstance(decide(situation, history, POLICY, NOW), StandBy | Replace)
