"""Whatever a query dies of, the supervisor says cause and remedy, and gives up only where a restart is useless."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.control.desired_state import Desired, DesiredState
from sessionizer.control.end_remedies import CAUSES as REMEDIES
from sessionizer.control.end_remedies import CLASSES, remedy_of_end
from sessionizer.control.exit_record import read_exit
from sessionizer.control.failed_exit import record_failure
from sessionizer.control.observation import State
from sessionizer.spark.failure import CAUSES, UNKNOWN, Cause, classified
from sessionizer_airflow.alerting.alert import Kind
from sessionizer_airflow.supervision.alerts import alert_on
from sessionizer_airflow.supervision.decide import decide, describe_end
from sessionizer_airflow.supervision.decisions import GiveUp, Launch, Wait
from sessionizer_airflow.supervision.history import History
from sessionizer_airflow.supervision.policy import MINUTE, SupervisionPolicy
from sessionizer_airflow.supervision.situation import Driver, Situation
from sessionizer_airflow.supervision.wording import describe

if TYPE_CHECKING:
    from sessionizer.control.stream_home import StreamHome

NOW = 1_800_000_000_000
POLICY = SupervisionPolicy()
RACES = {"lease_lost"}
"""Terminal for a driver, not for its stream."""


def death(home: StreamHome, error: Exception) -> Driver:
    """The driver that died of `error`, as the supervisor finds it."""
    home.prepare()
    record_failure(home, "abc123", classified("clicks", error))
    return Driver(
        uid="abc123",
        state=State.FAILED,
        present=False,
        launched_ms=NOW - MINUTE,
        heard_ms=NOW,
        batch_id=3,
        lineage="old",
        ending=read_exit(home, "abc123"),
        log="/logs/driver.abc123.log",
    )


def situation_of(driver: Driver) -> Situation:
    return Situation(desired=Desired(DesiredState.RUNNING), driver=driver)


@pytest.mark.parametrize("cause", [cause for cause in CAUSES if cause.terminal], ids=lambda cause: cause.name)
def test_terminal_causes(cause: Cause, home: StreamHome) -> None:
    for sign in cause.signs:
        driver = death(home, RuntimeError(f"[{sign}] so it ended\n at java"))
        situation = situation_of(driver)
        decision = decide(situation, History(), POLICY, NOW)
        if cause.name in RACES:
            assert isinstance(decision, Wait)
            continue
        assert isinstance(decision, GiveUp)
        assert f"failed ({cause.name}: the query of 'clicks' failed" in decision.reason
        assert decision.remedy.startswith(REMEDIES[cause.name])
        assert "/logs/driver.abc123.log" in decision.remedy
        assert "unpause this DAG" in decision.remedy
        line = describe(decision, situation, NOW)
        assert "\n" not in line
        assert REMEDIES[cause.name] in line
        alert = alert_on(decision, situation, "clicks", failed_now=True)
        assert alert is not None
        assert (alert.kind, alert.batch_id, alert.lineage) == (Kind.GAVE_UP, 3, "old")
        assert (alert.reason, alert.what_to_do) == (decision.reason, decision.remedy)


@pytest.mark.parametrize(
    "cause", [*(cause for cause in CAUSES if not cause.terminal), UNKNOWN], ids=lambda cause: cause.name
)
def test_causes_that_a_restart_may_help(cause: Cause, home: StreamHome) -> None:
    for sign in cause.signs or ("something new",):
        driver = death(home, RuntimeError(sign))
        situation = situation_of(driver)
        decision = decide(situation, History(), POLICY, NOW)
        assert isinstance(decision, Wait)
        line = describe(decision, situation, NOW)
        assert f"failed ({cause.name}: " in line
        assert f"What to do: {REMEDIES[cause.name]}" in line
        assert "\n" not in line
        alert = alert_on(decision, situation, "clicks", failed_now=True)
        assert alert is not None
        assert (alert.kind, alert.what_to_do) == (Kind.REPLACED, REMEDIES[cause.name])
        assert alert_on(decision, situation, "clicks", failed_now=False) is None, "told once"


def test_the_named_causes_are_all_there() -> None:
    named = {"bad_data", "schema_change", "source_data_loss", "state_not_at_head", "disk_full", "memory", "lease_lost"}
    assert named <= {cause.name for cause in CAUSES}


@pytest.mark.parametrize("kind", CLASSES)
def test_what_ends_a_driver_before_its_query(kind: str) -> None:
    assert remedy_of_end(kind) == CLASSES[kind]
    assert "\n" not in CLASSES[kind]


def test_a_driver_that_was_killed_has_a_remedy_too() -> None:
    driver = Driver(uid="abc123", state=State.VANISHED, present=False, launched_ms=NOW - MINUTE, heard_ms=NOW)
    decision = decide(situation_of(driver), History(), POLICY, NOW)
    assert isinstance(decision, Wait)
    assert "memory killer" in decision.why
    known = History(charged_uid="abc123", failures=1, last_failure_ms=NOW, last_failure=describe_end(driver))
    assert isinstance(decide(situation_of(driver), known, POLICY, NOW + MINUTE), Launch)
