"""Alerts on the health of a stream: they say what the one judge says, once for each change."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from sessionizer.control.history.sample import Sample, Straggler, StragglerKind
from sessionizer.control.operation import new_operation
from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Heartbeat, Phase
from sessionizer.control.records.process_records import stop_requested
from sessionizer.control.records.supervision_records import (
    Desired,
    DesiredState,
    Health,
    Problem,
    SupervisionRecord,
    read_desired,
    write_desired,
)
from sessionizer.control.status.driver_status import DriverStatus, State
from sessionizer.control.timeouts import Timeouts
from sessionizer.deployment.running_spec import choose_spec, new_record
from sessionizer.fleet.finding import Rule, StreamHealth
from sessionizer.fleet.judge import LOW_ROOM
from sessionizer.home.clock import MINUTE
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.batch_log import OpenSessions
from sessionizer.lineage.canary.canary_record import BY_CANARY
from sessionizer.stream_spec.spec_folder import find_stream, read_spec_file
from sessionizer_airflow.alerting import AlertKind
from sessionizer_airflow.errors import PersonNeeded
from sessionizer_airflow.operators.desired_state import SetDesiredState, unpause_line
from sessionizer_airflow.operators.supervise_stream import SuperviseStream
from sessionizer_airflow.project import Project
from sessionizer_airflow.supervision import watch as watching
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from sessionizer_airflow.supervision.watch import HealthWatch, examine_health
from support.expected.driver_statuses import judged_stream
from support.fixtures.reviewed import Reviewed
from support.places import known
from support.processes.fabricated_platform import Platform
from support.verbs.begun_restore import write_operation

NOW = 1_800_000_000_000
LIMITS = Timeouts()
LAG = LIMITS.lag_alert_ms
SILENCE = LIMITS.idle_limit_ms
RUNNING = Desired(DesiredState.RUNNING)
GROUP = Straggler(kind=StragglerKind.KEY_GROUP, name="7", since=NOW - 6 * MINUTE, batches=9)


def beat(at: int = NOW, phase: Phase = Phase.RUNNING, lag: int | None = 0, rows: int = 5, **more: Any) -> Heartbeat:
    return Heartbeat(
        uid="a", at=at, started_at=1, phase=phase, lineage="old", batch_id=3, input_rows=rows, watermark_lag_ms=lag,
        **more,
    )  # fmt: skip


def judged(seen: Heartbeat | None, now: int = NOW, desired: Desired = RUNNING, **more: Any) -> StreamHealth:
    state = State.IDLE if seen is not None and seen.phase is Phase.IDLE else State.RUNNING
    driver = DriverStatus(desired=desired, heartbeat=seen, state=state)
    return judged_stream(driver, now, **{"worked_at": NOW, **more}).health


def rest(minutes: int = 12) -> tuple[Sample, ...]:
    """Batches that take a small part of the time, of a source that has nothing more."""
    return tuple(
        Sample(at=NOW - (minutes - each) * MINUTE, batches=9, rows=90, batch_ms=1_800, source_lag=0, lag_ms=LAG + each)
        for each in range(minutes)
    )


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (judged(beat(), NOW + SILENCE), None),
        (judged(beat(), NOW + SILENCE + 1), Problem.STALE),
        (judged(beat(NOW + MINUTE), NOW + SILENCE + 1), None),
        (judged(beat(NOW + MINUTE, Phase.STARTING), NOW + SILENCE + 1), Problem.STALE),
        (judged(None, NOW + SILENCE + 1), Problem.STALE),
        (judged(None, NOW + SILENCE + 1, worked_at=None), None),
        (judged(None, NOW + SILENCE + 1, supervision=SupervisionRecord(waiting_told=True)), None),
        (judged(None, NOW + SILENCE + 1, desired=Desired(DesiredState.STOPPED)), None),
        (judged(None, NOW + SILENCE + 1, desired=Desired(DesiredState.MAINTENANCE)), None),
        (judged(None, NOW + SILENCE + 1, desired=Desired(DesiredState.RUNNING, at=NOW + SILENCE)), None),
        (judged(beat(lag=LAG)), None),
        (judged(beat(lag=LAG + 1)), Problem.LAGGING),
        (judged(beat(lag=LAG + 1), spec={"rules": {"watermark_delay": "1 minute"}}), None),
        (judged(beat(lag=LAG + 1, rows=0)), None),
        (judged(beat(lag=LAG + 1, phase=Phase.IDLE)), None),
        (judged(beat(lag=6 * LAG), samples=rest()), None),  # the events are old, and processing waits for more
        (judged(beat(straggler=GROUP)), Problem.STRAGGLER),
        (judged(beat(straggler=replace(GROUP, since=NOW - MINUTE))), None),
    ],
)
def test_users_are_alerted_of_what_the_judge_finds(found: StreamHealth, problem: Problem | None) -> None:
    assert (found.alarm and found.alarm.problem) is problem
    if problem is not None:
        assert found.word != "healthy"


def test_old_events_are_told_as_the_page_tells_them(home: StreamHome, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watermark is 90 minutes behind, batches are 3 % busy, and the source has nothing more.

    The alert once said that the stream lags, while the page said that there is nothing to do.
    """
    home.prepare()
    HEARTBEAT_FILE.of(home).write(beat(lag=90 * MINUTE))
    monkeypatch.setattr(watching, "epoch_ms", lambda: NOW)
    found = judged(beat(lag=90 * MINUTE), samples=rest())
    assert [(each.rule, each.word, each.remedy) for each in found.findings] == [(Rule.OLD_EVENTS, "warning", "")]
    assert HealthWatch(home).look(found)[1] is None
    busy = judged(beat(lag=90 * MINUTE), samples=tuple(replace(each, batch_ms=59_000) for each in rest()))
    alert = known(HealthWatch(home).look(busy)[1])
    assert busy.alarm is not None
    assert (alert.kind, alert.reason, alert.what_to_do) == ("lagging", busy.alarm.what, busy.alarm.remedy)


