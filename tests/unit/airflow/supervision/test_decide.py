"""The decision, by its table and by properties that no situation may break."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.causes.cause import NO_PROGRESS
from sessionizer.causes.table import CAUSES
from sessionizer.control.records.driver_records import Heartbeat, Phase
from sessionizer.control.records.process_records import ExitOutcome, ExitRecord, LeaseRecord
from sessionizer.control.records.supervision_records import Desired, DesiredState, SupervisionRecord
from sessionizer.control.status.driver_status import DriverStatus, Stall, State
from sessionizer.control.status.unfinished_operation import UnfinishedOperation
from sessionizer.errors import RetryEffect
from sessionizer.home.clock import MINUTE, SECOND
from sessionizer.home.names import name_process
from sessionizer.lineage.canary.canary_record import UnstartedLineage
from sessionizer_airflow.alerting import AlertKind
from sessionizer_airflow.supervision.decide import (
    EXIT_GRACE_MS,
    Action,
    Adopt,
    GiveUp,
    Launch,
    Replace,
    RollBack,
    Situation,
    StandBy,
    Wait,
    decide,
)
from sessionizer_airflow.supervision.failures import (
    Failure,
    add_failure,
    add_unseen,
    end_wait,
    failure_of,
    is_due_to_tell,
)
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from sessionizer_airflow.supervision.tell import alert_on_failure
from support.expected.driver_statuses import UID, driver_status
from support.places import known

NOW = 1_800_000_000_000
POLICY = SupervisionPolicy()
ENDED = {State.STOPPED, State.FAILED, State.VANISHED}
RUNNING = Desired(DesiredState.RUNNING)
COMMAND = "restore-20261127T125959-7abb4e"


def driver(
    state: State = State.RUNNING, *, present: bool | None = None, ending: ExitRecord | None = None, lived: int = MINUTE
) -> DriverStatus:
    return driver_status(
        state, NOW, present=present, launched_ms=NOW - lived, heard_ms=NOW, batch_id=3, exit_record=ending
    )


def decided(seen: DriverStatus | None) -> Action:
    """The decision for a stream that should run, without a record."""
    return decide(Situation(desired=RUNNING, driver=seen), SupervisionRecord(), POLICY, NOW)


def unseen(heard_ms: int = NOW) -> DriverStatus:
    """A silent driver on a machine that cannot be seen from here."""
    lease, beat = LeaseRecord(1, heard_ms, UID, host="worker-7"), Heartbeat(UID, heard_ms, 1, Phase.RUNNING, batch_id=3)
    return DriverStatus(uid=UID, at=NOW, state=State.STALLED, lease=lease, heartbeat=beat)


def ending(
    outcome: ExitOutcome = ExitOutcome.FAILED, *, terminal: bool = False, kind: str = "QueryFailed"
) -> ExitRecord:
    return ExitRecord("abc123", NOW, outcome, terminal, kind, "first line\nsecond line")


def failures(count: int, at: int = NOW) -> SupervisionRecord:
    return SupervisionRecord(
        failures=count,
        last_failure_ms=at,
        restart_at=at + POLICY.backoff(count),
        last_failure="it broke",
        counted_uid="abc123",
        given_up=count > POLICY.restart_budget,
    )


LEAVING = driver(State.STOPPED, present=True, ending=ending(ExitOutcome.STOPPED))
SWEEPING = replace(LEAVING, uid=COMMAND)
"""The sweep of an erasure may take hours, after the command has given the stream back."""
NO_RECORD = SupervisionRecord()
REFUSED = driver(State.FAILED, ending=ending(terminal=True))
RACES = {
    kind: (RUNNING, driver(State.FAILED, ending=ending(terminal=True, kind=kind)), failures(1), MINUTE, Launch)
    for kind in ("LeaseHeld", "LeaseLost", "lease_lost")
}
TABLE: dict[str, tuple[Desired, DriverStatus | None, SupervisionRecord, int, type[Action]]] = {
    "first start": (RUNNING, None, NO_RECORD, 0, Launch),
    "stalled": (RUNNING, driver(State.STALLED), NO_RECORD, 0, Replace),
    "stalled, and to stop": (Desired(DesiredState.STOPPED), driver(State.STALLED), NO_RECORD, 0, Replace),
    "it leaves": (RUNNING, LEAVING, NO_RECORD, EXIT_GRACE_MS, Wait),
    "it does not leave": (RUNNING, LEAVING, NO_RECORD, EXIT_GRACE_MS + 1, Replace),
    "a command beside the stream": (RUNNING, SWEEPING, NO_RECORD, 0, Launch),
    "a command beside the stream, for hours": (RUNNING, SWEEPING, NO_RECORD, 200 * MINUTE, Launch),
    "a user has dealt with it": (RUNNING, REFUSED, SupervisionRecord(settled_uid="abc123"), 0, Launch),
    **RACES,
}


@pytest.mark.parametrize("name", TABLE)
def test_what_follows_from_what_is_seen(name: str) -> None:
    desired, seen, record, later_ms, action = TABLE[name]
    assert isinstance(decide(Situation(desired=desired, driver=seen), record, POLICY, NOW + later_ms), action)


@pytest.mark.parametrize("state", [State.STARTING, State.RUNNING, State.IDLE, State.STOPPING])
def test_live_driver_is_adopted(state: State) -> None:
    assert decided(driver(state)) == Adopt("abc123", state)


def test_a_killed_command_is_no_failed_driver() -> None:
    """Its user gave it up, or started the stream as it was. A driver is launched at once, and no user is alerted."""
    command = replace(driver(State.VANISHED), uid="restore-20261127T125959-7abb4e")
    assert failure_of(command) is None
    decision = decide(Situation(desired=RUNNING, driver=command), failures(2, at=NOW - 60 * MINUTE), POLICY, NOW)
    assert isinstance(decision, Launch)


@pytest.mark.parametrize("state", list(State))
def test_in_maintenance_whoever_has_the_stream_is_left_alone(state: State) -> None:
    situation = Situation(desired=Desired(DesiredState.MAINTENANCE, by="alice", why="restore"), driver=driver(state))
    decision = decide(situation, SupervisionRecord(), POLICY, NOW)
    assert isinstance(decision, StandBy)
    assert decision == StandBy(decision.why)
    assert decision.why.endswith("MAINTENANCE (by alice, restore)")


@pytest.mark.parametrize("state", list(State))
def test_a_command_whose_stream_a_user_stopped_meanwhile_is_left_alone(state: State) -> None:
    """The command may be the owner of the lease, and hang for a while."""
    command = UnfinishedOperation(
        key="1", title="restore", process="pid 7", is_at_work=True, last_sign_ms=NOW, go_on="clear its task"
    )
    stopped = Desired(DesiredState.STOPPED, by="DAG clicks.stop")
    situation = Situation(desired=stopped, driver=driver(state), unfinished=command)
    decision = decide(situation, SupervisionRecord(), POLICY, NOW)
    assert isinstance(decision, StandBy)
    assert decision == StandBy(decision.why), "it is asked to stop, or called unattended"


def test_a_command_before_its_first_step_is_not_asked_to_stop() -> None:
    """A user stopped the stream while the command waited for the driver's end. It has the lease, and no record yet."""
    stopped = Desired(DesiredState.STOPPED, by="DAG clicks.stop")
    for uid, asked in ((UID, UID), (COMMAND, None)):
        situation = Situation(desired=stopped, driver=replace(driver(), uid=uid))
        decision = decide(situation, SupervisionRecord(), POLICY, NOW)
        assert isinstance(decision, StandBy)
        assert decision.stop == asked


