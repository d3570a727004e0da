"""The operator between Airflow and the supervisor: what it hands over, what it hears, how it fails."""

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import TaskDeferred
from airflow.sdk.execution_time import task_runner

from sessionizer.causes.table import CAUSES
from sessionizer.control.records.driver_records import Heartbeat, Phase
from sessionizer.control.records.process_records import EXIT_FILE, stop_requested
from sessionizer.control.records.supervision_records import (
    PAUSE_FILE,
    SUPERVISION_FILE,
    WATCH_FILE,
    SupervisionRecord,
    WatchRecord,
    note_pause,
)
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.alerting import Alert, AlertKind
from sessionizer_airflow.errors import PersonNeeded
from sessionizer_airflow.launching.local import LocalLauncher, end_process
from sessionizer_airflow.operators import supervise_stream as operators
from sessionizer_airflow.operators.supervise_stream import SuperviseStream
from sessionizer_airflow.project import Project
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from support.expected.driver_statuses import launched
from support.fixtures.supervisor import behave, scripted_command
from support.processes.ports import eventually
from support.stores.metrics_collector import SENDER, airflow_over_otlp, metrics_collector


@pytest.fixture
def operator(home: StreamHome, alerts: list[Alert], monkeypatch: pytest.MonkeyPatch) -> SuperviseStream:
    monkeypatch.setattr(operators, "notify", lambda alert, _: alerts.append(alert))
    platform = home.root.parents[1]
    return SuperviseStream(
        task_id="supervise",
        stream="clicks",
        project=Project(application=Path("main.py"), streams=platform, jars=platform, home=platform),
        policy=SupervisionPolicy(first_backoff_ms=100),
        watch_lease_ms=60_000,
        launcher=LocalLauncher(scripted_command),
    )


def context(try_number: int = 1, max_tries: int = 240, clears: int = 0) -> Any:
    task = SimpleNamespace(
        dag_id="clicks.supervise",
        task_id="supervise",
        run_id="now",
        map_index=-1,
        try_number=try_number,
        max_tries=max_tries,
    )
    return {"ti": task, "dag_run": SimpleNamespace(clear_number=clears)}


def deferral(operator: SuperviseStream, given: Any) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(given)
    return deferred.value


def test_what_the_stream_is_at_is_the_label_of_the_task(operator: SuperviseStream, home: StreamHome) -> None:
    """Airflow renders it when the task leaves its worker, and also before our code has run."""
    template = DAG("clicks.supervise", schedule=None).get_template_env().from_string(str(operator.map_index_template))
    given = context()
    behave(home, "mute")  # another driver may work before its label is made
    assert template.render(given) == ""
    deferral(operator, given)
    assert template.render(given) == "warning: starting"
    operator.resume(given, {"watch_is_over": True, "line": ""}, watch_until=0)
    assert template.render(given) == "", "a run of the past is at nothing"


def test_an_unpaused_supervisor_is_paused_no_more_for_those_who_look(
    operator: SuperviseStream, home: StreamHome
) -> None:
    """The note of the pause is made every five minutes."""
    home.prepare()
    note_pause(home, paused=True)
    deferral(operator, context())
    noted = PAUSE_FILE.of(home).read()
    assert noted is not None
    assert not noted.paused