def test_the_alert_of_a_rule_without_a_kind_of_its_own_is_the_word(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.prepare()
    HEARTBEAT_FILE.of(home).write(beat())
    monkeypatch.setattr(watching, "epoch_ms", lambda: NOW)
    watch = HealthWatch(home)
    rooms = (None, LOW_ROOM - 1, LOW_ROOM - 2, 1, None)
    alerts = [watch.look(judged(beat(), free_bytes=free))[1] for free in rooms]
    assert [alert and alert.kind for alert in alerts] == [None, "degraded", None, "down", "recovered"]


def test_a_batch_without_rows_does_not_end_a_lag() -> None:
    lagging = Health(worked_at=NOW, ailment=Problem.LAGGING, since=NOW)
    quiet, idle = beat(rows=0), beat(phase=Phase.IDLE)
    assert examine_health(lagging, quiet, judged(quiet), NOW) == lagging
    assert examine_health(lagging, idle, judged(idle), NOW).ailment is None
    assert examine_health(lagging, beat(), None, NOW) == lagging, "the judgement is unknown"


def test_a_stale_stream_whose_cause_is_told_has_not_recovered() -> None:
    stale = Health(worked_at=NOW - SILENCE, ailment=Problem.STALE, since=NOW)
    told = judged(None, NOW + MINUTE, supervision=SupervisionRecord(waiting_told=True))
    assert examine_health(stale, None, told, NOW + MINUTE) == stale
    assert examine_health(stale, beat(NOW + MINUTE), judged(beat(NOW + MINUTE)), NOW + MINUTE).ailment is None


def test_a_hang_is_dealt_with_before_it_is_told() -> None:
    patient = Timeouts(stale_after_ms=SILENCE)
    assert judged(beat(), NOW + 2 * SILENCE, limits=patient).alarm is None


def test_people_hear_of_each_change_once_however_many_watches_see_it(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.prepare()
    HEARTBEAT_FILE.of(home).write(beat())
    told = []
    for minute in range(40):
        monkeypatch.setattr(watching, "epoch_ms", lambda minute=minute: NOW + minute * MINUTE)
        if minute == 30:
            HEARTBEAT_FILE.of(home).write(beat(NOW + 30 * MINUTE))
        found_at = NOW + minute * MINUTE
        shown = judged(HEARTBEAT_FILE.of(home).read(), found_at, worked_at=NOW)
        for watch in (HealthWatch(home), HealthWatch(home)):
            found, alert = watch.look(shown)
            assert found is not None, "a new watch sends the metrics once"
            assert watch.look(shown)[0] is None
            told.append((minute, alert))
    alerts = [(minute, alert.kind, alert.reason) for minute, alert in told if alert]
    assert alerts == [
        (11, AlertKind.STALE, "no progress for 11 m"),
        (30, AlertKind.RECOVERED, "it was stale for 19 m"),
    ]
    assert {(alert.lineage, alert.batch_id) for _, alert in told if alert} == {("old", 3)}


def test_stopping_a_stale_stream_is_no_recovery(home: StreamHome, monkeypatch: pytest.MonkeyPatch) -> None:
    home.prepare()
    HEARTBEAT_FILE.of(home).write(beat())
    monkeypatch.setattr(watching, "epoch_ms", lambda: NOW)
    watch = HealthWatch(home)
    watch.look(judged(beat()))
    monkeypatch.setattr(watching, "epoch_ms", lambda: NOW + 20 * MINUTE)
    stale = judged(beat(), NOW + 20 * MINUTE)
    alert = known(watch.look(stale)[1])
    assert alert.kind is AlertKind.STALE
    write_desired(home, DesiredState.STOPPED, by="ops", why="")
    assert watch.look(stale)[1] is None


@pytest.fixture
def home(platform: Platform) -> StreamHome:
    """A stream at work, whose file was changed since."""
    platform.add("visits")
    _, home = platform.drive("visits")
    lineage = start_lineage(home, spec=new_record(home, find_stream(platform.streams, "visits")))
    OpenSessions(home.lineage(lineage).open_sessions).learn(0, [])
    change(platform, "key: u", "key: lower(u)")
    return home


def change(platform: Platform, before: str, now: str) -> None:
    text = (platform.streams / "visits.yaml").read_text()
    platform.add("visits", text.replace(before, now))


def project_of(platform: Platform) -> Project:
    nowhere = platform.home / "nothing"
    return Project(application=nowhere, streams=platform.streams, jars=nowhere, home=platform.home)


def steer(platform: Platform, **options: Any) -> None:
    """Run the task as Airflow does, its templates rendered."""
    task = SetDesiredState(task_id="start", stream="visits", project=project_of(platform), **options)
    task.execute({"dag_run": SimpleNamespace(triggering_user_name="olga")})


def test_a_start_without_the_box_applies_nothing_and_stops_nobody(platform: Platform, home: StreamHome) -> None:
    steer(platform, state=DesiredState.RUNNING, apply="False")
    assert not stop_requested(home, "driver-1")
    assert choose_spec(home, read_spec_file(platform.streams, "visits"), apply=False).pending


@pytest.mark.parametrize("paused", [True, False, None])
def test_a_start_says_if_the_supervisor_is_paused(
    platform: Platform, home: StreamHome, monkeypatch: pytest.MonkeyPatch, reviewed: Reviewed, paused: bool | None
) -> None:
    """A mark as failed pauses it, and the start succeeds all the same."""
    said: list[str] = []

    def say(stream: str) -> str:
        said.append(unpause_line(stream))
        return said[-1]

    monkeypatch.setattr("sessionizer_airflow.operators.desired_state.ask_pause", lambda _: paused)
    monkeypatch.setattr("sessionizer_airflow.operators.desired_state.unpause_line", say)
    steer(platform, state=DesiredState.STOPPED)
    steer(platform, state=DesiredState.RUNNING)
    assert len(said) == bool(paused)
    for line in said:
        reviewed(line)


def test_a_start_with_the_box_has_the_driver_followed_by_one_with_the_changed_spec(
    platform: Platform, home: StreamHome
) -> None:
    steer(platform, state=DesiredState.RUNNING, apply="True")
    assert stop_requested(home, "driver-1")
    assert read_desired(home).state is DesiredState.RUNNING
    running = choose_spec(home, read_spec_file(platform.streams, "visits"), apply=False)
    assert running.spec.mapping.key == "lower(u)"


def test_a_stream_that_a_command_has_is_not_started(platform: Platform, home: StreamHome) -> None:
    """A driver would end at once, and the supervisor would give the stream up."""
    write_operation(home, new_operation(home, "restore", "0123456789abcdef", "ann", ("a", 3), savepoint="monday"))
    write_desired(home, DesiredState.MAINTENANCE, by="ann", why="restore")
    with pytest.raises(PersonNeeded) as refused:
        steer(platform, state=DesiredState.RUNNING)
    assert "sessionizer abandon visits" in refused.value.remedy
    assert read_desired(home).state is DesiredState.MAINTENANCE
    steer(platform, state=DesiredState.STOPPED)
    assert read_desired(home).state is DesiredState.STOPPED


def test_a_stream_is_started_whose_driver_finishes_a_rollback(platform: Platform, home: StreamHome) -> None:
    write_operation(home, new_operation(home, "rollback", "0123456789abcdef", f"{BY_CANARY}a", ("a", 3)))
    steer(platform, state=DesiredState.STOPPED)
    steer(platform, state=DesiredState.RUNNING)
    assert read_desired(home).state is DesiredState.RUNNING


def test_the_box_stops_nobody_where_there_is_nothing_to_apply(platform: Platform, home: StreamHome) -> None:
    change(platform, "key: lower(u)", "key: u")
    steer(platform, state=DesiredState.RUNNING, apply="True")
    assert not stop_requested(home, "driver-1")


def test_what_the_lineage_cannot_take_stops_nobody(platform: Platform, home: StreamHome) -> None:
    change(platform, "trigger_interval: 5 minutes", "key_groups: 5")
    with pytest.raises(AirflowFailException, match=r"key_groups is 5\. Run"):
        steer(platform, state=DesiredState.RUNNING, apply="True")
    assert not stop_requested(home, "driver-1")
    assert read_desired(home).at == 0


def test_supervise_shows_a_changed_spec_in_its_log(
    platform: Platform, home: StreamHome, capsys: pytest.CaptureFixture[str]
) -> None:
    task = SuperviseStream(
        task_id="supervise",
        stream="visits",
        project=project_of(platform),
        policy=SupervisionPolicy(),
        watch_lease_ms=60_000,
    )
    watch = SimpleNamespace(run_id="now", try_number=1, max_tries=240)
    with pytest.raises(TaskDeferred):
        task.execute({"ti": watch, "dag_run": SimpleNamespace(clear_number=0)})  # type: ignore[typeddict-item]
    assert "spec changed: mapping.key" in capsys.readouterr().out
    assert not stop_requested(home, "driver-1")


def test_a_stop_is_heard_and_names_its_user(platform: Platform, home: StreamHome) -> None:
    steer(platform, state=DesiredState.STOPPED, why="maintenance")
    assert stop_requested(home, "driver-1")
    desired = read_desired(home)
    assert (desired.state, desired.by, desired.why) == (DesiredState.STOPPED, "olga (Airflow)", "maintenance")
