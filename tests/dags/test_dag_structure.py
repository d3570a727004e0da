"""House rules, asserted over all DAGs."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG, Asset, AssetAll, TriggerRule
from airflow.sdk.definitions.mappedoperator import MappedOperator
from airflow.utils.types import DagRunType

from sessionizer_airflow.assets import SessionsLanded
from sessionizer_airflow.errors import PersonNeeded, say_what_to_do
from sessionizer_airflow.operating.approval import ApprovePlan, ApproveUpgrades
from sessionizer_airflow.operating.jobs import REWRITTEN
from sessionizer_airflow.operating.request import purposes
from sessionizer_airflow.operating.results import TEMPLATE
from sessionizer_airflow.operators.supervise_stream import SuperviseStream
from support.places import REPOSITORY
from support.processes.fabricated_platform import SHORT_SPEC
from support.streams.spec_folder import load_streams

STREAMS = REPOSITORY / "dags" / "streams"
DAG_FILE = REPOSITORY / "dags" / "streams.py"
FORMS = ("sessionizer.operate", "sessionizer.upgrade")
NEEDED = {(form, field) for form in FORMS for field in ("verb", "stream")}
VERBS = {"supervise", "report", "stop", "start"}
OF_THE_PLATFORM = {
    "sessionizer.orphans",
    "sessionizer.savepoints",
    "sessionizer.compaction",
    "sessionizer.maintenance",
    "sessionizer.upgrade_all",
    "sessionizer.erase",
    *FORMS,
}


@pytest.fixture(scope="session")
def dags(dag_bag: DagBag) -> dict[str, DAG]:
    assert dag_bag.import_errors == {}
    return dict(dag_bag.dags)


def test_every_stream_has_every_dag(dags: dict[str, DAG]) -> None:
    of_streams = {f"{stream}.{verb}" for stream in load_streams(STREAMS) for verb in VERBS}
    assert set(dags) == of_streams | OF_THE_PLATFORM


def test_every_dag_says_what_it_is(dags: dict[str, DAG]) -> None:
    for dag_id, dag in dags.items():
        assert len(dag.doc_md or "") > 80, dag_id
        assert dag.description, dag_id
        assert {"sessionizer", dag_id.split(".")[1]} <= set(dag.tags), dag_id
        assert dag_id in OF_THE_PLATFORM or f"stream:{dag_id.split('.')[0]}" in dag.tags, dag_id
        assert "{" not in (dag.doc_md or ""), f"{dag_id}: a place-holder was left"


def test_a_mapped_task_can_be_made_of_its_arguments(dags: dict[str, DAG]) -> None:
    form = {"verb": "erase", "stream": "clicks", "keys": "/data/requests", "column": "key"}
    made = {}
    for name in ("plan", "carry_out"):
        task = dags["sessionizer.erase"].get_task(name)
        assert isinstance(task, MappedOperator)
        assert task.map_index_template == TEMPLATE  # Airflow does not ask the class
        made[name] = task.unmap({"form": form})
        assert vars(made[name])["form"] == form
    assert made["carry_out"].outlets == [REWRITTEN]


def test_every_task_has_the_owner_of_its_stream(dags: dict[str, DAG]) -> None:
    owners = {name: spec.owner for name, spec in load_streams(STREAMS).items()} | {"sessionizer": "sessionizer"}
    for dag_id, dag in dags.items():
        assert {task.owner for task in dag.tasks} == {owners[dag_id.split(".")[0]]}, dag_id


def test_nothing_may_run_for_ever_or_twice(dags: dict[str, DAG]) -> None:
    for dag_id, dag in dags.items():
        # a plan of one stream that waits for its approval keeps nobody from another stream
        assert dag.max_active_runs == (16 if dag_id in FORMS else 1), dag_id
        assert dag.dagrun_timeout is not None, dag_id
        assert not dag.catchup, dag_id
        assert all(task.execution_timeout is not None for task in dag.tasks), dag_id
        longest = max(task.execution_timeout or timedelta() for task in dag.tasks)
        assert longest <= dag.dagrun_timeout, dag_id


def test_a_run_of_the_supervisor_outlasts_its_watch(dags: dict[str, DAG]) -> None:
    for dag_id, dag in dags.items():
        for task in dag.tasks:
            if isinstance(task, SuperviseStream):
                assert dag.dagrun_timeout is not None
                assert dag.dagrun_timeout > timedelta(milliseconds=task.watch_lease_ms), dag_id
                assert dag.max_consecutive_failed_dag_runs == 1, dag_id
                assert task.policy.stale_limit_ms >= 4 * load_streams(STREAMS)[task.stream].trigger_interval_ms, dag_id


def test_a_watch_that_outlives_itself_is_told(dags: dict[str, DAG]) -> None:
    for stream in load_streams(STREAMS):
        dag = dags[f"{stream}.supervise"]
        assert isinstance(dag.deadline, list)
        (deadline,) = dag.deadline
        (watch,) = dag.tasks
        assert isinstance(watch, SuperviseStream)
        assert isinstance(deadline.interval, timedelta)
        assert dag.dagrun_timeout is not None
        assert timedelta(milliseconds=watch.watch_lease_ms) < deadline.interval < dag.dagrun_timeout
        assert deadline.callback.kwargs["stream"] == stream


def test_reports_wait_for_the_sessions_of_their_own_stream(dags: dict[str, DAG]) -> None:
    for stream in load_streams(STREAMS):
        condition = dags[f"{stream}.report"].timetable.asset_condition
        assert isinstance(condition, AssetAll)
        assets = [asset for asset in condition.objects if isinstance(asset, Asset)]
        assert [asset.name for asset in assets] == [f"{stream}.sessions", f"{stream}.report_due"]
        landed, due = [watcher.trigger for asset in assets for watcher in asset.watchers]
        assert isinstance(landed, SessionsLanded)
        assert isinstance(due, SessionsLanded)
        assert landed.stream == due.stream == stream
        assert landed.interval < due.interval, "a report starts a JVM: not for each landing"


def test_a_watch_outlasts_an_outage_of_airflow_itself(dags: dict[str, DAG]) -> None:
    for task in (task for dag in dags.values() for task in dag.tasks if isinstance(task, SuperviseStream)):
        longest = task.max_retry_delay
        assert isinstance(longest, timedelta)
        assert longest <= timedelta(minutes=1), "it is not noticed for so long that a driver is dead"
        assert (task.retries or 0) * longest >= timedelta(hours=4)


def test_what_a_person_steers_with_acts_at_once_and_for_nobody_else(dags: dict[str, DAG]) -> None:
    for stream in load_streams(STREAMS):
        for verb in ("stop", "start"):
            dag = dags[f"{stream}.{verb}"]
            assert dag.is_paused_upon_creation is False, dag.dag_id
            assert set(dag.allowed_run_types or ()) == {DagRunType.MANUAL}, dag.dag_id
    by_a_user_or_their_dag = {DagRunType.MANUAL, DagRunType.OPERATOR_TRIGGERED}
    for form in FORMS:
        assert set(dags[form].allowed_run_types or ()) == by_a_user_or_their_dag


@pytest.mark.parametrize("form", FORMS)
def test_a_plan_is_carried_out_only_once_it_was_approved(dags: dict[str, DAG], form: str) -> None:
    operate = dags[form]
    assert operate.get_task("carry_out").upstream_task_ids == {"approve"}
    assert operate.get_task("approve").upstream_task_ids == {"plan"}
    approve = operate.get_task("approve")
    assert isinstance(approve, ApprovePlan)
    assert approve.defaults == [approve.REJECT], "no answer would be a yes"
    assert approve.response_timeout is not None
    assert operate.dagrun_timeout is not None
    assert approve.response_timeout < operate.dagrun_timeout
    assert {task.trigger_rule for task in operate.tasks} == {TriggerRule.ALL_SUCCESS}


def test_the_form_offers_every_stream_and_asks_for_a_verb_and_a_stream(dags: dict[str, DAG]) -> None:
    form = dags["sessionizer.operate"].params
    assert form.get_param("stream").schema["enum"] == sorted(load_streams(STREAMS))
    assert form.get_param("verb").schema["enum"] == [*purposes()]
    assert not any(form.get_param(name).has_value for name in ("verb", "stream")), "nobody would choose"


def test_the_form_of_an_upgrade_asks_for_nothing_but_an_upgrade(dags: dict[str, DAG]) -> None:
    form = dags["sessionizer.upgrade"].params
    assert form.get_param("verb").schema["const"] == form["verb"] == "upgrade"
    assert {"stream", "why", "accept", "new_lineage", "key_groups", "canary", "roll_back_if_failed"} <= set(form)
    assert not {"savepoint", "with_file", "history"} & set(form)


def test_a_window_starts_runs_of_the_form_and_no_other(dags: dict[str, DAG]) -> None:
    begin = dags["sessionizer.maintenance"].get_task("begin")
    assert isinstance(begin, MappedOperator)
    assert begin.partial_kwargs["trigger_dag_id"] == "sessionizer.upgrade"
    assert begin.partial_kwargs["skip_when_already_exists"] is True


def test_an_approved_list_is_begun_by_the_dag_that_sets_the_pace(dags: dict[str, DAG]) -> None:
    approve = dags["sessionizer.upgrade_all"].get_task("approve")
    assert isinstance(approve, ApproveUpgrades)
    assert approve.downstream_task_ids == {"begin"}
    assert dags["sessionizer.upgrade_all"].get_task("begin").trigger_dag_id == "sessionizer.maintenance"  # type: ignore[union-attr]


def test_no_form_asks_for_what_may_be_left_out(dags: dict[str, DAG]) -> None:
    """Airflow's form takes a field for required unless its types allow null; a switch always has a value."""
    for dag_id, dag in dags.items():
        for name in dag.params:
            kind = dag.params.get_param(name).schema["type"]
            assert kind == "boolean" or "null" in kind or (dag_id, name) in NEEDED, f"{dag_id}: {name}"


