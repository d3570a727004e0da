"""Building blocks of a user's own DAG, up to where Airflow starts a run or waits."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException, DagRunTriggerException, TaskDeferred

from sessionizer.control.records.supervision_records import (
    APPROVED_UPGRADE,
    SUPERVISION_FILE,
    ListApproval,
    SupervisionRecord,
)
from sessionizer.deployment.running_spec import new_record
from sessionizer.deployment.waiting import find_waiting
from sessionizer.errors import ControlUnreachable, InvalidSpec
from sessionizer.fleet.finding import Finding, HealthWord, Rule, StreamHealth
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.stream_spec.spec_folder import find_stream
from sessionizer_airflow import ChangeStream, SavepointStream, StreamSensor, UpgradeStreams
from sessionizer_airflow.errors import PersonNeeded, say_what_to_do
from sessionizer_airflow.operating import own_dags
from sessionizer_airflow.operating.own_dags import UpgradesDone, WordReached
from sessionizer_airflow.operators.batch_jobs import SparkBatchJob
from support.places import known
from support.processes.fabricated_platform import SPEC, Platform
from support.verbs.asked_restore import RUN, RUN_AFTER

STREAMS = ("clicks", "visits")


class OwnTask:
    """The parts of a task instance that building blocks use, with the values that other tasks returned."""

    dag_id, task_id, map_index = "release_night", "change", -1

    def __init__(self, **kept: Any) -> None:
        self.kept: dict[str, Any] = kept

    def xcom_push(self, key: str, value: Any) -> None:
        self.kept[key] = value

    def xcom_pull(self, task_ids: str, key: str = "", **_of_run: Any) -> Any:
        return self.kept.get(key or task_ids)


def context_of(task: OwnTask, run: str = RUN) -> Any:
    return {"ti": task, "run_id": run, "dag_run": SimpleNamespace(run_after=RUN_AFTER)}


@pytest.fixture(autouse=True)
def waiting(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Streams that run by their files. Returns a function that edits the file of one, so that its upgrade waits."""
    monkeypatch.setenv("SESSIONIZER_HOME", str(platform.home))
    monkeypatch.setenv("SESSIONIZER_STREAMS", str(platform.streams))
    for name in STREAMS:
        home = platform.add_running(name)
        start_lineage(home, spec=new_record(home, find_stream(platform.streams, name)))

    def wait(name: str) -> None:
        platform.add(name, SPEC.format(name=name) + "rules: {gap_timeout: 5 minutes}\n")

    return wait


def approve(platform: Platform, name: str, until: int | None = None) -> None:
    home = StreamHome.of(platform.home, name)
    digest = known(find_waiting(home, find_stream(platform.streams, name))).digest
    until = epoch_ms() + 60_000 if until is None else until
    APPROVED_UPGRADE.of(home).write(ListApproval(digest=digest, by="olga", until=until))


def started(task: ChangeStream | UpgradeStreams, context: Any) -> Any:
    with pytest.raises(DagRunTriggerException) as run:
        task.execute(context)
    assert run.value.wait_for_completion
    assert run.value.deferrable, "it would hold a worker for hours"
    return run.value


def ended(task: ChangeStream | UpgradeStreams, own: OwnTask, state: str = "success") -> Any:
    event = {"run_ids": ["r1"], "r1": state}
    return task.execute_complete(context_of(own), ("trigger", event))


def test_a_change_starts_a_run_of_the_form_that_says_who_asked() -> None:
    task = ChangeStream(task_id="back", stream="clicks", verb="restore", options={"savepoint": "s1"})
    run = started(task, context_of(OwnTask()))
    assert run.trigger_dag_id == "sessionizer.operate"
    assert run.logical_date is None
    why = run.conf.pop("why")
    assert RUN in why
    assert "release_night" in why
    assert run.conf == {"verb": "restore", "stream": "clicks", "savepoint": "s1"}