@pytest.mark.parametrize("uid", [UID, COMMAND])
def test_what_a_supervisor_waits_for_is_called_by_its_kind(uid: str) -> None:
    leaving = driver(State.STOPPED, present=True, ending=ending(ExitOutcome.STOPPED))
    for each in (unseen(), *([leaving] if uid == UID else [])):
        decision = decided(replace(each, uid=uid))
        assert isinstance(decision, Wait)
        assert decision.why.startswith(f"{name_process(uid)} ")


@pytest.mark.parametrize("uid", [UID, COMMAND])
def test_a_launch_after_a_process_that_was_dealt_with_names_it_by_its_kind(uid: str) -> None:
    ended = replace(driver(State.FAILED, ending=ending(terminal=True)), uid=uid)
    decision = decide(Situation(desired=RUNNING, driver=ended), SupervisionRecord(settled_uid=uid), POLICY, NOW)
    assert isinstance(decision, Launch)
    assert decision.why.startswith(f"{name_process(uid)} ")


UNATTENDED_MS = POLICY.unattended_after_ms


@pytest.mark.parametrize(
    ("at_work", "silent_ms", "unattended"),
    [
        (True, 10 * UNATTENDED_MS, False),
        (False, 0, False),
        # longer than Airflow waits between two tries
        (False, 8 * MINUTE, False),
        (False, UNATTENDED_MS, False),
        (False, UNATTENDED_MS + 1, True),
    ],
)
@pytest.mark.parametrize("state", list(State))
def test_a_command_between_its_tries_is_left_alone_and_one_that_nobody_carries_out_is_told(
    state: State, at_work: bool, silent_ms: int, unattended: bool
) -> None:
    desired = Desired(DesiredState.MAINTENANCE, by="alice", why="restore")
    command = UnfinishedOperation(
        key="1", title="restore", process=None, is_at_work=at_work, last_sign_ms=NOW - silent_ms, go_on="clear its task"
    )
    situation = Situation(desired=desired, driver=driver(state), unfinished=command)
    decision = decide(situation, SupervisionRecord(), POLICY, NOW)
    assert isinstance(decision, StandBy)
    assert (decision.stop, decision.unattended) == (None, unattended)
    assert ("clear its task" in decision.why) is unattended


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
    old = SupervisionRecord(failures=5, counted_uid="another")
    for lived, count in ((POLICY.healthy_after_ms, 1), (POLICY.healthy_after_ms - 1, 6)):
        failure = known(failure_of(driver(State.VANISHED, lived=lived)))
        assert add_failure(old, failure, POLICY, NOW).failures == count