@pytest.mark.parametrize("unknown", ["aply", "stream_name"])
def test_every_dag_refuses_a_field_that_it_does_not_have(dags: dict[str, DAG], unknown: str) -> None:
    """Airflow checks the value of a declared field, and passes any other on: a misspelt one would do nothing."""
    for dag in dags.values():
        for task in dag.tasks:
            ask = task.partial_kwargs["pre_execute"] if isinstance(task, MappedOperator) else task._pre_execute_hook
            assert ask is not None
            run = SimpleNamespace(conf={**dict.fromkeys(dag.params), "openlineage": {}})
            ask({"dag": dag, "dag_run": run})
            run.conf[unknown] = True
            with pytest.raises(PersonNeeded) as refused:
                ask({"dag": dag, "dag_run": run})
            assert unknown in refused.value.reason
            assert all(name in refused.value.reason for name in dag.params)


def test_every_task_that_fails_says_what_to_do_last(dags: dict[str, DAG]) -> None:
    for task in (task for dag in dags.values() for task in dag.tasks):
        assert isinstance(task.on_failure_callback, list), task.task_id
        assert task.on_failure_callback[-1] is say_what_to_do, task.task_id


def test_supervision_is_run_by_its_schedule_alone(dags: dict[str, DAG]) -> None:
    for stream in load_streams(STREAMS):
        assert set(dags[f"{stream}.supervise"].allowed_run_types or ()) == {DagRunType.SCHEDULED}