def test_a_change_asks_the_platform_of_its_team() -> None:
    task = ChangeStream(task_id="back", stream="clicks", verb="rollback", platform="news", why="a bad release")
    run = started(task, context_of(OwnTask()))
    assert (run.trigger_dag_id, run.conf["why"]) == ("news.operate", "a bad release")


@pytest.mark.parametrize(
    ("verb", "options", "field"), [("restor", {}, "verb"), ("rollback", {"accept": "x"}, "options")]
)
def test_an_impossible_change_is_an_error_of_the_dag_file(verb: str, options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        ChangeStream(task_id="back", stream="clicks", verb=verb, options=options)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("stream", "verb", "named"),
    [("nope", "rollback", "nope"), ("../clicks", "rollback", "stream"), ("clicks", "restore", "savepoint")],
)
def test_a_change_that_cannot_be_asked_for_starts_no_run(stream: str, verb: str, named: str) -> None:
    with pytest.raises(PersonNeeded) as failed:
        ChangeStream(task_id="back", stream=stream, verb=verb).execute(context_of(OwnTask()))
    assert named in failed.value.reason


def test_an_upgrade_that_does_not_wait_asks_nobody(waiting: Callable[[str], None]) -> None:
    assert ChangeStream(task_id="up", stream="clicks").execute(context_of(OwnTask())) == own_dags.NOTHING_WAITS
    options = {"new_lineage": True}
    started(ChangeStream(task_id="up", stream="clicks", options=options), context_of(OwnTask()))
    waiting("clicks")
    started(ChangeStream(task_id="up", stream="clicks"), context_of(OwnTask()))


def test_what_follows_a_change_runs_only_if_it_was_carried_out() -> None:
    task = ChangeStream(task_id="back", stream="clicks", verb="rollback")
    assert ended(task, OwnTask(carry_out="done")) == "done"
    with pytest.raises(AirflowSkipException):
        ended(task, OwnTask())
    with pytest.raises(PersonNeeded) as failed:
        ended(task, OwnTask(), "failed")
    assert "r1" in failed.value.reason
    assert failed.value.remedy


def test_failures_say_what_to_do_after_the_callbacks_of_the_dag() -> None:
    def own(_context: Any) -> None: ...

    kinds = (
        lambda: ChangeStream(task_id="a", stream="clicks", on_failure_callback=own),
        lambda: UpgradeStreams(task_id="a", on_failure_callback=own),
        lambda: SavepointStream(task_id="a", stream="clicks", on_failure_callback=own),
        lambda: StreamSensor(task_id="a", stream="clicks", on_failure_callback=own),
    )
    for make in kinds:
        assert make().on_failure_callback == [own, say_what_to_do]


def test_each_try_of_a_task_makes_the_same_savepoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkBatchJob, "execute", lambda _self, _context: None)
    made = []
    for run, stream, index in ((RUN, "clicks", 0), (RUN, "clicks", 0), (RUN, "visits", 1), ("another", "clicks", 0)):
        task, own = SavepointStream(task_id="save", stream=stream), OwnTask()
        own.map_index = index
        made.append(task.execute(context_of(own, run)))
        given = task.application_args or []
        assert {made[-1], stream} <= {*given}
        assert any("release_night" in str(each) for each in given)
    assert made[0] == made[1]
    assert len({*made}) == 3


def test_a_list_of_upgrades_is_asked_about_once(waiting: Callable[[str], None]) -> None:
    task, own = UpgradeStreams(task_id="up", streams=STREAMS), OwnTask()
    assert task.execute(context_of(own)) == "done"
    waiting("visits")
    run = started(task, context_of(own))
    assert (run.trigger_dag_id, run.conf) == ("sessionizer.upgrade_all", {"streams": ["visits"]})


def test_a_list_names_no_stream_that_there_is_not(waiting: Callable[[str], None]) -> None:
    with pytest.raises(PersonNeeded, match="nope"):
        UpgradeStreams(task_id="up", streams=["nope"]).execute(context_of(OwnTask()))


