"""A new lineage whose drivers end before their first batch, under a real supervisor and real processes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from sessionizer.lineage.active import activate_lineage, make_lineage, start_lineage
from sessionizer.lineage.canary.canary_record import begin_canary, read_canary
from sessionizer.lineage.canary.judge import CanaryOutcome, CanaryTerms
from sessionizer_airflow.alerting.alert import Alert, AlertKind
from sessionizer_airflow.errors import SupervisionEnded
from sessionizer_airflow.launching.local import LocalLauncher
from support.expected.supervision_records import recorded, works
from support.processes.driver_commands import scripted_driver

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.home.stream_home import StreamHome
    from sessionizer_airflow.launching.argv import DriverCall
    from sessionizer_airflow.supervision.act import Supervisor

WITHIN_S = 60


def begin_new_lineage(home: StreamHome, *, goes_back: bool) -> tuple[str, str]:
    home.prepare()
    before = start_lineage(home)
    after = make_lineage(home, None)
    begin_canary(home, after, "upgrade", before, CanaryTerms(goes_back=goes_back))
    activate_lineage(home, after, before)
    return before, after


def settle_until(condition: Callable[[], object], build: Callable[[], Supervisor]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline
        build().settle()
        time.sleep(0.1)


@pytest.mark.parametrize(("behaviour", "starts"), [("refuse", 1), ("crash", 3)])
def test_a_lineage_that_never_makes_a_batch_is_left_once(
    home: StreamHome, new_supervisor: Callable[[], Supervisor], alerts: list[Alert], behaviour: str, starts: int
) -> None:
    before, after = begin_new_lineage(home, goes_back=True)
    (home.platform / "behaviour").write_text(behaviour)

    def command(call: DriverCall) -> list[str]:
        """The code of the lineage before does not fail."""
        canary = read_canary(home, after)
        if canary is not None and canary.outcome is CanaryOutcome.FAILED:
            (home.platform / "behaviour").write_text("steady")
        return scripted_driver(call)

    def build() -> Supervisor:
        supervisor = new_supervisor()
        supervisor.drivers.launcher = LocalLauncher(command)
        return supervisor

    settle_until(lambda: works(home), build)
    canary = read_canary(home, after)
    assert canary is not None
    assert (canary.outcome, canary.goes_back, canary.course.before) == (CanaryOutcome.FAILED, True, before)
    assert [alert.kind for alert in alerts].count(AlertKind.ROLLED_BACK) == 1
    assert [alert.kind for alert in alerts][: starts - 1] == [AlertKind.REPLACED] * (starts - 1)
    assert not recorded(home).given_up


def test_without_the_switch_the_alert_names_the_way_back(
    home: StreamHome, new_supervisor: Callable[[], Supervisor], alerts: list[Alert]
) -> None:
    before, after = begin_new_lineage(home, goes_back=False)
    (home.platform / "behaviour").write_text("refuse")
    with pytest.raises(SupervisionEnded):
        settle_until(lambda: False, new_supervisor)
    (alert,) = alerts
    assert alert.kind is AlertKind.GAVE_UP
    assert all(part in alert.what_to_do for part in ("`sessionizer rollback clicks`", before))
    canary = read_canary(home, after)
    assert canary is not None
    assert canary.outcome is None