def test_who_watches_over_all_streams_is_awake_at_once(dags: dict[str, DAG]) -> None:
    for dag_id in OF_THE_PLATFORM:
        assert dags[dag_id].is_paused_upon_creation is False


def test_no_task_waits_for_a_pool_that_an_installation_has_not_named(dags: dict[str, DAG]) -> None:
    """Airflow leaves a task queued for ever whose pool does not exist."""
    assert {task.pool for dag in dags.values() for task in dag.tasks} == {"default_pool"}


def test_jobs_go_into_the_pools_that_an_installation_names(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who waits for a command does not wait for the reports of all streams."""
    monkeypatch.setenv("SESSIONIZER_JARS", str(jars))
    monkeypatch.setenv("SESSIONIZER_HOME", "/platform")
    monkeypatch.setenv("SESSIONIZER_REPORT_POOL", "reports")
    monkeypatch.setenv("SESSIONIZER_COMMAND_POOL", "commands")
    dags = DagBag(str(DAG_FILE)).dags
    assert {task.pool for name, dag in dags.items() if name.endswith(".report") for task in dag.tasks} == {"reports"}
    assert dags["sessionizer.savepoints"].get_task("create").pool == "reports"
    of_forms = {task.task_id: task.pool for form in FORMS for task in dags[form].tasks}
    assert {name for name, pool in of_forms.items() if pool == "commands"} == {"plan", "savepoint", "carry_out"}


@pytest.mark.parametrize(("verb", "often"), [("savepoints", timedelta(minutes=5)), ("compaction", timedelta(hours=1))])
def test_scheduled_work_is_looked_for_as_soon_as_a_spec_asks(
    jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, often: timedelta
) -> None:
    monkeypatch.setenv("SESSIONIZER_JARS", str(jars))
    monkeypatch.setenv("SESSIONIZER_HOME", "/platform")
    monkeypatch.setenv("SESSIONIZER_STREAMS", str(tmp_path))
    spec = (STREAMS / "clicks.yaml").read_text()
    for asked, schedule in (("", None), (f"{verb}: {{every: 1 hour}}", often)):
        (tmp_path / "clicks.yaml").write_text(f"{spec}\n{asked}\n")
        assert DagBag(str(DAG_FILE)).dags[f"sessionizer.{verb}"].schedule == schedule


def test_the_documentation_names_no_task_that_is_not_there(dags: dict[str, DAG]) -> None:
    tasks = {task.task_id for dag in dags.values() for task in dag.tasks}
    named = {
        (page.name, task)
        for page in (REPOSITORY / "docs").glob("*.md")
        for task in re.findall(r"\btask `(\w+)`", page.read_text())
    }
    assert len(named) >= 4
    assert {(page, task) for page, task in named if task not in tasks} == set()


def test_the_example_of_a_users_own_dag_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESSIONIZER_HOME", "/platform")
    bag = DagBag(str(REPOSITORY / "examples" / "dags"))
    assert bag.import_errors == {}
    (dag,) = bag.dags.values()
    order = ["save", "upgrade", "wait_until_healthy", "report"]
    assert {task.task_id: task.downstream_task_ids for task in dag.tasks} == {
        task: {*order[number + 1 : number + 2]} for number, task in enumerate(order)
    }
    lines = Path(dag.fileloc).read_text().partition("\n\n")[2]
    assert lines in (REPOSITORY / "docs" / "airflow.md").read_text(), "the page shows another DAG"


CALL = "from sessionizer_airflow import stream_dags\nstream_dags(globals(), 'streams'{more})\n"
SPEC = SHORT_SPEC + "owner: {name}\n"
PLATFORM = {"operate", "upgrade", "upgrade_all", "maintenance", "savepoints", "compaction", "orphans"}
OF_A_STREAM = {"supervise", "report", "stop", "start"}


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A DAG bundle with a stream of the team's name."""
    monkeypatch.setenv("SESSIONIZER_HOME", "/platform")

    def make(name: str, more: str = "") -> Path:
        folder = tmp_path / name
        (folder / "streams").mkdir(parents=True)
        (folder / f"{name}_dags.py").write_text(CALL.format(more=more))
        (folder / "streams" / f"{name}.yaml").write_text(SPEC.format(name=name))
        return folder

    return make


def dags_of(folder: Path) -> DagBag:
    bag = DagBag(str(folder))
    assert bag.import_errors == {}
    return bag


def test_specs_are_beside_the_dag_file(team: Callable[..., Path]) -> None:
    folder = team("shop")
    bag = dags_of(folder)
    assert set(bag.dags) == {f"shop.{verb}" for verb in OF_A_STREAM} | {f"sessionizer.{verb}" for verb in PLATFORM}
    (watch,) = bag.dags["shop.supervise"].tasks
    assert isinstance(watch, SuperviseStream)
    assert watch.project.streams == folder / "streams"


def test_two_teams_have_no_dag_in_common(team: Callable[..., Path]) -> None:
    shop, news = dags_of(team("shop")), dags_of(team("news", ", platform='news'"))
    assert set(shop.dags) & set(news.dags) == set()
    assert {f"news.{verb}" for verb in PLATFORM} <= set(news.dags)
    assert news.dags["news.operate"].params.get_param("stream").schema["enum"] == ["news"]


def test_the_dags_of_all_streams_may_be_left_out(team: Callable[..., Path]) -> None:
    assert set(dags_of(team("shop", ", platform=None")).dags) == {f"shop.{verb}" for verb in OF_A_STREAM}


def test_a_platform_without_a_name_is_refused(team: Callable[..., Path]) -> None:
    (error,) = DagBag(str(team("shop", ", platform='a b'"))).import_errors.values()
    assert "platform" in error


STREAM_COUNT = 50
DAGS_PER_STREAM = 4
DAGS_OF_THE_PLATFORM = len(PLATFORM)
HEAVY = ("pyspark", "pandas", "numpy", "pyarrow", "delta", "confluent_kafka", "typer")
READS_PER_SPEC = 2
"""One for all DAGs, and one that asks whether a spec is broken."""
PARSE = """
import json, sys
from airflow.dag_processing.dagbag import DagBag

reads = []
sys.addaudithook(lambda event, args: reads.append(args[0]) if event == "open" else None)
bag = DagBag(sys.argv[1])
print(json.dumps({
    "errors": {str(file): str(error) for file, error in bag.import_errors.items()},
    "dags": sorted(bag.dags),
    "modules": sorted({name.partition(".")[0] for name in sys.modules}),
    "spec_reads": sum(str(file).startswith(sys.argv[2]) and str(file).endswith(".yaml") for file in reads),
}))
"""


@pytest.fixture
def many_streams(tmp_path: Path) -> Path:
    for number in range(STREAM_COUNT):
        name = f"stream_{number:02d}"
        (tmp_path / f"{name}.yaml").write_text(SPEC.format(name=name))
    return tmp_path


def parse(streams: Path, home: str = "/platform") -> dict[str, Any]:
    """What a fresh process finds in the DAG folder, over the specs in `streams`."""
    environment = {
        **os.environ,
        "SESSIONIZER_STREAMS": str(streams),
        "SESSIONIZER_HOME": home,
        "PYTHONPATH": f"{REPOSITORY / 'jobs'}:{REPOSITORY / 'plugins'}",
    }
    command = [sys.executable, "-c", PARSE, str(REPOSITORY / "dags"), str(streams)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    found: dict[str, Any] = json.loads(answer.splitlines()[-1])
    return found


def test_many_streams_are_parsed_without_heavy_imports(many_streams: Path) -> None:
    found = parse(many_streams)
    assert found["errors"] == {}
    assert len(found["dags"]) == STREAM_COUNT * DAGS_PER_STREAM + DAGS_OF_THE_PLATFORM
    assert not set(HEAVY) & set(found["modules"])
    assert found["spec_reads"] == STREAM_COUNT * READS_PER_SPEC


def test_a_broken_spec_is_an_import_error_and_the_others_keep_their_dags(tmp_path: Path) -> None:
    for name in ("good", "bad"):
        (tmp_path / f"{name}.yaml").write_text(SPEC.format(name=name))
    bad = tmp_path / "bad.yaml"
    bad.write_text(bad.read_text().replace("key: k", "kee: k"))
    found = parse(tmp_path)
    assert {dag_id.partition(".")[0] for dag_id in found["dags"]} == {"good", "sessionizer"}
    assert len(found["dags"]) == DAGS_PER_STREAM + DAGS_OF_THE_PLATFORM
    ((file, error),) = found["errors"].items()
    assert Path(file).name == "broken_specs.py"
    for fact in (f"{bad}:4", "mapping.kee is 'k'", "Did you mean 'key'"):
        assert fact in error


@pytest.mark.parametrize("home", ["", ".sessionizer"])
def test_without_a_home_no_file_is_imported_and_each_says_why(many_streams: Path, home: str) -> None:
    found = parse(many_streams, home)
    assert found["dags"] == []
    assert {Path(file).name for file in found["errors"]} == {file.name for file in (REPOSITORY / "dags").glob("*.py")}
    for error in found["errors"].values():
        assert "HomeMissing: SESSIONIZER_HOME" in error
