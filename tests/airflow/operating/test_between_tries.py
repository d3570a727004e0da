"""A restore that fails for a reason that passes by itself, between its two tries by Airflow."""

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException

from sessionizer.control.records.operation_record import Ending, pending_operation, read_operations, write_request
from sessionizer.control.records.process_records import read_launch
from sessionizer.control.records.supervision_records import DesiredState, read_desired, write_desired
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import active_lineage, start_lineage
from sessionizer_airflow.errors import PersonNeeded
from sessionizer_airflow.operating.jobs import CarryOut
from sessionizer_airflow.operating.request import Request
from sessionizer_airflow.operating.results import PLAN_AGAIN, read_remains
from sessionizer_airflow.project import Project
from sessionizer_airflow.supervision.act import Supervisor
from sessionizer_airflow.supervision.decide import Adopt, StandBy
from sessionizer_airflow.supervision.policy import SupervisionSettings
from support.fixtures.reviewed import Reviewed
from support.places import REPOSITORY, SUPPORT, known
from support.verbs.asked_restore import APPROVED, OPERATION, RESTORE, context
from support.verbs.begun_restore import write_operation

# the provider leaves the pipe to the program that it has started open
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

DIGEST = "0123456789abcdef"
JOB = """#!{python}
import sys

sys.path.append({tests!r})
from pathlib import Path
from sessionizer.cli.app import tell
from sessionizer.cli.state_commands.operation_run import carry_out
from sessionizer.control.operation import new_operation
from sessionizer.control.records.operation_record import OperationStage, pending_operation
from sessionizer.errors import ControlUnreachable, InvalidSpec, SessionizerError
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import active_lineage
from support.verbs.scripted_runner import ScriptedRunner

home, trouble = StreamHome.of(Path({home!r}), "clicks"), Path({home!r}) / "trouble"


def work(step, operation):
    operation.reached(OperationStage.STOPPED)
    if trouble.exists():
        kind = trouble.read_text()
        raise ControlUnreachable("s3://lake", "timed out") if kind == "passing" else InvalidSpec("x", 1, "2")
    return active_lineage(home)


record = pending_operation(home) or new_operation(
    home, "restore", {digest!r}, "alice", (active_lineage(home), 4), savepoint="s1", decided={{"spec": "1f"}}
)
is_other = trouble.exists() and trouble.read_text() == "another plan"
runner = ScriptedRunner(home=home, work=work, digest="f" * 16 if is_other else None, decided={{"spec": "2e"}})
try:
    carry_out(home, record, "restore to s1", 30, runner)
except SessionizerError as error:
    tell(error)
    sys.exit(error.exit_code)
"""


@pytest.fixture(autouse=True)
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore without Spark: its lease, its records and its exit codes are the real ones."""
    program = tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text(JOB.format(python=sys.executable, home=str(tmp_path), digest=DIGEST, tests=str(SUPPORT.parent)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))


@pytest.fixture(autouse=True)
def pipes() -> Iterator[None]:
    """Close the provider's pipes within the test, whose warnings are ignored."""
    yield
    gc.collect()


@pytest.fixture
def attempt(project: Project) -> Callable[[int], None]:
    """Have Airflow's task try for the so many-th time."""
    settings = SupervisionSettings.from_environment({})
    outlets: Any = SimpleNamespace(add=lambda *_, **__: None)

    def run(number: int) -> None:
        task = CarryOut(task_id="carry_out", project=project, settings=settings, approval="approve")
        tried = SimpleNamespace(try_number=number, max_tries=5)
        write_request(project.home_of("clicks"), APPROVED)
        task.execute(context(RESTORE, ti=tried, outlet_events=dict.fromkeys(task.outlets, outlets)))

    return run


def settled(new_supervisor: Callable[[], Supervisor]) -> object:
    supervisor = new_supervisor()
    supervisor.take_over()
    return supervisor.settle()


def test_between_its_tries_the_supervisor_leaves_the_stream_alone(
    home: StreamHome, new_supervisor: Callable[[], Supervisor], attempt: Callable[[int], None]
) -> None:
    home.prepare()
    lineage, trouble = start_lineage(home), home.platform / "trouble"
    trouble.write_text("passing")
    for number in (1, 2):
        with pytest.raises(AirflowException) as failed:
            attempt(number)
        assert not isinstance(failed.value, PersonNeeded), "Airflow would not try it again"
        decision = settled(new_supervisor)
        assert isinstance(decision, StandBy)
        assert not decision.unattended
        assert read_launch(home) is None
    pending = known(pending_operation(home))
    left = read_remains(home, Request.parse_form(RESTORE), OPERATION)
    assert "sessionizer abandon clicks" in left.how_to_go_on("clicks")
    trouble.unlink()
    attempt(3)
    (record,) = read_operations(home)
    assert (record.id, record.outcome, active_lineage(home)) == (pending.id, Ending.DONE, lineage)
    assert isinstance(settled(new_supervisor), Adopt)


