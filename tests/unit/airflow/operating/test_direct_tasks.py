"""Tasks of the form without a plan: the promotion of a canary, and a test of the alerts."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.canary.canary_record import read_canary
from sessionizer.lineage.canary.judge import CanaryOutcome
from sessionizer_airflow.errors import PersonNeeded
from sessionizer_airflow.operating import jobs as direct_tasks
from sessionizer_airflow.operating.jobs import PromoteLineage, SendTestAlert
from sessionizer_airflow.operating.results import SHOWN
from sessionizer_airflow.project import Project
from support.processes.fabricated_platform import make_canary
from support.processes.file_notifier import told


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(direct_tasks, "show_label", lambda context, result="": context.update({SHOWN: result}))
    (tmp_path / "streams").mkdir()
    return Project(application=tmp_path, streams=tmp_path / "streams", jars=tmp_path, home=tmp_path / "home")


def context(verb: str) -> Any:
    run = SimpleNamespace(run_after=datetime(2026, 11, 26, tzinfo=UTC), triggering_user_name="olga")
    return {"run_id": "one", "dag_run": run, "params": {"verb": verb, "stream": "clicks"}}


def test_a_canary_is_promoted_by_the_user_of_the_run(project: Project) -> None:
    home = StreamHome.of(project.home, "clicks")
    home.prepare()
    lineage = make_canary(home)
    asked = context("promote")
    PromoteLineage(task_id="promote", project=project).execute(asked)
    canary = read_canary(home, lineage)
    assert canary is not None
    assert (canary.outcome, canary.course.by, canary.is_settled) == (CanaryOutcome.PROMOTED, "olga (Airflow)", True)
    assert asked[SHOWN] == "done"


def test_a_test_message_goes_through_the_notifier(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSIONIZER_NOTIFIER", "support.processes.file_notifier.FileNotifier")
    monkeypatch.setenv("SESSIONIZER_NOTIFIER_ARGUMENTS", f'{{"path": "{tmp_path}/told.jsonl"}}')
    SendTestAlert(task_id="test_alert", project=project).execute(context("test_alert"))
    (alert,) = told(tmp_path / "told.jsonl")
    assert (alert["stream"], alert["kind"], alert["what_to_do"]) == ("clicks", "test", "")
    assert "olga" in alert["reason"]


@pytest.mark.parametrize(
    ("notifier", "reason"),
    [
        (None, "no notifier"),
        ("support.processes.file_notifier.FileNotifier", "TypeError"),
        ("no.such.Notifier", "no.such.Notifier"),
    ],
)
def test_a_message_that_cannot_be_sent_fails_the_task(
    notifier: str | None, reason: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SESSIONIZER_NOTIFIER_ARGUMENTS", raising=False)
    if notifier:
        monkeypatch.setenv("SESSIONIZER_NOTIFIER", notifier)
    with pytest.raises(PersonNeeded) as failed:
        SendTestAlert(task_id="test_alert", project=project).execute(context("test_alert"))
    assert reason in failed.value.reason
    assert failed.value.remedy
