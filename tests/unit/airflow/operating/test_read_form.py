"""The form is answered at once where the stream's records refuse what it asks for: no Spark, no plan."""

from typing import Any

import pytest

from sessionizer.control.operation import new_operation
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer_airflow.errors import PersonNeeded
from sessionizer_airflow.operating.jobs import ReadForm
from sessionizer_airflow.operating.request import purposes
from sessionizer_airflow.operating.results import RUN_AGAIN
from sessionizer_airflow.project import Project
from support.verbs.asked_restore import context
from support.verbs.begun_restore import write_operation

FORMS: dict[str, dict[str, Any]] = {
    "restore": {"verb": "restore", "savepoint": "monday"},
    "rollback": {"verb": "rollback"},
    "rescale": {"verb": "rescale", "key_groups": 8},
    "switch": {"verb": "switch", "start_at": "latest"},
    "apply": {"verb": "apply"},
    "seed": {"verb": "seed", "history": "source"},
}


@pytest.fixture
def stream(project: Project) -> StreamHome:
    home = project.home_of("clicks")
    home.prepare()
    home.prepare_data()
    return home


def asked(project: Project, verb: str, **more: object) -> object:
    task = ReadForm(task_id="read_form", project=project, first_task=dict.fromkeys(purposes(), "plan"))
    return task.choose_branch(context({**FORMS[verb], "stream": "clicks", **more}))


@pytest.mark.parametrize("verb", [verb for verb in FORMS if verb != "seed"])
def test_a_stream_that_never_ran(project: Project, stream: StreamHome, verb: str) -> None:
    with pytest.raises(PersonNeeded, match="it never ran"):
        asked(project, verb)
    start_lineage(stream)
    assert asked(project, verb) == "plan"


def test_a_seed_of_a_stream_that_has_begun(project: Project, stream: StreamHome) -> None:
    assert asked(project, "seed") == "plan"
    start_lineage(stream)
    with pytest.raises(PersonNeeded, match="has already begun") as refused:
        asked(project, "seed")
    assert refused.value.remedy.endswith(RUN_AGAIN), "a cleared task has the same form"
    assert asked(project, "seed", start_over=True) == "plan"


@pytest.mark.parametrize("verb", FORMS)
def test_while_another_operation_is_not_over(project: Project, stream: StreamHome, verb: str) -> None:
    lineage = start_lineage(stream)
    other = "apply" if verb != "apply" else "rescale"
    write_operation(stream, new_operation(stream, other, "0123456789abcdef", "ann", (lineage, 7)))
    with pytest.raises(PersonNeeded, match="is not finished"):
        asked(project, verb)


@pytest.mark.parametrize("verb", FORMS)
def test_one_of_the_same_kind_is_gone_on_with(project: Project, stream: StreamHome, verb: str) -> None:
    savepoint = "monday" if verb == "restore" else ""
    record = new_operation(stream, verb, "0123456789abcdef", "ann", (start_lineage(stream), 7), savepoint=savepoint)
    write_operation(stream, record)
    assert asked(project, verb) == "plan"
