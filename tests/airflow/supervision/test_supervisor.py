"""The supervisor over real processes that honour the control directory."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from airflow._shared.listeners.listener import ListenerManager
from airflow._shared.listeners.spec import taskinstance
from airflow.listeners.spec import dagrun

from sessionizer.control.lease import read_lease
from sessionizer.control.records.process_records import (
    EXIT_FILE,
    LAUNCH_FILE,
    LaunchRecord,
    identify,
    is_alive,
    read_launch,
    stop_requested,
)
from sessionizer.control.records.supervision_records import (
    SUPERVISION_FILE,
    WATCH_FILE,
    DesiredState,
    WatchRecord,
    end_maintenance,
    read_desired,
    write_desired,
)
from sessionizer.control.status import driver_status as read_status
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow import listener
from sessionizer_airflow.alerting import Alert, AlertKind
from sessionizer_airflow.errors import SupervisionEnded
from sessionizer_airflow.operators import desired_state as user_kill
from sessionizer_airflow.supervision.act import Supervisor
from sessionizer_airflow.supervision.decide import Adopt, StandBy, Wait, read_situation
from sessionizer_airflow.supervision.watch import look_at
from support.expected.driver_statuses import recorded, works
from support.fixtures.supervisor import behave, patient, set_limits
from support.places import known
from support.processes.ports import eventually

RUN = "scheduled__2026-11-23T01:00:00+00:00"
BY_HAND = "Dag Run's state was manually set to `failed`."
"""As Airflow 3.3.2 says it."""
NewSupervisor = Callable[[], Supervisor]


def killed(state: str | None) -> Any:
    """The task of a watch that was killed, of which Airflow says that it is in `state`; None: it was cleared."""
    states = {"now": {"supervise": state}} if state is not None else {}
    return SimpleNamespace(
        dag_id="clicks.supervise",
        task_id="supervise",
        run_id="now",
        map_index=-1,
        try_number=1,
        get_task_states=lambda **_: states,
    )


def launch_and_wait(supervisor: Supervisor) -> str:
    supervisor.take_over()
    decision = supervisor.settle()
    assert isinstance(decision, Adopt)
    eventually(lambda: works(supervisor.home, decision.uid))
    return decision.uid


def live_process(home: StreamHome) -> LaunchRecord:
    launch = known(read_launch(home))
    assert launch.process is not None
    return launch


def test_launches_once_and_is_adopted_by_the_next_watch(new_supervisor: NewSupervisor, home: StreamHome) -> None:
    uid = launch_and_wait(new_supervisor())
    first = live_process(home)
    for _ in range(3):
        assert new_supervisor().settle() == Adopt(uid, "RUNNING")
    assert read_launch(home) == first


def test_a_launch_cut_short_is_waited_for_not_repeated(new_supervisor: NewSupervisor, home: StreamHome) -> None:
    home.prepare()
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="half", at=int(time.time() * 1000), log="nowhere"))
    assert new_supervisor().settle() == Adopt("half", "STARTING")


def test_driver_started_by_hand_is_adopted(new_supervisor: NewSupervisor, home: StreamHome) -> None:
    uid = launch_and_wait(new_supervisor())
    (home.control / "launch.json").unlink()
    assert new_supervisor().settle() == Adopt(uid, "RUNNING")


def test_killed_driver_is_noticed_and_replaced_after_the_backoff(
    new_supervisor: NewSupervisor, home: StreamHome, said: list[str]
) -> None:
    uid = launch_and_wait(new_supervisor())
    os.kill(known(live_process(home).pid), signal.SIGKILL)
    eventually(lambda: look_at(home, new_supervisor().policy).call)
    assert isinstance(patient(new_supervisor()).settle(), Wait)
    SUPERVISION_FILE.of(home).write(replace(recorded(home), restart_at=epoch_ms()))
    eventually(lambda: isinstance(new_supervisor().settle(), Adopt))
    fresh = live_process(home)
    assert fresh.uid != uid
    assert any(f"driver {uid} vanished" in line for line in said)


def test_frozen_driver_is_fenced_then_killed(new_supervisor: NewSupervisor, home: StreamHome) -> None:
    uid = launch_and_wait(new_supervisor())
    old = live_process(home)
    os.kill(known(old.pid), signal.SIGSTOP)

    def impatient() -> Supervisor:
        return set_limits(new_supervisor(), stale_limit_ms=2_000)

    eventually(lambda: look_at(home, impatient().policy).call)
    eventually(lambda: isinstance(impatient().settle(), Adopt))
    assert is_alive(known(old.process)) is False
    assert live_process(home).uid != uid
    assert "was replaced: silent for" in recorded(home).last_failure


def test_start_that_never_comes_is_replaced(new_supervisor: NewSupervisor, home: StreamHome) -> None:
    behave(home, "mute")
    supervisor = set_limits(new_supervisor(), startup_grace_ms=2_000)
    assert isinstance(supervisor.settle(), Adopt)
    eventually(lambda: look_at(home, supervisor.policy).call)
    supervisor.settle()
    assert "no batch" in recorded(home).last_failure


def test_crash_loop_gives_up_then_goes_on_after_a_person_lets_it(
    new_supervisor: NewSupervisor, home: StreamHome
) -> None:
    behave(home, "crash")
    launched: set[str] = set()

    def settle() -> None:
        new_supervisor().settle()
        launched.add(live_process(home).uid)

    with pytest.raises(SupervisionEnded, match="3 failures in a row"):
        eventually(settle)
    assert len(launched) == 3, "the first start and two restarts"
    behave(home, "steady")
    launch_and_wait(new_supervisor())
    assert recorded(home).failures == 0


def test_each_failure_is_told_once_with_the_last_words_of_the_driver(
    new_supervisor: NewSupervisor, home: StreamHome, said: list[str], alerts: list[Alert]
) -> None:
    behave(home, "crash")

    def settle() -> None:
        new_supervisor().settle()

    with pytest.raises(SupervisionEnded, match="memory killer"):
        eventually(settle)
    assert [alert.kind for alert in alerts] == [AlertKind.REPLACED, AlertKind.REPLACED, AlertKind.GAVE_UP]
    assert "vanished" in alerts[0].reason
    shown = [line.partition(" | ")[2] for line in said if " | " in line]
    assert shown == ["opening the broker with password=***", "it is beyond me"] * 3


@pytest.mark.parametrize("named", ["{tmp}/passwords", "{logs}/link"])
def test_a_file_outside_of_the_logs_is_not_shown_whatever_the_launch_record_names(
    named: str, new_supervisor: NewSupervisor, home: StreamHome, said: list[str], tmp_path: Path
) -> None:
    launch_and_wait(new_supervisor())
    launch = live_process(home)
    (tmp_path / "passwords").write_text("ModuleNotFoundError: No module named 'secret matter'\n")
    (home.logs / "link").symlink_to(tmp_path / "passwords")
    LAUNCH_FILE.of(home).write(replace(launch, log=named.format(tmp=tmp_path, logs=home.logs)))
    os.kill(known(launch.pid), signal.SIGKILL)
    eventually(lambda: look_at(home, new_supervisor().policy).call)
    assert isinstance(patient(new_supervisor()).settle(), Wait)
    assert any("vanished" in line for line in said)
    assert not any("secret matter" in line for line in said)


def test_a_driver_that_works_shows_no_log_and_alarms_nobody(
    new_supervisor: NewSupervisor, said: list[str], alerts: list[Alert]
) -> None:
    launch_and_wait(new_supervisor())
    new_supervisor().settle()
    assert alerts == []
    assert not [line for line in said if " | " in line]


def test_a_stopped_stream_has_its_driver_stopped_and_is_left_alone(
    new_supervisor: NewSupervisor, home: StreamHome
) -> None:
    uid = launch_and_wait(new_supervisor())
    write_desired(home, DesiredState.STOPPED, by="ops", why="maintenance window")
    assert look_at(home, new_supervisor().policy).call
    assert isinstance(new_supervisor().settle(), StandBy)
    assert stop_requested(home, uid)
    eventually(lambda: EXIT_FILE.of(home, uid).read() is not None)
    look = look_at(home, new_supervisor().policy)
    assert not look.call
    assert "STOPPED (by ops, maintenance window)" in look.line
    write_desired(home, DesiredState.RUNNING, by="ops", why="")
    eventually(lambda: isinstance(new_supervisor().settle(), Adopt))
    assert live_process(home).uid != uid


def test_cancelled_supervisor_launches_nothing(new_supervisor: NewSupervisor, home: StreamHome) -> None:
    supervisor = new_supervisor()
    supervisor.cancelled = True
    assert supervisor.settle() is None
    assert read_launch(home) is None


UNASKED = ("failed", None, "scheduled", "queued", "deferred", "up_for_retry", "running", "skipped")
"""What Airflow says of a watch whose driver goes on: the stream is wanted again, or nobody has cleared the task."""


@pytest.mark.parametrize(
    ("state", "desired"),
    [("failed", DesiredState.STOPPED), ("success", DesiredState.STOPPED), ("restarting", DesiredState.RUNNING)],
)
def test_what_a_killed_watch_means(
    state: str, desired: DesiredState, new_supervisor: NewSupervisor, home: StreamHome
) -> None:
    uid = launch_and_wait(new_supervisor())
    for harmless in UNASKED:
        user_kill.handle_kill(home, killed(harmless), print)
        assert (read_desired(home).state, stop_requested(home, uid)) == (DesiredState.RUNNING, False)
    write_desired(home, desired, by="a mark", why="")
    user_kill.handle_kill(home, killed(state), print)
    assert (read_desired(home).state, stop_requested(home, uid)) == (desired, True)


@pytest.mark.parametrize(
    ("later", "cleared"),
    [
        (WatchRecord(run_id="now", try_number=2, max_tries=240), False),
        (WatchRecord(run_id="now", try_number=2, max_tries=241), True),
        (WatchRecord(run_id="now", try_number=2, max_tries=240, clears=1), True),
        (WatchRecord(run_id="next", try_number=1, max_tries=241), False),
    ],
)
def test_a_clear_is_told_from_a_retry(later: WatchRecord, cleared: bool) -> None:
    assert WatchRecord(run_id="now", try_number=1, max_tries=240).is_cleared_by(later) is cleared


@pytest.mark.parametrize("state", ["failed", "success"])
def test_a_mark_is_heard_where_it_is_made(
    state: str, new_supervisor: NewSupervisor, home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    uid = launch_and_wait(new_supervisor())
    monkeypatch.setenv("SESSIONIZER_HOME", str(home.root.parents[1]))
    emit(home, state, previous=None, operator="SuperviseStream")
    assert read_desired(home).state is DesiredState.STOPPED
    assert stop_requested(home, uid)


@pytest.mark.parametrize("state", ["failed", "success"])
def test_a_mark_while_a_command_has_the_stream_is_heard_after_it(
    state: str, home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.prepare()
    monkeypatch.setenv("SESSIONIZER_HOME", str(home.root.parents[1]))
    write_desired(home, DesiredState.MAINTENANCE, by="alice", why="restore", afterwards=DesiredState.RUNNING)
    emit(home, state, previous=None, operator="SuperviseStream")
    end_maintenance(home, DesiredState.RUNNING, by="alice", why="restore: it is over")
    desired = read_desired(home)
    assert (desired.state, desired.by) == (DesiredState.STOPPED, "a user of Airflow")


@pytest.mark.parametrize(("previous", "operator"), [("running", "SuperviseStream"), (None, "SetDesiredState")])
def test_what_is_no_mark_stops_nothing(
    previous: str | None, operator: str, home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.prepare()
    monkeypatch.setenv("SESSIONIZER_HOME", str(home.root.parents[1]))
    for state in ("failed", "success"):
        emit(home, state, previous, operator)
    assert read_desired(home).state is DesiredState.RUNNING


@pytest.mark.parametrize(("home_is", "said"), [("nowhere", "sees no platform home at"), (None, "is not set")])
def test_a_mark_makes_no_home(
    home_is: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SESSIONIZER_HOME", str(tmp_path / home_is) if home_is else "")
    for state in ("failed", "success"):
        emit(StreamHome.of(tmp_path / "nowhere", "clicks"), state, previous=None, operator="SuperviseStream")
    assert list(tmp_path.iterdir()) == []
    assert "is not stopped: " in caplog.text
    assert said in caplog.text


def call(spec: ModuleType, hook: str, **told: Any) -> None:
    listeners = ListenerManager()  # type: ignore[no-untyped-call]
    listeners.add_hookspecs(spec)
    listeners.add_listener(listener)  # type: ignore[no-untyped-call]
    getattr(listeners.hook, hook)(**told)


def emit(home: StreamHome, state: str, previous: str | None, operator: str) -> None:
    """Call our listener as Airflow does."""
    task = SimpleNamespace(dag_id=f"{home.name}.supervise", task_id="supervise", run_id=RUN, operator=operator)
    error = {"error": "set by hand"} if state == "failed" else {}
    call(taskinstance, f"on_task_instance_{state}", previous_state=previous, task_instance=task, **error)


@pytest.mark.parametrize("state", ["failed", "success"])
def test_a_mark_on_a_run_is_heard_whatever_its_task_is_at(
    state: str, home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.prepare()
    monkeypatch.setenv("SESSIONIZER_HOME", str(home.root.parents[1]))
    emit_of_run(home, state, "task_failure", "SuperviseStream")
    emit_of_run(home, state, BY_HAND, "SetDesiredState")
    assert read_desired(home).state is DesiredState.RUNNING
    emit_of_run(home, state, BY_HAND, "SuperviseStream")
    assert read_desired(home).state is DesiredState.STOPPED


def test_a_mark_on_a_run_of_the_past_stops_nothing(home: StreamHome, monkeypatch: pytest.MonkeyPatch) -> None:
    home.prepare()
    monkeypatch.setenv("SESSIONIZER_HOME", str(home.root.parents[1]))
    later = RUN.replace("2026", "2027")
    for watch in (WatchRecord(run_id=RUN, try_number=1, ended=True), WatchRecord(run_id=later, try_number=1)):
        WATCH_FILE.of(home).write(watch)
        emit(home, "success", previous=None, operator="SuperviseStream")
        emit_of_run(home, "success", BY_HAND, "SuperviseStream")
        assert read_desired(home).state is DesiredState.RUNNING


def emit_of_run(home: StreamHome, state: str, msg: str, operator: str) -> None:
    dag = SimpleNamespace(tasks=[SimpleNamespace(task_type=operator)])
    run = SimpleNamespace(dag_id=f"{home.name}.supervise", run_id=RUN, dag=dag)
    call(dagrun, f"on_dag_run_{state}", dag_run=run, msg=msg)


def test_second_driver_is_refused_and_the_first_kept(new_supervisor: NewSupervisor, home: StreamHome) -> None:
    uid = launch_and_wait(new_supervisor())
    owner = live_process(home)
    new_supervisor().launch()
    rival = live_process(home)
    assert rival.uid != uid
    eventually(lambda: EXIT_FILE.of(home, rival.uid).read() is not None)
    assert new_supervisor().settle() == Adopt(uid, "RUNNING")
    lease = known(read_lease(home))
    assert lease.uid == uid
    os.kill(known(owner.pid), signal.SIGKILL)
    eventually(lambda: isinstance(new_supervisor().settle(), Wait))


def test_python_without_its_jvm_is_replaced(new_supervisor: NewSupervisor, home: StreamHome, said: list[str]) -> None:
    uid = launch_and_wait(new_supervisor())
    python = live_process(home)
    jvm = subprocess.Popen(["true"])
    identity = identify(jvm.pid)
    jvm.wait()
    LAUNCH_FILE.of(home).write(python.add_process(known(identity)))
    eventually(lambda: isinstance(new_supervisor().settle(), Adopt))
    assert live_process(home).uid != uid
    assert is_alive(known(python.process)) is False
    assert any(line.startswith(f"ending driver {uid} by force") for line in said)


def test_a_driver_that_ends_while_it_is_looked_at_is_not_taken_for_half_of_one(
    new_supervisor: NewSupervisor, home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = new_supervisor()
    launch_and_wait(supervisor)
    process = known(live_process(home).process)
    look_at_launched = read_status._launched_lives

    def end_it_before_looking(launch: LaunchRecord) -> bool | None:
        os.kill(process.pid, signal.SIGKILL)
        eventually(lambda: is_alive(process) is False)
        return look_at_launched(launch)

    monkeypatch.setattr(read_status, "_launched_lives", end_it_before_looking)
    driver = known(read_situation(home, supervisor.policy, epoch_ms()).driver)
    assert driver.without_jvm is False
