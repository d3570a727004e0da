"""The DAGs `<stream>.start` and `<stream>.stop`: what they record, and whom they stop. What `supervise` shows of it."""

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from sessionizer.control.operation import new_operation
from sessionizer.control.records.process_records import stop_requested
from sessionizer.control.records.supervision_records import DesiredState, read_desired, write_desired
from sessionizer.deployment.running_spec import choose_spec, new_record
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.batch_log import OpenSessions
from sessionizer.lineage.canary.canary_record import BY_CANARY
from sessionizer.stream_spec.spec_folder import find_stream, read_spec_file
from sessionizer_airflow.errors import PersonNeeded
from sessionizer_airflow.operators.desired_state import SetDesiredState, unpause_line
from sessionizer_airflow.operators.supervise_stream import SuperviseStream
from sessionizer_airflow.project import Project
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from support.fixtures.reviewed import Reviewed
from support.processes.fabricated_platform import Platform
from support.verbs.begun_restore import write_operation


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