@pytest.mark.parametrize("verb", ["restore", "erase"])
def test_a_retry_runs_a_done_command_again_only_if_it_sweeps(
    home: StreamHome, project: Project, tmp_path: Path, verb: str
) -> None:
    """The process of an erasure goes on after the operation, and may be killed then."""
    (tmp_path / "bin" / "spark-submit").write_text(f'#!/bin/sh\ntouch "{tmp_path}/swept"\n')
    form = RESTORE if verb == "restore" else {"verb": "erase", "stream": "clicks", "keys": "/data/people"}
    home.prepare()
    approved = replace(APPROVED, verb=verb, request={}, digest=DIGEST)
    write_request(home, approved)
    write_operation(home, replace(approved, outcome=Ending.DONE, step_at=approved.step_at + 1))
    settings = SupervisionSettings.from_environment({})
    task = CarryOut(task_id="carry_out", project=project, settings=settings, approval="approve")
    outlets: Any = SimpleNamespace(add=lambda *_, **__: None)
    tried = SimpleNamespace(try_number=2, max_tries=5)
    task.execute(context(form, ti=tried, outlet_events=dict.fromkeys(task.outlets, outlets)))
    assert (tmp_path / "swept").exists() == (verb == "erase")


@pytest.mark.parametrize(
    ("verb", "days", "is_told"),
    [("restore", "", True), ("rescale", "", False), ("upgrade", "", False), ("upgrade", "2026-11-29 2026-11-30", True)],
)
def test_readers_are_told_of_a_command_that_rewrites_rows(
    home: StreamHome, project: Project, verb: str, days: str, is_told: bool
) -> None:
    """An upgrade rewrites rows if it replays."""
    home.prepare()
    approved = replace(APPROVED, verb=verb, request={}, digest=DIGEST)
    write_request(home, approved)
    write_operation(home, replace(approved, outcome=Ending.DONE, step_at=approved.step_at + 1, days=days))
    task = CarryOut(
        task_id="carry_out", project=project, settings=SupervisionSettings.from_environment({}), approval="approve"
    )
    told: list[Any] = []
    outlets: Any = SimpleNamespace(add=lambda _, extra: told.append(extra))
    form = RESTORE if verb == "restore" else {"verb": verb, "stream": "clicks"}
    tried = SimpleNamespace(try_number=2, max_tries=5)
    task.execute(context(form, ti=tried, outlet_events=dict.fromkeys(task.outlets, outlets)))
    assert [each["days"] for each in told] == ([days.split()] * 2 if is_told else [])


@pytest.mark.parametrize("has_begun", [True, False])
def test_a_restore_that_a_user_gave_up_between_two_tries_is_not_begun_again(
    home: StreamHome, attempt: Callable[[int], None], reviewed: Reviewed, has_begun: bool
) -> None:
    home.prepare()
    start_lineage(home)
    trouble = home.platform / "trouble"
    trouble.write_text("passing")
    with pytest.raises(AirflowException):
        attempt(1)
    if not has_begun:  # its driver did not end in time
        (home.control / "operations" / f"{read_operations(home)[0].id}.json").unlink()
    trouble.unlink()
    typed = ["abandon", "clicks", "--by", "olga", "--home", str(home.platform)]
    # a process of its own, because the fixture kills the lease's last owner
    subprocess.run([sys.executable, REPOSITORY / "jobs" / "main.py", *typed], check=True)
    before = read_operations(home)
    with pytest.raises(PersonNeeded) as failed:
        attempt(2)
    reviewed(failed.value.reason)
    reviewed(failed.value.remedy)
    assert read_desired(home).state is DesiredState.RUNNING
    for later in (DesiredState.STOPPED, DesiredState.RUNNING):
        write_desired(home, later, by="tom", why="before Airflow's next try")
        with pytest.raises(PersonNeeded):
            attempt(3)
        assert read_desired(home).state is later
    assert read_operations(home) == before


def test_what_does_not_pass_is_abandoned_and_the_stream_goes_on(
    home: StreamHome, new_supervisor: Callable[[], Supervisor], attempt: Callable[[int], None]
) -> None:
    home.prepare()
    start_lineage(home)
    (home.platform / "trouble").write_text("for good")
    with pytest.raises(PersonNeeded) as failed:
        attempt(1)
    assert failed.value.remedy.endswith("run this DAG again")
    assert read_desired(home).state is DesiredState.RUNNING
    assert isinstance(settled(new_supervisor), Adopt)


def test_a_plan_that_has_changed_is_made_and_approved_anew(home: StreamHome, attempt: Callable[[int], None]) -> None:
    home.prepare()
    start_lineage(home)
    (home.platform / "trouble").write_text("another plan")
    with pytest.raises(PersonNeeded) as failed:
        attempt(1)
    assert "spec: 1f → 2e" in failed.value.reason
    assert failed.value.remedy == PLAN_AGAIN
