"""The password of a database goes from Airflow's connection into the environment of the job, and nowhere else."""

from __future__ import annotations

import json
import logging
import os
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.control.records.operation_record import require_request, write_request
from sessionizer.state.commands.seeds import Seed, leads_to
from sessionizer_airflow.errors import PersonNeeded
from sessionizer_airflow.operating.jobs import CarryOut, MakePlan, MakeSavepoint, ReadForm, read_request
from sessionizer_airflow.operating.request import purposes
from sessionizer_airflow.supervision.policy import SupervisionSettings
from support.verbs.asked_restore import APPROVED, OPERATION, context

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer_airflow.operating.jobs import OperateJob
    from sessionizer_airflow.project import Project

# the provider leaves the pipe to the program that it has started open
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

PASSWORD = "correct-horse-battery"  # noqa: S105  of nobody
FORM = {
    "verb": "seed",
    "stream": "clicks",
    "history": "jdbc:postgresql://db:5432/shop",
    "table": "visits",
    "connection": "shop",
}
ASKED = Seed(history=FORM["history"], table="visits", connection="shop", user="ann")
PROGRAM = """#!{python}
import json, os, sys
seen = {{"argv": sys.argv, "environment": dict(os.environ)}}
open({place!r}, "w").write(json.dumps(seen))
print("reads the table")
"""


