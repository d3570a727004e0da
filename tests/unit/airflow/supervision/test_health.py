"""When a stream is stale or lagging, and how often people hear of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sessionizer.control.records.airflow_records import Health, Problem
from sessionizer.control.records.desired_state import Desired, DesiredState, write_desired
from sessionizer.control.records.heartbeat import HEARTBEAT_FILE, Heartbeat, Phase
from sessionizer.home.clock import MINUTE
from sessionizer_airflow.alerting.alert import AlertKind
from sessionizer_airflow.supervision import health
from sessionizer_airflow.supervision.health import HealthWatch, examine_health
from sessionizer_airflow.supervision.policy import SupervisionPolicy

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome

NOW = 1_800_000_000_000
POLICY = SupervisionPolicy()
WELL = Health(worked_at=NOW)
RUNNING = Desired(DesiredState.RUNNING)


def beat(at: int = NOW, phase: Phase = Phase.RUNNING, lag: int | None = 0, rows: int = 5) -> Heartbeat:
    return Heartbeat(
        uid="a", at=at, started_at=1, phase=phase, lineage="old", batch_id=3, input_rows=rows, watermark_lag_ms=lag
    )


@pytest.mark.parametrize(
    ("seen", "age", "found"),
    [
        (beat(), POLICY.stale_alert_ms, None),
        (beat(), POLICY.stale_alert_ms + 1, Problem.STALE),
        (beat(NOW + MINUTE), POLICY.stale_alert_ms + 1, None),
        (beat(NOW + MINUTE, Phase.STARTING), POLICY.stale_alert_ms + 1, Problem.STALE),
        (None, POLICY.stale_alert_ms + 1, Problem.STALE),
        (beat(lag=POLICY.lag_alert_ms), 0, None),
        (beat(lag=POLICY.lag_alert_ms + 1), 0, Problem.LAGGING),
        (beat(lag=POLICY.lag_alert_ms + 1, rows=0), 0, None),
        (beat(lag=POLICY.lag_alert_ms + 1, phase=Phase.IDLE), 0, None),
        (beat(lag=None), 0, None),
    ],
)
def test_what_is_found(seen: Heartbeat | None, age: int, found: Problem | None) -> None:
    assert examine_health(WELL, seen, RUNNING, POLICY, NOW + age).ailment is found


def test_a_batch_without_rows_does_not_end_a_lag() -> None:
    lagging = Health(worked_at=NOW, ailment=Problem.LAGGING, since=NOW)
    assert examine_health(lagging, beat(rows=0), RUNNING, POLICY, NOW) == lagging
    assert examine_health(lagging, beat(phase=Phase.IDLE), RUNNING, POLICY, NOW).ailment is None


@pytest.mark.parametrize("desired", [DesiredState.STOPPED, DesiredState.MAINTENANCE])
def test_a_stream_that_nobody_wants_cannot_be_stale(desired: DesiredState) -> None:
    assert examine_health(WELL, None, Desired(desired), POLICY, NOW + 9 * POLICY.stale_alert_ms).ailment is None


def test_a_stream_that_was_stopped_for_long_is_not_stale_the_moment_it_is_wanted() -> None:
    wanted = Desired(DesiredState.RUNNING, at=NOW + 99 * MINUTE)
    assert examine_health(WELL, None, wanted, POLICY, NOW + 100 * MINUTE).ailment is None


def test_a_hang_is_dealt_with_before_it_is_told_and_a_late_stream_has_more_lag() -> None:
    assert POLICY.tell_stale_after == POLICY.stale_alert_ms
    patient = replace(POLICY, stale_limit_ms=POLICY.stale_alert_ms)
    assert examine_health(WELL, beat(), RUNNING, patient, NOW + 2 * POLICY.stale_alert_ms).ailment is None
    assert POLICY.allow_watermark_delay(MINUTE).lag_alert_ms == POLICY.lag_alert_ms + MINUTE


def test_people_hear_of_each_change_once_however_many_watches_see_it(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.prepare()
    HEARTBEAT_FILE.of(home).write(beat())
    told = []
    for minute in range(40):
        monkeypatch.setattr(health, "epoch_ms", lambda minute=minute: NOW + minute * MINUTE)
        if minute == 30:
            HEARTBEAT_FILE.of(home).write(beat(NOW + 30 * MINUTE))
        for watch in (HealthWatch(home, POLICY), HealthWatch(home, POLICY)):
            found = watch.look()
            assert found.beat is not None, "a new watch sends the metrics once"
            assert watch.look().beat is None
            told.append((minute, found.alert))
    alerts = [(minute, alert.kind, alert.reason) for minute, alert in told if alert]
    assert alerts == [
        (11, AlertKind.STALE, "no progress for 11 m"),
        (30, AlertKind.RECOVERED, "it was stale for 19 m"),
    ]
    assert {(alert.lineage, alert.batch_id) for _, alert in told if alert} == {("old", 3)}


def test_stopping_a_stale_stream_is_no_recovery(home: StreamHome, monkeypatch: pytest.MonkeyPatch) -> None:
    home.prepare()
    HEARTBEAT_FILE.of(home).write(beat())
    monkeypatch.setattr(health, "epoch_ms", lambda: NOW)
    watch = HealthWatch(home, POLICY)
    watch.look()
    monkeypatch.setattr(health, "epoch_ms", lambda: NOW + 20 * MINUTE)
    alert = watch.look().alert
    assert alert is not None
    assert alert.kind is AlertKind.STALE
    write_desired(home, DesiredState.STOPPED, by="ops", why="")
    assert watch.look().alert is None