def test_the_label_is_told_before_the_task_defers(
    operator: SuperviseStream, home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow renders no template of a task that defers."""
    behave(home, "mute")
    told: list[str] = []
    supervisor = SimpleNamespace(send=lambda msg: told.append(msg.rendered_map_index))
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", supervisor, raising=False)
    handed = deferral(operator, context())
    assert told == ["warning: starting"]
    operator.resume(context(), {"watch_is_over": True, "line": ""}, **(handed.kwargs or {}))
    assert told == ["warning: starting"], "Airflow takes no empty one"


def test_a_watch_is_handed_to_the_trigger_and_back(operator: SuperviseStream, home: StreamHome) -> None:
    handed = deferral(operator, context())
    assert handed.method_name == "resume"
    assert handed.kwargs is not None
    uid = launched(home).uid
    with pytest.raises(TaskDeferred):
        operator.resume(context(), {"watch_is_over": False, "line": ""}, **handed.kwargs)
    assert launched(home).uid == uid
    assert operator.resume(context(), {"watch_is_over": True, "line": "working"}, **handed.kwargs) == "working"
    watch = WATCH_FILE.of(home).read()
    assert watch is not None
    known = WatchRecord(run_id="now", try_number=1, max_tries=240, ended=True)
    assert replace(watch, until=0, streams=None) == known
    assert watch.streams == str(operator.project.streams)
    assert watch.until <= epoch_ms(), "a watch that is over is over now"


def test_the_end_of_a_try_does_not_end_the_watch_of_a_later_one(operator: SuperviseStream, home: StreamHome) -> None:
    """Airflow took the first worker for dead, and tried again before it came to its end."""
    handed = deferral(operator, context())
    later = WatchRecord(run_id="now", try_number=2)
    WATCH_FILE.of(home).write(later)
    operator.resume(context(), {"watch_is_over": True, "line": ""}, **(handed.kwargs or {}))
    assert WATCH_FILE.of(home).read() == later


def test_what_the_trigger_fires_is_enough_to_watch_on(operator: SuperviseStream, home: StreamHome) -> None:
    """`airflow dags test` drops the arguments of a deferral, and hands on the event alone."""
    handed = deferral(operator, context())
    uid = launched(home).uid
    event = {**asyncio.run(anext_event(handed.trigger)), "watch_is_over": False}
    with pytest.raises(TaskDeferred) as again:
        operator.resume(context(), event)
    assert again.value.kwargs is not None
    assert handed.kwargs is not None
    assert again.value.kwargs["watch_until"] == handed.kwargs["watch_until"]
    assert launched(home).uid == uid
    unwritten = SupervisionRecord(failures=2, last_failure="the disk was full")
    over = {**event, "watch_is_over": True, "line": "working", "unwritten": unwritten.to_json()}
    assert operator.resume(context(), over) == "working"
    assert SUPERVISION_FILE.of(home).read() == unwritten, "there was room again"


async def anext_event(trigger: Any) -> dict[str, Any]:
    """The first that it fires."""
    return {**(await anext(trigger.run())).payload}


@pytest.mark.parametrize(
    ("second", "stopped"),
    [
        # the worker of the first try was thought dead, so Airflow tries again
        (context(try_number=2), False),
        # a person cleared the task
        (context(try_number=2, clears=1), True),
        (context(try_number=2, max_tries=241), True),
    ],
)
def test_a_retry_adopts_the_driver_and_a_clear_starts_another(
    second: Any, stopped: bool, operator: SuperviseStream, home: StreamHome
) -> None:
    deferral(operator, context())
    uid = launched(home).uid
    operator._begun = False
    deferral(operator, second)
    assert stop_requested(home, uid) is stopped


def test_what_nobody_foresaw_is_tried_again_and_told_when_no_try_is_left(
    operator: SuperviseStream, alerts: list[Alert], monkeypatch: pytest.MonkeyPatch
) -> None:
    def surprise(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(type(operator._supervisor), "_step", surprise)
    with pytest.raises(ZeroDivisionError):
        operator.execute(context(try_number=240))
    assert alerts == []
    with pytest.raises(ZeroDivisionError):
        operator.execute(context(try_number=241))
    (alert,) = alerts
    assert alert.kind is AlertKind.GAVE_UP
    assert alert.reason.endswith("ZeroDivisionError: a bug")


def test_a_terminal_end_is_told_and_not_tried_again(
    operator: SuperviseStream, home: StreamHome, alerts: list[Alert]
) -> None:
    home.prepare()
    (home.root.parents[1] / "behaviour").write_text("refuse")
    deferral(operator, context())
    eventually(lambda: EXIT_FILE.of(home, launched(home).uid).read())
    process = launched(home).process
    assert process is not None
    end_process(process)
    with pytest.raises(PersonNeeded, match="names a column"):
        operator.execute(context())
    assert [alert.kind for alert in alerts] == [AlertKind.GAVE_UP]


def test_a_home_that_cannot_be_made_is_told(operator: SuperviseStream, home: StreamHome, alerts: list[Alert]) -> None:
    home.root.parent.mkdir(parents=True)
    home.root.write_text("a file, where the stream's folder belongs")
    with pytest.raises(PersonNeeded, match="cannot write"):
        operator.execute(context())
    assert [alert.kind for alert in alerts] == [AlertKind.GAVE_UP]
    assert CAUSES["UnwritablePath"].remedy in alerts[0].what_to_do


BEAT = Heartbeat(
    uid="a", at=1500, started_at=1, phase=Phase.RUNNING, lineage="one", batch_ms=560, state_bytes=4096, sessions_rows=7
)


def test_gauges_arrive_at_a_collector_with_their_labels() -> None:
    with metrics_collector() as (url, got):
        ended = subprocess.run(
            [sys.executable, "-c", SENDER],
            env=os.environ | airflow_over_otlp(url),
            input=json.dumps(BEAT.to_json()),
            check=False,
            capture_output=True,
            text=True,
        )
        assert ended.returncode == 0, ended.stderr
    of_lineage, of_stream = frozenset({("stream", "clicks"), ("lineage", "one")}), frozenset({("stream", "clicks")})
    assert {key: value for key, value in got.items() if "sessionizer" in key[0]} == {
        ("airflow.sessionizer.heartbeat_timestamp_seconds", of_lineage): 1.5,
        ("airflow.sessionizer.batch_duration_seconds", of_lineage): 0.56,
        ("airflow.sessionizer.state_bytes", of_lineage): 4096,
        ("airflow.sessionizer.sessions_total", of_lineage): 7,
        ("airflow.sessionizer.health", of_stream): 3,
        ("airflow.sessionizer.health_timestamp_seconds", of_stream): 1.5,
    }, ended.stderr