def foiled(attempts: int) -> SupervisionRecord:
    """After so many failures for a transient cause, each a second after the wait that the one before it caused."""
    record, now = SupervisionRecord(), NOW
    for attempt in range(attempts):
        failure = Failure(what="no broker", cause=CAUSES["SourceUnreachable"], uid=f"driver{attempt}")
        record = add_failure(record, failure, POLICY, now)
        now = record.restart_at + SECOND
    return record


def test_a_transient_cause_never_uses_the_budget_up() -> None:
    record = foiled(100)
    assert (record.failures, record.attempts, record.given_up) == (0, 100, False)
    assert record.restart_at - record.last_failure_ms == POLICY.longest_backoff_ms
    assert record.waiting_since == NOW


def test_an_outage_in_between_leaves_the_budget_as_it_was() -> None:
    crash = Failure(what="it broke", cause=CAUSES["killed"], uid="one")
    away = Failure(what="no broker", cause=CAUSES["SourceUnreachable"], uid="two")
    record = add_failure(add_failure(SupervisionRecord(), crash, POLICY, NOW), away, POLICY, NOW)
    assert (record.failures, record.attempts) == (1, 1)


def test_people_are_told_of_what_has_lasted_once_and_only_while_the_stream_is_wanted() -> None:
    record, told_at = foiled(1), NOW + POLICY.waiting_alert_ms
    assert not is_due_to_tell(record, POLICY, 0, told_at - 1)
    assert is_due_to_tell(record, POLICY, 0, told_at)
    assert not is_due_to_tell(record, POLICY, NOW + 1, told_at), "it was stopped meanwhile"
    assert not is_due_to_tell(replace(record, waiting_told=True), POLICY, 0, told_at)
    over = end_wait(replace(record, waiting_told=True))
    assert (over.waiting_since, over.waiting_told, over.attempts) == (None, False, 1)


