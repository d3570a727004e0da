"""Erasures that a table of requests asks for: which streams are due, and one approval of their plans."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowSkipException, TaskAwaitingInput
from deltalake import write_deltalake

from sessionizer.control.records.operation_record import IN_AIRFLOW, OperationStage, keep_plan, require_request
from sessionizer.errors import InvalidSpec
from sessionizer.home.clock import DAY, HOUR
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import activate_lineage
from sessionizer.lineage.kept_spec import LineageSpec, write_lineage_spec
from sessionizer_airflow.errors import PersonNeeded
from sessionizer_airflow.operating.approval import ApprovalSettings
from sessionizer_airflow.operating.erasures import ApproveErasures, ErasureSettings, forms_of_erasures
from sessionizer_airflow.project import Project
from support.fixtures.reviewed import Reviewed
from support.places import opened
from support.verbs.asked_restore import PLAN, answer_of, context, park_approvals

APPROVAL = ApprovalSettings.from_environment({})
NOW = datetime(2026, 11, 29, tzinfo=UTC)
LINEAGE = "20261123T080000-abc123"
DONE = pa.map_(pa.string(), pa.timestamp("us", "UTC"))


def settings(place: Path) -> ErasureSettings:
    found = ErasureSettings.from_environment({"SESSIONIZER_ERASE_REQUESTS": str(place)})
    assert found is not None
    return found


def forms(project: Project, table: dict[str, Any]) -> list[dict[str, Any]]:
    place = project.home / "requests"
    write_deltalake(str(place), pa.table(table), mode="overwrite", schema_mode="overwrite")
    return forms_of_erasures(project, ["clicks", "never_ran", "visits"], settings(place), lambda _: None)


@pytest.fixture
def streams(project: Project) -> Project:
    for name in ("clicks", "visits"):
        home = StreamHome.of(project.home, name)
        home.prepare()
        activate_lineage(home, LINEAGE, None)
    return project


def test_a_stream_is_due_as_long_as_it_has_not_erased_someone(streams: Project) -> None:
    done = pa.array([[("clicks", NOW)], [], None], DONE)
    table = {"key": ["a", "b", ""], "stream": pa.array([None, "visits", None], pa.string()), "done": done}
    assert [(each["stream"], each["column"]) for each in forms(streams, table)] == [("visits", "key")]
    nobody = pa.array([[], [], []], DONE)
    found = forms(streams, {**table, "done": nobody})
    assert [each["stream"] for each in found] == ["clicks", "visits"]
    assert {each["keys"] for each in found} == {str(streams.home / "requests")}


def test_clients_follow_when_the_keys_are_done(streams: Project) -> None:
    done = pa.array([[("clicks", NOW)], [("visits", NOW)]], DONE)
    table = {"key": pa.array(["a", None]), "client": pa.array([None, "c"]), "done": done}
    assert [(each["stream"], each["column"]) for each in forms(streams, table)] == [
        ("clicks", "client"),
        ("visits", "key"),
    ]


def test_a_column_of_the_payload_is_asked_of_the_streams_that_have_it(streams: Project) -> None:
    spec = LineageSpec({"mapping": {"payload": {"email": "email", "stream": "stream"}}})
    visits = streams.home_of("visits")
    opened(visits.lineage(LINEAGE).records).mkdir(parents=True)
    write_lineage_spec(visits, LINEAGE, spec)
    table = {"email": ["a@b"], "page": ["/"], "stream": pa.array([None], pa.string()), "done": pa.array([None], DONE)}
    assert [(each["stream"], each["column"]) for each in forms(streams, table)] == [("visits", "email")]
    assert forms(streams, {**table, "done": pa.array([[("visits", NOW)]], DONE)}) == []
    beside_a_key = forms(streams, {**table, "key": ["a"]})
    assert {each["column"] for each in beside_a_key} == {"key"}
    write_lineage_spec(visits, LINEAGE, LineageSpec({"mapping": {"payload": {"email": "email", "page": "page"}}}))
    with pytest.raises(PersonNeeded):
        forms(streams, table)  # by which of the two is not said


@pytest.mark.parametrize("table", [{"key": ["a"]}, {"person": ["a"], "done": pa.array([None], DONE)}])
def test_a_table_of_another_shape_is_refused(streams: Project, table: dict[str, Any]) -> None:
    with pytest.raises(PersonNeeded):
        forms(streams, table)


def test_a_place_without_a_table_is_refused(streams: Project) -> None:
    with pytest.raises(PersonNeeded):
        forms_of_erasures(streams, ["clicks"], settings(streams.home / "nothing"), lambda _: None)


def test_the_settings_name_an_absolute_place() -> None:
    assert ErasureSettings.from_environment({}) is None
    with pytest.raises(InvalidSpec) as refused:
        ErasureSettings.from_environment({"SESSIONIZER_ERASE_REQUESTS": "requests"})
    assert refused.value.field == "SESSIONIZER_ERASE_REQUESTS"
    assert settings(Path("/requests")).patience(APPROVAL).patience_ms == DAY - HOUR


def test_one_answer_approves_each_plan_that_can_be_carried_out(
    streams: Project, monkeypatch: pytest.MonkeyPatch, reviewed: Reviewed
) -> None:
    park_approvals(monkeypatch)
    asked = [{"stream": name} for name in ("clicks", "failed", "nobody", "visits")]
    for name, possible in (("clicks", True), ("nobody", False), ("visits", True)):
        text = f"stream {name} erases 2 keys\n  sessions: 3 rows are deleted"
        keep_plan(StreamHome.of(streams.home, name), replace(PLAN, stream=name, possible=possible, text=text))
    task = ApproveErasures(task_id="approve", project=streams, settings=APPROVAL, forms=asked)
    shown = context({})
    shown["ti"].xcom_pull = lambda task_ids, key: shown["ti"].kept[key]
    with pytest.raises(TaskAwaitingInput):
        task.execute(shown)
    late = replace(PLAN, stream="failed", digest="fedcba9876543210")
    keep_plan(StreamHome.of(streams.home, "failed"), late)
    reviewed(f"{task.subject}\n{task.body}")
    monkeypatch.undo()
    answer = answer_of({"id": "7", "name": "alice"})
    assert task.execute_complete(shown, answer) == [{"stream": "clicks"}, {"stream": "visits"}]
    for name in ("clicks", "visits"):
        approved = require_request(StreamHome.of(streams.home, name), PLAN.id)
        assert (approved.step, approved.by) == (OperationStage.APPROVED, f"alice{IN_AIRFLOW}")

    refused = ApproveErasures(task_id="approve", project=streams, settings=APPROVAL, forms=asked[2:3])
    with pytest.raises(AirflowSkipException):
        refused.execute(context({}))
