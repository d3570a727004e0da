"""People are told through a real notifier of Airflow, from a worker and from the triggerer."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath

import pytest
import structlog
from airflow.sdk.execution_time.callback_supervisor import execute_callback

from sessionizer.control.history.files import MarkKind, read_marks
from sessionizer.control.records.supervision_records import Desired, DesiredState
from sessionizer.control.status.driver_status import DriverStatus, judge_status
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import stream_homes
from sessionizer_airflow import alerting
from sessionizer_airflow.alerting import (
    Alert,
    AlertKind,
    alert_on_overdue_watch,
    health_now,
    note_alert,
    notify,
    notify_from_triggerer,
    tell_overdue_watch,
    watch_deadline,
)
from support.fixtures.reviewed import Reviewed
from support.processes.fabricated_platform import Platform
from support.processes.file_notifier import told

MADE = datetime(2026, 1, 1, tzinfo=UTC)
ALERT = Alert(
    stream="clicks",
    kind=AlertKind.GAVE_UP,
    reason="it broke",
    what_to_do="mend it",
    lineage="20261121T105501-3f",
    batch_id=7,
)


def tell(where: str, said: list[str]) -> None:
    if where == "worker":
        notify(ALERT, said.append)
    else:
        asyncio.run(notify_from_triggerer(ALERT, said.append))


@pytest.mark.parametrize("where", ["worker", "triggerer"])
def test_the_notifier_is_told_everything(where: str, notified: Path, said: list[str], reviewed: Reviewed) -> None:
    tell(where, said)
    (alert,) = told(notified)
    reviewed(alert.pop("text"))
    assert alert == {
        "stream": "clicks",
        "kind": "gave_up",
        "lineage": "20261121T105501-3f",
        "batch_id": 7,
        "reason": "it broke",
        "what_to_do": "mend it",
    }
    assert said == []


@pytest.mark.parametrize("where", ["worker", "triggerer"])
def test_one_that_can_only_be_awaited(
    where: str, notified: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSIONIZER_NOTIFIER", "support.processes.file_notifier.AsyncFileNotifier")
    tell(where, said)
    assert told(notified) == [{"kind": "gave_up"}]
    assert said == []


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("SESSIONIZER_NOTIFIER", "no.such.Notifier", "SESSIONIZER_NOTIFIER is 'no.such.Notifier'"),
        ("SESSIONIZER_NOTIFIER", "Notifier", "SESSIONIZER_NOTIFIER is 'Notifier'"),
        ("SESSIONIZER_NOTIFIER", "pathlib.Path", "a subclass of airflow.sdk.BaseNotifier"),
        ("SESSIONIZER_NOTIFIER_ARGUMENTS", "path", "a JSON object"),
        ("SESSIONIZER_NOTIFIER_ARGUMENTS", "[]", "a JSON object"),
        ("SESSIONIZER_NOTIFIER_ARGUMENTS", '{"text": "x"}', "TypeError"),
        ("SESSIONIZER_NOTIFIER_ARGUMENTS", '{"path": "/proc/nowhere/x"}', "FileNotFoundError"),
    ],
)
def test_a_notifier_that_fails_is_a_line_in_the_log_and_no_more(
    name: str, value: str, complaint: str, notified: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    tell("worker", said)
    tell("triggerer", said)
    assert len(said) == 2
    assert all(line.startswith("no notification ") and complaint in line for line in said)
    assert told(notified) == []


def test_without_a_notifier_nobody_is_told(said: list[str]) -> None:
    tell("worker", said)
    tell("triggerer", said)
    assert said == []


def test_an_overdue_watch_is_told(notified: Path, tmp_path: Path) -> None:
    run = {"dag_run_id": "the_watch", "state": "running", "queued_at": "2026-01-01T00:00:01Z"}
    context = {"dag_run": run, "deadline": {"deadline_time": MADE + timedelta(seconds=60)}}
    tell_overdue_watch("clicks", str(tmp_path), 60.0, context)
    (alert,) = told(notified)
    assert alert["kind"] == "unwatched"
    assert "the_watch" in alert["reason"]
    assert "NEVER_STARTED" in alert["reason"]
    assert "triggerer" in alert["what_to_do"]
    assert "clicks.supervise" in alert["what_to_do"], "a run of a paused DAG does not end either"


def test_a_run_that_was_cleared_meanwhile_is_not_overdue(notified: Path, tmp_path: Path) -> None:
    run = {"dag_run_id": "now", "state": "running", "queued_at": "2026-01-01T00:00:50Z"}
    context = {"dag_run": run, "deadline": {"deadline_time": MADE + timedelta(seconds=60)}}
    tell_overdue_watch("clicks", str(tmp_path), 60.0, context)
    assert told(notified) == []


def test_airflow_can_call_it_as_the_deadline_has_it(notified: Path, tmp_path: Path) -> None:
    deadline = watch_deadline("clicks", tmp_path, timedelta(hours=1))
    assert deadline.interval == timedelta(hours=1)
    context = {"dag_run": {"dag_run_id": "now", "state": "running"}, "deadline": {"id": "1", "deadline_time": MADE}}
    succeeded, message = execute_callback(
        callback_path=deadline.callback.path,
        callback_kwargs={**deadline.callback.kwargs, "context": context},
        dag_rel_path=PurePath("supervise.py"),
        bundle_path=None,
        log=structlog.get_logger(),
    )
    assert succeeded, message
    assert [alert["kind"] for alert in told(notified)] == ["unwatched"]


@pytest.mark.parametrize(
    ("run", "desired"),
    [("failed", DesiredState.RUNNING), ("success", DesiredState.RUNNING), ("running", DesiredState.STOPPED)],
)
def test_a_run_that_ended_or_a_stream_that_is_stopped_is_no_news(run: str, desired: DesiredState) -> None:
    seen = judge_status(DriverStatus(desired=Desired(desired)), 1)
    assert alert_on_overdue_watch("clicks", {"dag_run_id": "now", "state": run}, seen) is None


ALERT_OF_NOTED_ALERT = Alert(
    stream="clicks", kind=AlertKind.WAITING, reason="password=hunter2 is wrong", what_to_do="mend it", batch_id=7
)


@pytest.fixture
def _airflow(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESSIONIZER_HOME", str(platform.home))
    monkeypatch.setenv("SESSIONIZER_STREAMS", str(platform.streams))


@pytest.mark.usefixtures("_airflow")
def test_it_is_a_mark_without_credentials(platform: Platform) -> None:
    home = platform.add("clicks")
    platform.drive("clicks", batch_id=7)
    noted = note_alert(ALERT_OF_NOTED_ALERT)
    (mark,) = read_marks(home, 0, epoch_ms() + 1)
    assert (mark.kind, mark.what, mark.batch_id) == (MarkKind.ALERT, "waiting", 7)
    assert "hunter2" not in mark.text
    assert "mend it" in mark.text
    assert noted.context()["health"] == "healthy"


def test_a_fault_of_ours_in_judging_a_stream_ends_no_watch(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    platform.add("clicks")
    assert health_now(platform.home, platform.streams, "clicks") is not None
    monkeypatch.setattr(alerting, "find_view", lambda *_: None.health)  # type: ignore[attr-defined]
    assert health_now(platform.home, platform.streams, "clicks") is None


@pytest.mark.usefixtures("_airflow")
def test_its_word_is_that_of_status(platform: Platform) -> None:
    platform.add("clicks")
    assert note_alert(ALERT_OF_NOTED_ALERT).health == "unknown", "no driver ever ran"
    assert health_now(platform.home, platform.streams, "nothing") is None


@pytest.mark.usefixtures("_airflow")
def test_an_alert_makes_no_stream_of_the_platform(platform: Platform) -> None:
    platform.add("clicks").prepare()
    asked = replace(ALERT_OF_NOTED_ALERT, stream="sessionizer")
    assert note_alert(asked) == asked
    assert [home.name for home in stream_homes(platform.home)] == ["clicks"]


def test_without_a_home_the_alert_goes_out_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SESSIONIZER_HOME", raising=False)
    assert note_alert(ALERT_OF_NOTED_ALERT) == ALERT_OF_NOTED_ALERT