def test_a_rejected_list_skips_what_follows_and_an_approved_one_waits(
    platform: Platform, waiting: Callable[[str], None]
) -> None:
    task, own = UpgradeStreams(task_id="up", streams=STREAMS), OwnTask(listed=[*STREAMS])
    for name in STREAMS:
        waiting(name)
    with pytest.raises(AirflowSkipException):
        ended(task, own)
    approve(platform, "clicks")
    with pytest.raises(TaskDeferred) as waits:
        ended(task, own)
    _, kept = waits.value.trigger.serialize()
    assert kept == {"streams": [*STREAMS]}


def test_upgrades_are_over_when_none_runs_or_may_begin(
    platform: Platform, waiting: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger, home = UpgradesDone(streams=["clicks"]), StreamHome.of(platform.home, "clicks")
    for name in STREAMS:
        waiting(name)
    approve(platform, "clicks")
    assert trigger.look() is None
    approve(platform, "clicks", until=0)
    assert trigger.look() == {}, "its approval is over"
    platform.add("clicks")
    assert trigger.look() is None, "no driver works yet"
    SUPERVISION_FILE.of(home).write(SupervisionRecord(given_up=True))
    assert [*known(trigger.look())] == ["clicks"]
    SUPERVISION_FILE.of(home).write(SupervisionRecord())
    platform.drive("clicks", batch_id=1)
    assert trigger.look() == {}

    def unreachable(_home: StreamHome) -> None:
        raise ControlUnreachable("control", "no answer")

    monkeypatch.setattr(own_dags, "pending_operation", unreachable)
    assert trigger.look() is None


def test_an_upgrade_that_failed_or_still_waits_fails_the_task(waiting: Callable[[str], None]) -> None:
    task = UpgradeStreams(task_id="up", streams=STREAMS)
    assert task.finish(context_of(OwnTask()), {}) == "done"
    waiting("visits")
    with pytest.raises(PersonNeeded) as failed:
        task.finish(context_of(OwnTask()), {"clicks": "broken"})
    assert all(name in failed.value.reason for name in STREAMS)


def be(monkeypatch: pytest.MonkeyPatch, *words: HealthWord) -> None:
    """Have the stream's health be each of ``words`` in turn, and then the last one."""
    left = list(words)

    def health(*_args: Any) -> StreamHealth:
        word = left.pop(0) if len(left) > 1 else left[0]
        return StreamHealth((Finding(Rule.STARTING, word, "it is"),))

    monkeypatch.setattr(own_dags, "health_now", health)


def test_a_sensor_is_done_at_once_if_the_word_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    be(monkeypatch, HealthWord.WARNING)
    task = StreamSensor(task_id="wait", stream="clicks", words=["healthy", "warning"])
    assert task.execute(context_of(OwnTask())) == "warning"


def test_a_sensor_waits_without_a_worker_for_the_word(monkeypatch: pytest.MonkeyPatch) -> None:
    be(monkeypatch, HealthWord.DOWN, HealthWord.DOWN, HealthWord.HEALTHY)
    monkeypatch.setattr(own_dags, "POLL_SECONDS", 0)
    with pytest.raises(TaskDeferred) as waits:
        StreamSensor(task_id="wait", stream="clicks", timeout=60).execute(context_of(OwnTask()))
    assert known(waits.value.timeout).total_seconds() == 60
    path, kept = waits.value.trigger.serialize()
    assert path == f"{WordReached.__module__}.{WordReached.__qualname__}"

    async def fire() -> Any:
        return (await anext(WordReached(**kept).run())).payload

    assert asyncio.run(fire()) == "healthy"


def test_a_sensor_waits_for_no_word_or_stream_that_there_is_not() -> None:
    with pytest.raises(InvalidSpec):
        StreamSensor(task_id="wait", stream="clicks", words=["fine"])
    with pytest.raises(PersonNeeded, match="nope"):
        StreamSensor(task_id="wait", stream="nope").execute(context_of(OwnTask()))