@pytest.fixture
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name, and where it leaves what it was started with."""
    place, program = tmp_path / "seen.json", tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text(PROGRAM.format(python=sys.executable, place=str(place)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    shop = {"conn_type": "postgres", "host": "db", "port": 5432, "login": "ann", "password": PASSWORD}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps(shop))
    return place


def plan(project: Project) -> tuple[OperateJob, dict[str, Any]]:
    return MakePlan(task_id="plan", project=project), context(FORM)


def carry_out(project: Project) -> tuple[OperateJob, dict[str, Any]]:
    write_request(project.home_of("clicks"), replace(APPROVED, verb="seed", request=ASKED.to_json()))
    tried = SimpleNamespace(try_number=1, max_tries=0)
    settings = SupervisionSettings.from_environment({})
    outlets: Any = SimpleNamespace(add=lambda *_, **__: None)
    task = CarryOut(task_id="carry_out", project=project, settings=settings, approval="approve")
    return task, context(FORM, ti=tried, outlet_events=dict.fromkeys(task.outlets, outlets))


@pytest.mark.parametrize("job", [plan, carry_out])
def test_the_job_alone_is_given_the_password(
    project: Project, spark_submit: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], job: Any
) -> None:
    task, given = job(project)
    caplog.set_level(logging.DEBUG)
    returned: Any = task.execute(given)
    seen = json.loads(spark_submit.read_text())
    assert seen["environment"]["JDBC_PASSWORD"] == PASSWORD
    home = project.home_of("clicks")
    record = require_request(home, OPERATION)
    assert Seed.from_json(record.request) == ASKED
    rest = {name: value for name, value in seen["environment"].items() if not name.startswith("AIRFLOW_CONN_")}
    del rest["JDBC_PASSWORD"]
    rendered = {name: getattr(task, name) for name in task.template_fields}
    printed = capfd.readouterr()
    for place in (seen["argv"], record, rest, rendered, vars(task), returned, caplog.text, printed.out, printed.err):
        assert PASSWORD not in str(place)
    assert "reads the table" in f"{caplog.text}{printed.out}", "what the job prints is in the log"
    assert "JDBC_PASSWORD" not in os.environ, "no job of another request gets it"


def test_the_form_and_the_plan_hold_the_name_of_the_connection_only(project: Project, spark_submit: Path) -> None:
    task, given = plan(project)
    task.execute(given)  # type: ignore[arg-type]
    request = read_request(given, purposes())  # type: ignore[arg-type]
    assert request.connection == "shop"
    assert "ann" not in str(request)
    assert OPERATION in json.loads(spark_submit.read_text())["argv"]


@pytest.mark.parametrize("job", [plan, carry_out])
@pytest.mark.parametrize("place", [{"host": "elsewhere", "port": 5432}, {"host": "db"}])
def test_nobody_but_the_connections_own_database_gets_the_password(
    project: Project, spark_submit: Path, monkeypatch: pytest.MonkeyPatch, job: Any, place: dict[str, Any]
) -> None:
    other = {"conn_type": "postgres", "login": "ann", "password": PASSWORD, **place}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps(other))
    task, given = job(project)
    with pytest.raises(PersonNeeded, match=r"history is 'jdbc:postgresql://db:5432/shop'. Use jdbc:…://") as told:
        task.execute(given)
    assert told.value.reason.startswith("connection 'shop'")
    assert "the connection" in told.value.remedy
    assert not spark_submit.exists()


def test_a_record_with_another_history_gets_no_password(project: Project, spark_submit: Path) -> None:
    task, given = carry_out(project)
    evil = replace(ASKED, history="jdbc:postgresql://evil:5432/shop")
    write_request(project.home_of("clicks"), replace(APPROVED, verb="seed", request=evil.to_json()))
    with pytest.raises(PersonNeeded, match="evil"):
        task.execute(given)  # type: ignore[arg-type]
    assert not spark_submit.exists()


def test_a_user_who_was_corrected_before_the_plan_is_in_the_record(
    project: Project, spark_submit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for login in ("ann", "bob"):
        shop = {"conn_type": "postgres", "host": "db", "port": 5432, "login": login, "password": PASSWORD}
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps(shop))
        task, given = plan(project)
        task.execute(given)  # type: ignore[arg-type]
        assert require_request(project.home_of("clicks"), OPERATION).request["user"] == login


@pytest.mark.parametrize(
    ("url", "host", "port", "leads"),
    [
        ("jdbc:postgresql://db:5432/shop", "db", 5432, True),
        ("jdbc:postgresql://db/shop", "db", None, True),
        ("jdbc:postgresql://[::1]:5432/shop", "[::1]", 5432, True),
        ("jdbc:postgresql://db:5432,evil:5432/shop", "db", 5432, False),
        ("jdbc:postgresql://db:5432/shop?PGHOST=evil", "db", 5432, False),
        ("jdbc:postgresql://evil/db:5432", "db", 5432, False),
        ("jdbc:postgresql://ann@db:5432/shop", "db", 5432, False),
        ("jdbc:h2:mem:x;INIT=RUNSCRIPT FROM 'http://evil'", "db", None, False),
        ("jdbc:postgresql://db/shop?sslmode=require", "jdbc:postgresql://db/shop?sslmode=require", None, True),
        ("jdbc:postgresql://evil/shop", "jdbc:postgresql://db/shop", None, False),
    ],
)
def test_an_address_leads_to_one_host(url: str, host: str, port: int | None, leads: bool) -> None:
    assert leads_to(url, host, port) == leads


@pytest.mark.parametrize(
    ("connection", "spark", "told_of"),
    [
        (None, {}, ("connection 'shop': Airflow has none of that id", "add connection 'shop'")),
        ({"login": "ann"}, {}, ("connection 'shop': it has no password", "give connection 'shop' the login and the")),
        ({}, {}, ("connection 'shop': it has no login and no password", "give connection 'shop' the login")),
        (
            {"login": "ann", "password": PASSWORD},
            {"host": "yarn", "extra": {"deploy-mode": "cluster"}},
            (
                "connection 'spark_default' is in cluster mode",
                "set the deploy mode of connection 'spark_default' to client",
            ),
        ),
    ],
)
def test_without_a_way_for_the_password_nothing_is_started(
    project: Project,
    spark_submit: Path,
    monkeypatch: pytest.MonkeyPatch,
    connection: dict[str, str] | None,
    spark: dict[str, Any],
    told_of: tuple[str, str],
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SHOP")
    if connection is not None:
        monkeypatch.setenv(
            "AIRFLOW_CONN_SHOP", json.dumps({"conn_type": "postgres", "host": "db", "port": 5432, **connection})
        )
    if spark:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", **spark}))
    task, given = plan(project)
    with pytest.raises(PersonNeeded) as told:
        task.execute(given)  # type: ignore[arg-type]
    assert told_of[0] in told.value.reason
    assert told_of[1] in told.value.remedy
    assert "spec" not in told.value.remedy
    assert "unpause" not in told.value.remedy
    assert PASSWORD not in f"{told.value.reason} {told.value.remedy}"
    assert not spark_submit.exists()


def test_a_wrong_connection_is_refused_before_anything_is_started(
    project: Project, spark_submit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = ReadForm(task_id="read_form", project=project, first_task=dict.fromkeys(purposes(), "plan"))
    assert task.choose_branch(context(FORM)) == "plan"
    monkeypatch.delenv("AIRFLOW_CONN_SHOP")
    with pytest.raises(PersonNeeded, match="connection 'shop'") as told:
        task.choose_branch(context(FORM))
    assert "'shop'" in told.value.remedy
    assert not spark_submit.exists()


def test_a_missing_spark_connection_is_named_with_one_way_to_go_on(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT", raising=False)
    form = {"verb": "savepoint", "stream": "clicks"}
    with pytest.raises(PersonNeeded, match="spark_default") as told:
        MakeSavepoint(task_id="savepoint", project=project).execute(context(form))
    assert "connections add" in told.value.remedy
    assert "unpause" not in told.value.remedy
    assert told.value.remedy.endswith("run this DAG again")
