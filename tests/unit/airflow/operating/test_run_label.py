"""Runs and tasks of `sessionizer.operate` are told apart by verb, stream and result."""

from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.sdk import DAG
from sqlalchemy import create_engine, insert
from sqlalchemy.orm import Session
from sqlalchemy.pool import StaticPool

from sessionizer_airflow.listener import note_run
from sessionizer_airflow.operating.jobs import MakePlan, MakeSavepoint, ReadForm
from sessionizer_airflow.operating.request import Request, id_of_run, purposes
from sessionizer_airflow.operating.results import SHOWN, join_label, result_of, title_of
from sessionizer_airflow.project import OPERATE, Project
from support.fixtures.reviewed import Reviewed
from support.verbs.asked_restore import RUN, context

ASKED_AT = datetime(2026, 11, 23, 10, tzinfo=UTC)
RESTORE = {"verb": "restore", "stream": "clicks", "savepoint": "monday"}


@pytest.mark.parametrize(
    ("form", "title"),
    [
        (RESTORE, "restore clicks to monday"),
        ({**RESTORE, "savepoint": None, "time": "2026-11-23T10:00"}, "restore clicks to 2026-11-23T10:00"),
        ({**RESTORE, "savepoint": None}, "restore clicks"),
        ({"verb": "rescale", "stream": "visits", "savepoint": "left over"}, "rescale visits"),
        ({"stream": "visits", "accept": None}, "upgrade visits"),
        ({"verb": None}, "nothing of no stream"),
    ],
)
def test_a_title_has_verb_stream_and_goal(form: dict[str, Any], title: str) -> None:
    assert title_of(form) == title


@pytest.mark.parametrize(
    ("states", "returned", "succeeded", "result"),
    [
        ({"read_form": "success", "savepoint": "success", "carry_out": "skipped"}, "savepoint", True, "savepoint s1"),
        ({"plan": "success", "approve": "success", "carry_out": "success"}, "carry_out", True, "done"),
        ({"plan": "success", "approve": "success", "carry_out": "skipped"}, "approve", True, "rejected"),
        ({"plan": "failed", "approve": "upstream_failed", "carry_out": "upstream_failed"}, "", False, "failed at plan"),
        ({"plan": "success", "approve": "success", "carry_out": "failed"}, "approve", False, "failed at carry_out"),
        ({"plan": "skipped"}, "", False, "failed"),
    ],
)
def test_a_result_follows_from_the_tasks(states: dict[str, str], returned: str, succeeded: bool, result: str) -> None:
    assert result_of(states, {returned}, "s1", succeeded=succeeded) == result


@pytest.mark.parametrize("task", ["savepoint", "carry_out", "promote", "test_alert"])
def test_a_task_that_a_user_marked_is_not_done(task: str, reviewed: Reviewed) -> None:
    """The job was killed in its middle, or never began. A restore then leaves its stream down."""
    reviewed(result_of({"approve": "success", task: "success"}, {"approve"}, "s1", succeeded=True))


@pytest.mark.parametrize("state", ["success", "failed", "skipped", None])
@pytest.mark.parametrize("succeeded", [True, False])
def test_what_is_done_stays_done_whatever_a_user_marks_or_clears(state: str | None, succeeded: bool) -> None:
    """A cleared approval may be rejected, and a run may be marked."""
    states = {"approve": "success", "carry_out": state}
    assert result_of(states, {"approve", "carry_out"}, "", succeeded=succeeded) == "done"


WISH = "restore clicks to monday"


def run_of(form: dict[str, Any], dag: str = OPERATE, note: str | None = None) -> DagRun:
    return DagRun(dag_id=dag, run_id=RUN, run_type="manual", conf=form, run_after=ASKED_AT, note=note)


def test_a_run_has_a_note_from_its_beginning_to_its_end() -> None:
    run = run_of(RESTORE)
    note_run(run)
    assert run.note == WISH
    note_run(run, succeeded=False)
    assert run.note == f"{WISH} → failed"
    note_run(run)
    assert run.note == WISH, "it was cleared"


@pytest.fixture
def session() -> Iterator[Session]:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    DagRun.metadata.create_all(engine)
    with Session(engine) as opened:
        yield opened


@pytest.mark.parametrize(("returned", "result"), [("carry_out", "done"), ("approve", "carry_out was marked success")])
def test_the_note_tells_a_mark_from_work_by_what_the_task_returned(
    session: Session, returned: str, result: str
) -> None:
    run = run_of(RESTORE)
    session.add(run)
    session.flush()
    of_run = {"dag_id": OPERATE, "run_id": RUN, "map_index": -1}
    session.execute(insert(TaskInstance), [state_of(task) | of_run for task in ("approve", "carry_out")])
    kept = {"dag_run_id": run.id, "task_id": returned, "key": "return_value", "value": '"x"'}
    session.execute(
        insert(XComModel), [kept | of_run, kept | of_run | {"task_id": "carry_out", "key": "skipmixin_key"}]
    )
    note_run(run, succeeded=True)
    assert run.note is not None
    assert run.note.startswith(f"{WISH} → {result}")


def state_of(task: str) -> dict[str, Any]:
    return {"id": uuid4(), "task_id": task, "state": "success", "try_number": 1, "pool": "default_pool"}


@pytest.mark.parametrize(("dag", "note"), [(OPERATE, "see ticket 7"), ("clicks.supervise", None)])
def test_the_note_of_a_user_stays_and_other_runs_get_none(dag: str, note: str | None) -> None:
    run = run_of(RESTORE, dag, note)
    note_run(run, succeeded=True)
    assert run.note == note


def test_what_cannot_be_noted_does_not_stop_the_scheduler() -> None:
    note_run(SimpleNamespace(dag_id=OPERATE, run_id=RUN, conf=RESTORE, note=None), succeeded=True)  # type: ignore[arg-type]


def test_a_task_is_labelled(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessionizer_airflow.operating.jobs.require_startable", lambda *_, **__: None)
    reads = ReadForm(task_id="read_form", project=project, first_task=dict.fromkeys(purposes(), "plan"))
    tasks = [reads, MakePlan(task_id="plan", project=project)]
    given = context(RESTORE)
    assert reads.choose_branch(given) == "plan"
    environment = DAG(OPERATE, schedule=None).get_template_env()
    for task in tasks:
        assert environment.from_string(str(task.map_index_template)).render(given) == WISH
        assert environment.from_string(str(task.map_index_template)).render({}) == ""
    assert given[SHOWN] == WISH


def test_the_id_of_a_savepoint_is_in_the_note(project: Project) -> None:
    form = {"verb": "savepoint", "stream": "clicks"}
    made = id_of_run(RUN, ASKED_AT)
    arguments = MakeSavepoint(task_id="t", project=project).arguments(Request.parse_form(form), context(form))
    assert made in arguments
    assert result_of({"savepoint": "success"}, {"savepoint"}, made, succeeded=True) == f"savepoint {made}"


def test_a_label_fits_into_its_column_with_its_result() -> None:
    label = join_label("x" * 1000, "done")
    assert len(label) <= 250
    assert label.endswith(" → done")