@pytest.mark.parametrize("present", [None, driver(State.STALLED)])
def test_what_could_not_be_done_is_not_tried_before_its_time(present: DriverStatus | None) -> None:
    record = foiled(3)
    situation = Situation(desired=RUNNING, driver=present)
    assert isinstance(decide(situation, record, POLICY, record.restart_at - 1), Wait)
    assert isinstance(decide(situation, record, POLICY, record.restart_at), Launch | Replace)


def test_a_driver_on_a_machine_that_is_gone_is_replaced_when_it_must_have_ended_itself() -> None:
    gone = unseen()
    situation, limit = Situation(desired=RUNNING, driver=gone), NOW + POLICY.takeover_after_ms
    record = add_unseen(SupervisionRecord(), gone.heard_ms, NOW)
    wait = decide(situation, record, POLICY, limit)
    assert isinstance(wait, Wait)
    assert wait.until_ms == limit + 1
    decision = decide(situation, record, POLICY, limit + 1)
    assert isinstance(decision, Replace)
    assert decision.out_of_sight
    assert decision.why.startswith("worker-7 ")
    assert decision.why.endswith(" 150 s")


@pytest.mark.parametrize("cause", ["killed", "SourceUnreachable"])
@pytest.mark.parametrize("back", [0, MINUTE, 300 * MINUTE])
def test_a_clock_that_is_set_back_keeps_no_stream_down(cause: str, back: int) -> None:
    """A machine that woke up with a wrong clock wrote the record."""
    longest, failure = POLICY.longest_backoff_ms, Failure(what="it broke", cause=CAUSES[cause], uid=UID)
    record = add_failure(SupervisionRecord(), failure, POLICY, NOW + back)
    for seen in (None, driver(State.VANISHED)):
        decision = decide(Situation(desired=RUNNING, driver=seen), record, POLICY, NOW)
        due = decision.until_ms if isinstance(decision, Wait) else NOW
        assert due <= NOW + longest
        assert isinstance(decide(Situation(desired=RUNNING, driver=seen), record, POLICY, due), Launch)
    gone = unseen(NOW + back)
    record = add_unseen(add_unseen(SupervisionRecord(), gone.heard_ms, NOW + back), gone.heard_ms, NOW)
    decision = decide(Situation(desired=RUNNING, driver=gone), record, POLICY, NOW + POLICY.takeover_after_ms + 1)
    assert isinstance(decision, Replace)


def test_the_longest_wait_counts_though_its_failure_is_recorded_a_moment_later() -> None:
    failure = Failure(what="it broke", cause=CAUSES["SourceUnreachable"], uid=UID)
    record = add_failure(SupervisionRecord(attempts=30), failure, POLICY, NOW + 20)
    decision = decide(Situation(desired=RUNNING, driver=None), record, POLICY, NOW)
    assert isinstance(decision, Wait)
    assert decision.until_ms == NOW + 20 + POLICY.longest_backoff_ms


def test_a_driver_that_beats_by_a_clock_of_its_own_is_not_taken_for_gone() -> None:
    """The clock of its machine is an hour slow: each of its beats looks old."""
    record = SupervisionRecord()
    for look in range(5):
        now = NOW + look * POLICY.takeover_after_ms
        beating = unseen(now - 60 * MINUTE)
        record = add_unseen(record, beating.heard_ms, now)
        assert isinstance(decide(Situation(desired=RUNNING, driver=beating), record, POLICY, now + 1), Wait)


