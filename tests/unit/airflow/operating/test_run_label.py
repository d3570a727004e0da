"""Runs and tasks of `sessionizer.operate` are told apart by verb, stream and result."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.models.dagrun import DagRun
from airflow.sdk import DAG

from sessionizer_airflow.dag_defaults import OPERATE
from sessionizer_airflow.listener.run_notes import note_run
from sessionizer_airflow.operating.jobs import MakePlan, MakeSavepoint, ReadForm
from sessionizer_airflow.operating.request import Request, purposes
from sessionizer_airflow.operating.run_label import SHOWN, join_label, result_of, savepoint_of, title_of
from support.verbs.asked_restore import RUN, context

if TYPE_CHECKING:
    from sessionizer_airflow.project import Project
    from support.fixtures.reviewed import Reviewed

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
    ("states", "succeeded", "result"),
    [
        ({"read_form": "success", "savepoint": "success", "carry_out": "skipped"}, True, "savepoint s1"),
        ({"plan": "success", "approve": "success", "carry_out": "success", "savepoint": "skipped"}, True, "done"),
        ({"plan": "success", "approve": "success", "carry_out": "skipped", "savepoint": "skipped"}, True, "rejected"),
        ({"plan": "failed", "approve": "upstream_failed", "carry_out": "upstream_failed"}, False, "failed at plan"),
        ({"plan": "success", "approve": "success", "carry_out": "failed"}, False, "failed at carry_out"),
        ({"plan": "skipped"}, False, "failed"),
    ],
)
def test_a_result_follows_from_the_tasks(states: dict[str, str], succeeded: bool, result: str) -> None:
    labels = {"savepoint": "savepoint clicks → savepoint s1", "carry_out": f"{WISH} → done"}
    assert result_of(states, labels, succeeded=succeeded) == result


@pytest.mark.parametrize("task", ["savepoint", "carry_out", "promote", "test_alert"])
@pytest.mark.parametrize("label", [None, "restore clicks to done", "restore clicks → failed"])
def test_a_task_that_a_user_marked_is_not_done(task: str, label: str | None, reviewed: Reviewed) -> None:
    """The job was killed in its middle, or never began. A restore then leaves its stream down."""
    reviewed(result_of({"approve": "success", task: "success"}, {task: label}, succeeded=True))


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


def test_the_note_of_a_user_stays() -> None:
    run = run_of(RESTORE, note="see ticket 7")
    note_run(run, succeeded=True)
    assert run.note == "see ticket 7"


def test_other_runs_get_no_note() -> None:
    run = run_of(RESTORE, dag="clicks.supervise")
    note_run(run, succeeded=True)
    assert run.note is None


def test_what_cannot_be_noted_does_not_stop_the_scheduler() -> None:
    note_run(SimpleNamespace(dag_id=OPERATE, run_id=RUN, conf=RESTORE, note=None), succeeded=True)  # type: ignore[arg-type]


def test_a_task_is_labelled(project: Project) -> None:
    reads = ReadForm(task_id="read_form", first_task=dict.fromkeys(purposes(), "plan"))
    tasks = [reads, MakePlan(task_id="plan", project=project)]
    given = context(RESTORE)
    assert reads.choose_branch(given) == "plan"
    environment = DAG(OPERATE, schedule=None).get_template_env()
    for task in tasks:
        assert environment.from_string(str(task.map_index_template)).render(given) == WISH
        assert environment.from_string(str(task.map_index_template)).render({}) == ""
    assert given[SHOWN] == WISH


def test_the_id_of_a_savepoint_is_in_label_and_note(project: Project) -> None:
    form = {"verb": "savepoint", "stream": "clicks"}
    made = savepoint_of(RUN, ASKED_AT)
    arguments = MakeSavepoint(task_id="t", project=project).arguments(Request.parse_form(RUN, form), context(form))
    assert made in arguments
    label = join_label(title_of(form), f"savepoint {made}")
    assert result_of({"savepoint": "success"}, {"savepoint": label}, succeeded=True) == f"savepoint {made}"


def test_a_label_fits_into_its_column_with_its_result() -> None:
    label = join_label("x" * 1000, "done")
    assert len(label) <= 250
    assert label.endswith(" → done")
