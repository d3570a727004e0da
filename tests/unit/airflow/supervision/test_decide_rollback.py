"""The automatic way back from a lineage that never made a batch: every cause, with and without the switch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sessionizer.causes.table import CAUSES
from sessionizer.control.records.airflow_records import SupervisionRecord
from sessionizer.control.records.desired_state import Desired, DesiredState
from sessionizer.control.records.process_records import ExitOutcome, ExitRecord
from sessionizer.control.status.driver_status import DriverStatus, State
from sessionizer.errors import RetryEffect
from sessionizer.lineage.canary.unstarted import UnstartedLineage
from sessionizer_airflow.alerting.alert import AlertKind
from sessionizer_airflow.supervision.decide import Action, GiveUp, Launch, RollBack, StandBy, Wait, decide
from sessionizer_airflow.supervision.failures import add_failure, failure_of
from sessionizer_airflow.supervision.observe import Situation
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from sessionizer_airflow.supervision.tell import alert_on_failure

if TYPE_CHECKING:
    from collections.abc import Sequence

NOW = 1_800_000_000_000
POLICY = SupervisionPolicy()
RUNNING = Desired(DesiredState.RUNNING)
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
    failure = failure_of(driver, unstarted)
    assert failure is not None
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
    """Decide after drivers that ended by these causes."""
    record = SupervisionRecord()
    drivers = [ended(cause, f"u{number}") for number, cause in enumerate(causes, start=1)]
    for driver in drivers:
        record = fail(record, driver, unstarted, policy)
    return decide_on(drivers[-1], record, unstarted, policy)


@pytest.mark.parametrize("cause", sorted(CAUSES))
def test_a_terminal_cause_of_the_change_rolls_back_at_once_and_no_other_does(cause: str) -> None:
    decision = decide_after([cause])
    verdict = CAUSES[cause].verdict
    if verdict is RetryEffect.TERMINAL and not CAUSES[cause].of_any_lineage:
        assert decision == RollBack("new", f"driver u1 failed ({cause}: it broke)")
    elif verdict is RetryEffect.TERMINAL:
        assert isinstance(decision, GiveUp)
    else:
        assert isinstance(decision, Wait)


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
    failure = failure_of(driver, NEW)
    assert failure is not None
    record = add_failure(SupervisionRecord(), failure, POLICY, NOW)
    alert = alert_on_failure("clicks", failure, record, POLICY, driver, "install 0.1.0")
    assert alert is not None
    assert alert.kind is AlertKind.ROLLED_BACK
    assert "lineage new" in alert.reason
    assert "lineage old" in alert.reason
    assert alert.what_to_do.startswith("install 0.1.0. ")
    assert CAUSES["broken_code"].remedy in alert.what_to_do