def test_a_batch_that_does_not_get_on_is_told_from_a_silent_driver() -> None:
    beat = Heartbeat(UID, NOW, 1, Phase.RUNNING, batch_id=3, progress_at=NOW - 200_000)
    stuck = replace(driver(State.STALLED), stall=Stall.NO_PROGRESS, heartbeat=beat)
    decision = decided(stuck)
    assert isinstance(decision, Replace)
    assert (decision.cause, decision.why) == (NO_PROGRESS, "no progress for 200 s, last after batch 3")


def test_terminal_error_is_not_retried_and_told_in_one_line() -> None:
    decision = decided(driver(State.FAILED, ending=ending(terminal=True)))
    assert isinstance(decision, GiveUp)
    assert decision.reason == "driver abc123 failed (QueryFailed: first line)"


@pytest.mark.parametrize(("kind", "remedy"), [("StreamDrained", "--until caught-up"), ("TableOwned", "sink.path")])
def test_a_stream_that_is_over_or_not_ours_is_given_up_with_its_remedy(kind: str, remedy: str) -> None:
    decision = decided(driver(State.FAILED, ending=ending(terminal=True, kind=kind)))
    assert isinstance(decision, GiveUp)
    assert remedy in decision.remedy


situations = st.builds(
    Situation,
    desired=st.sampled_from([Desired(state) for state in DesiredState]),
    driver=st.none()
    | st.builds(
        driver_status,
        st.sampled_from(State),
        st.just(NOW),
        present=st.booleans(),
        launched_ms=st.integers(NOW - 10 * MINUTE, NOW),
        heard_ms=st.integers(NOW - 10 * MINUTE, NOW),
        stop_requested=st.booleans(),
        batch_id=st.none() | st.integers(0, 9),
        exit_record=st.none() | st.builds(ending, st.sampled_from(ExitOutcome), terminal=st.booleans()),
    ),
)
histories = st.builds(
    SupervisionRecord,
    failures=st.integers(0, 9),
    last_failure_ms=st.integers(NOW - 10 * MINUTE, NOW),
    counted_uid=st.sampled_from([None, "abc123"]),
    settled_uid=st.sampled_from([None, "abc123"]),
)


@given(situations, histories)
def test_never_launches_beside_a_driver_or_one_that_is_not_wanted(
    situation: Situation, history: SupervisionRecord
) -> None:
    if isinstance(decide(situation, history, POLICY, NOW), Launch):
        assert situation.wanted
        assert situation.driver is None or not (situation.driver.present or situation.driver.state.is_live)


@given(situations, histories)
def test_unwanted_stream_is_never_adopted_or_given_up(situation: Situation, history: SupervisionRecord) -> None:
    if not situation.wanted:
        assert isinstance(decide(situation, history, POLICY, NOW), StandBy | Replace)


NEW = UnstartedLineage("clicks", "new", "old", rolls_back=True, starts=3)
NOT_APPROVED = replace(NEW, rolls_back=False)
IN_PLACE = UnstartedLineage("clicks", "same", savepoint="upgrade-1")


def ended(cause: str | None, uid: str = "u1") -> DriverStatus:
    """A driver that ended before its first batch, by a cause of the table or without a word."""
    ending = None if cause is None else ExitRecord(uid, NOW, ExitOutcome.FAILED, False, cause, "it broke")
    return DriverStatus(
        uid=uid, at=NOW, state=State.VANISHED if cause is None else State.FAILED, alive=False, exit_record=ending
    )


def fail(
    record: SupervisionRecord,
    driver: DriverStatus,
    unstarted: UnstartedLineage | None = NEW,
    policy: SupervisionPolicy = POLICY,
) -> SupervisionRecord:
    failure = known(failure_of(driver, unstarted))
    return add_failure(record, failure, policy, NOW)


def decide_on(
    driver: DriverStatus,
    record: SupervisionRecord,
    unstarted: UnstartedLineage | None = NEW,
    policy: SupervisionPolicy = POLICY,
    at: int = NOW,
) -> Action:
    return decide(Situation(desired=RUNNING, driver=driver, unstarted=unstarted), record, policy, at)


def decide_after(
    causes: Sequence[str | None], unstarted: UnstartedLineage | None = NEW, policy: SupervisionPolicy = POLICY
) -> Action:
    record = SupervisionRecord()
    drivers = [ended(cause, f"u{number}") for number, cause in enumerate(causes, start=1)]
    for driver in drivers:
        record = fail(record, driver, unstarted, policy)
    return decide_on(drivers[-1], record, unstarted, policy)


def test_a_terminal_cause_of_the_change_rolls_back_at_once_and_no_other_does() -> None:
    for name, cause in CAUSES.items():
        decision = decide_after([name])
        if cause.verdict is RetryEffect.TERMINAL and not cause.of_any_lineage:
            assert decision == RollBack("new", f"driver u1 failed ({name}: it broke)")
        else:
            assert isinstance(decision, GiveUp if cause.verdict is RetryEffect.TERMINAL else Wait), name


@pytest.mark.parametrize(("budget", "starts"), [(5, 3), (3, 3), (2, 3), (1, 2), (0, 1)])
def test_a_number_of_starts_without_a_known_cause_rolls_back(budget: int, starts: int) -> None:
    policy = replace(POLICY, restart_budget=budget)
    assert isinstance(decide_after([None] * starts, policy=policy), RollBack)
    if starts > 1:
        assert isinstance(decide_after([None] * (starts - 1), policy=policy), Wait)


def test_starts_of_another_lineage_do_not_count() -> None:
    record = fail(SupervisionRecord(), ended(None, "u1"), replace(NEW, lineage="older"))
    for uid in ("u2", "u3"):
        record = fail(record, ended(None, uid))
    assert isinstance(decide_on(ended(None, "u3"), record), Wait)
    assert isinstance(decide_on(ended(None, "u4"), record), RollBack)


@pytest.mark.parametrize("unstarted", [None, NOT_APPROVED, IN_PLACE])
def test_without_the_switch_a_user_is_told_the_way_back(unstarted: UnstartedLineage | None) -> None:
    decision = decide_after(["InvalidSpec"], unstarted)
    assert isinstance(decision, GiveUp)
    assert (unstarted.way_back if unstarted else "spec check") in decision.remedy
    other = decide_after(["DamagedFile"], unstarted)
    assert isinstance(other, GiveUp)
    assert unstarted is None or unstarted.way_back not in other.remedy


def test_a_rollback_waits_for_its_time_and_for_the_desired_state() -> None:
    driver = ended("InvalidSpec")
    record = replace(fail(SupervisionRecord(), driver), waiting_since=NOW, restart_at=NOW + 1)
    assert isinstance(decide_on(driver, record), Wait)
    assert isinstance(decide_on(driver, record, at=NOW + 1), RollBack)
    stopped = Situation(desired=Desired(DesiredState.STOPPED), driver=driver, unstarted=NEW)
    assert isinstance(decide(stopped, record, POLICY, NOW + 1), StandBy)


def test_once_the_canary_has_failed_the_next_driver_starts_at_once() -> None:
    """The supervisor was killed between the two records that it writes."""
    record = fail(SupervisionRecord(), ended("InvalidSpec"))
    assert not record.given_up
    assert isinstance(decide_on(ended("InvalidSpec"), record, NOT_APPROVED), Launch)


def test_users_are_told_of_the_rollback_and_of_what_is_missing() -> None:
    driver = ended("broken_code")
    failure = known(failure_of(driver, NEW))
    record = add_failure(SupervisionRecord(), failure, POLICY, NOW)
    alert = known(alert_on_failure("clicks", failure, record, POLICY, driver, "install 0.1.0"))
    assert alert.kind is AlertKind.ROLLED_BACK
    assert "lineage new" in alert.reason
    assert "lineage old" in alert.reason
    assert alert.what_to_do.startswith("install 0.1.0. ")
    assert CAUSES["broken_code"].remedy in alert.what_to_do
