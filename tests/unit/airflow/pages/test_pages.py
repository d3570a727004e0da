"""The pages behind the buttons: what they show, to whom, and that nothing in them can become a script."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.models.team import Team
from airflow.models.team import dag_bundle_team_association_table as TEAMS_OF_BUNDLES
from airflow.utils.session import create_session
from fastapi import FastAPI
from sqlalchemy import create_engine, event, insert
from sqlalchemy.orm import sessionmaker
from sqlalchemy.pool import StaticPool

from airflow import settings
from sessionizer.control.records.process_records import (
    LAUNCH_FILE,
    ExitOutcome,
    ExitRecord,
    LaunchRecord,
    own_file,
    write_exit,
)
from sessionizer.deployment.running_spec import new_record
from sessionizer.home.clock import epoch_ms
from sessionizer.home.names import mint_id
from sessionizer.lineage.active import start_lineage
from sessionizer.page.reader import PageReader
from sessionizer.state.proof.result import Proof, keep_page, list_kept_pages
from sessionizer.stream_spec.spec_folder import find_stream
from sessionizer_airflow.operating.jobs import CarryOut
from sessionizer_airflow.pages import app as streams
from sessionizer_airflow.pages.app import (
    MayReadDag,
    MayReadLogs,
    create_app,
    read_pauses,
    readable_dags,
    runnable_dags,
    state_of_upgrade,
)
from sessionizer_airflow.pages.links import DriverLogLink, ProofLink, SparkUiLink, TablesLink
from sessionizer_airflow.project import OPERATE, UPGRADE, Project
from support.fixtures.reviewed import Reviewed
from support.places import opened
from support.processes.fabricated_platform import Platform


@dataclass
class Client:
    app: FastAPI

    def get(self, path: str) -> httpx.Response:
        return asyncio.run(self._get(path))

    async def _get(self, path: str) -> httpx.Response:
        transport = httpx.ASGITransport(app=self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://airflow.example") as client:
            return await client.get(path)


def client_of(platform: Platform, *, allowed: bool = True, data: str | None = None) -> Client:
    nowhere = platform.home / "nothing"
    app = create_app(
        Project(application=nowhere, streams=platform.streams, jars=nowhere, home=platform.home, data=data)
    )
    for right in (MayReadDag, MayReadLogs) if allowed else ():
        app.dependency_overrides[right.dependency] = lambda: None
    return Client(app)


def launched(platform: Platform, text: str) -> None:
    _, home = platform.drive("clicks")
    log = home.logs / "driver.driver-1.log"
    log.write_text(text)
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="driver-1", at=epoch_ms(), log=str(log)))


@pytest.mark.parametrize("page", ["log", "spark-ui", "tables"])
def test_a_stranger_sees_nothing(page: str, platform: Platform) -> None:
    launched(platform, "secret matter")
    answer = client_of(platform, allowed=False).get(f"/clicks.supervise/{page}")
    assert answer.status_code == 401
    assert "secret matter" not in answer.text


def test_the_log_is_escaped_and_without_credentials(platform: Platform) -> None:
    launched(platform, "<script>alert(1)</script>\npassword=hunter2\n")
    answer = client_of(platform).get("/clicks.supervise/log")
    assert answer.status_code == 200
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in answer.text
    assert "<script" not in answer.text
    assert "hunter2" not in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_a_log_that_is_not_here(platform: Platform, reviewed: Reviewed) -> None:
    _, home = platform.drive("clicks")
    reviewed(client_of(platform).get("/clicks.supervise/log").text)
    gone = str(home.logs / "driver.driver-1.log")
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="driver-1", at=epoch_ms(), log=gone))
    reviewed(client_of(platform).get("/clicks.supervise/log").text)


@pytest.mark.parametrize("named", ["{tmp}/passwords", "{logs}/../../../../passwords", "{logs}/link", "{logs}", "\0"])
def test_a_file_outside_of_the_logs_is_not_shown_whatever_the_record_names(
    named: str, platform: Platform, tmp_path: Path, reviewed: Reviewed
) -> None:
    _, home = platform.drive("clicks")
    (tmp_path / "passwords").write_text("secret matter")
    (home.logs / "link").symlink_to(tmp_path / "passwords")
    path = named.format(tmp=tmp_path, logs=home.logs)
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="driver-1", at=epoch_ms(), log=path))
    answer = client_of(platform).get("/clicks.supervise/log")
    assert "secret matter" not in answer.text
    reviewed(answer.text)
    assert own_file(home, path) is None


@pytest.mark.parametrize("dag_id", ["visits.supervise", "clicks.stop", "clicks", "..%2F..", "Clicks.supervise"])
def test_what_is_no_stream(dag_id: str, platform: Platform) -> None:
    launched(platform, "")
    assert client_of(platform).get(f"/{dag_id}/log").status_code == 404


def test_the_spark_ui_is_where_the_live_driver_says(platform: Platform, reviewed: Reviewed) -> None:
    lease, home = platform.drive("clicks", spark_ui="http://127.0.0.1:4040")
    answer = client_of(platform).get("/clicks.supervise/spark-ui")
    assert (answer.status_code, answer.headers["location"]) == (307, "http://127.0.0.1:4040")
    write_exit(home, ExitRecord(lease.uid, epoch_ms(), ExitOutcome.STOPPED))
    reviewed(client_of(platform).get("/clicks.supervise/spark-ui").text)


@pytest.mark.parametrize("address", [None, "javascript:alert(1)"])
def test_no_spark_ui(address: str | None, platform: Platform) -> None:
    platform.drive("clicks", spark_ui=address)
    answer = client_of(platform).get("/clicks.supervise/spark-ui")
    assert answer.status_code == 200
    assert "has no Spark UI" in answer.text


def test_tables_of_a_data_root_elsewhere_are_shown_and_not_looked_at(platform: Platform) -> None:
    """Nobody answers there: a page that looked would take minutes, or fail."""
    platform.add("clicks")
    platform.drive("clicks")
    text = client_of(platform, data="hdfs://127.0.0.1:1/lake").get("/clicks.supervise/tables").text
    assert "<p>hdfs://127.0.0.1:1/lake/streams/clicks/tables/sessions</p>" in text
    assert "from delta.`hdfs://127.0.0.1:1/lake/streams/clicks/tables/sessions`" in text


def test_the_tables_with_queries(platform: Platform) -> None:
    home = platform.add("clicks")
    platform.drive("clicks")
    log = home.table("sessions") / "_delta_log"
    opened(log).mkdir(parents=True)
    opened(log / f"{7:020d}.json").touch()
    text = client_of(platform).get("/clicks.supervise/tables").text
    assert f"{home.table('sessions')}, version 7" in text
    assert f"from delta.`{home.table('sessions')}`" in text
    assert f"{home.table('quarantine')} (not there yet" in text
    (platform.streams / "clicks.yaml").unlink()
    assert "&#x27;clicks&#x27;" in client_of(platform).get("/clicks.supervise/tables").text


def test_the_buttons_lead_to_the_pages(monkeypatch: pytest.MonkeyPatch, platform: Platform) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://airflow.example/below/")
    key: Any = SimpleNamespace(dag_id="clicks.supervise")
    operator: Any = None
    links = [link.get_link(operator, ti_key=key) for link in (DriverLogLink(), SparkUiLink(), TablesLink())]
    pages = [link.removeprefix("http://airflow.example/below/sessionizer") for link in links]
    assert pages == [f"/clicks.supervise/{page}" for page in ("log", "spark-ui", "tables")]
    platform.drive("clicks")
    assert [client_of(platform).get(page).status_code for page in pages] == [200, 200, 200]


def test_the_newest_proof_of_a_run_is_shown(monkeypatch: pytest.MonkeyPatch, platform: Platform) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://airflow.example/below/")
    _, home = platform.drive("clicks")
    at = 1_790_000_000_000
    for number in range(7):
        keep_page(home, proof_at(at + 60_000 * number))
    assert len(list_kept_pages(home)) == 5
    assert [link.name for link in CarryOut.operator_extra_links] == ["Proof"]
    key: Any = SimpleNamespace(dag_id="operate")
    task: Any = SimpleNamespace(proves=(home, at + 300_000))
    address = ProofLink().get_link(task, ti_key=key)
    page = address.removeprefix("http://airflow.example/below/sessionizer")
    assert page == f"/clicks.supervise/proof/{list_kept_pages(home)[-1]}"
    assert "Proof of clicks" in client_of(platform).get(page).text
    assert client_of(platform, allowed=False).get(page).status_code == 401
    assert client_of(platform).get(f"/clicks.supervise/proof/{mint_id(at)}").status_code == 404
    assert client_of(platform).get("/clicks.supervise/proof/..%2F..%2Flease").status_code == 404
    task.proves = (home, at + 600_000)
    assert ProofLink().get_link(task, ti_key=key) == "", "a run that made no proof"
    assert ProofLink().get_link(SimpleNamespace(), ti_key=key) == ""  # type: ignore[arg-type]


def proof_at(at_ms: int) -> Proof:
    return Proof(mint_id(at_ms), "clicks", "one", at_ms, 3, 9, 100, 1.5, (), (), ())


@pytest.mark.parametrize("page", ["log", "tables"])
def test_a_changed_spec_is_shown_on_every_page(page: str, platform: Platform) -> None:
    home = platform.add("clicks")
    launched(platform, "a line\n")
    start_lineage(home, spec=new_record(home, find_stream(platform.streams, "clicks")))
    assert "spec changed" not in client_of(platform).get(f"/clicks.supervise/{page}").text
    text = (platform.streams / "clicks.yaml").read_text()
    platform.add("clicks", text + "sink:\n  path: elsewhere\n")
    shown = client_of(platform).get(f"/clicks.supervise/{page}").text
    assert "spec changed: sink.path" in shown
    assert str(platform.home / "elsewhere") not in shown, "the stream writes where it did"


MANY = 30


class Authority:
    """An auth manager of Airflow's simple kind: a user reads the DAGs of the own team, and those of none."""

    def filter_authorized_dag_ids(self, *, dag_ids: set[str], user: BaseUser, team_name: str | None) -> set[str]:
        return dag_ids if team_name in {None, user.get_id()} else set()

    def is_authorized_dag(self, **_: Any) -> bool:
        return True


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The statements that the database of an Airflow is asked. It has DAGs of many streams, two of them another's."""
    engine = create_engine("sqlite://", poolclass=StaticPool)
    DagModel.metadata.create_all(
        engine, [each.__table__ for each in (DagModel, DagRun, DagBundleModel, Team)] + [TEAMS_OF_BUNDLES]
    )
    monkeypatch.setattr(settings, "Session", sessionmaker(engine))
    monkeypatch.setattr(streams, "get_auth_manager", Authority)
    bundles = {"ours": "ours", "theirs": "theirs", "free": None}
    with engine.begin() as filled:
        filled.execute(insert(Team), [{"name": team} for team in bundles.values() if team])
        filled.execute(insert(DagBundleModel), [{"name": name} for name in bundles])
        of_teams = [{"dag_bundle_name": name, "team_name": team} for name, team in bundles.items() if team]
        filled.execute(insert(TEAMS_OF_BUNDLES), of_teams)
        filled.execute(insert(DagModel), [dag(number) for number in range(MANY)])
    found: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda _, __, statement, *___: found.append(statement))
    yield found
    engine.dispose()


def user_of(team: str) -> BaseUser:
    return SimpleAuthManagerUser(username=team, role="VIEWER")


def dag(number: int) -> dict[str, Any]:
    bundle = ("ours", "theirs")[number] if number < 2 else "free"
    return {
        "dag_id": f"stream_{number:02}.supervise",
        "bundle_name": bundle,
        "is_paused": number % 2 == 1,
        "is_stale": number == MANY - 1,
        "max_active_tasks": 1,
        "max_consecutive_failed_dag_runs": 1,
        "has_task_concurrency_limits": False,
    }


def test_the_pauses_of_all_streams_are_one_query(platform: Platform, asked: list[str]) -> None:
    for number in range(MANY):
        platform.add(f"stream_{number:02}")
    rows = PageReader(platform.home, platform.streams, read_pauses).fleet()["streams"]
    assert len(rows) == MANY
    assert len(asked) == 1


def test_a_pause_is_known_of_every_dag_that_airflow_has(asked: list[str]) -> None:
    found = read_pauses(["stream_00", "stream_01", f"stream_{MANY - 1}", "nothing"])
    assert found == {"stream_00": False, "stream_01": True}
    assert len(asked) == 1


def test_the_state_of_a_run_of_an_upgrade_is_airflows(asked: list[str]) -> None:
    run = {"run_id": "list__clicks", "run_type": "operator_triggered", "log_template_id": 1}
    run |= {"run_after": datetime(2026, 11, 29, tzinfo=UTC)}
    with create_session() as session:
        both = [{**run, "dag_id": UPGRADE, "_state": "failed"}, {**run, "dag_id": OPERATE, "_state": "success"}]
        session.execute(insert(DagRun), both)
    del asked[:]
    assert (state_of_upgrade("list__clicks"), state_of_upgrade("list__visits")) == ("failed", None)
    assert len(asked) == 2


@pytest.mark.parametrize(("user", "unseen"), [("ours", "stream_01"), ("theirs", "stream_00")])
def test_the_streams_of_another_team_are_left_out_by_one_query(user: str, unseen: str, asked: list[str]) -> None:
    dags = {f"stream_{number:02}.supervise" for number in range(MANY)}
    assert dags - readable_dags(user_of(user))(dags) == {f"{unseen}.supervise"}
    assert len(asked) == 1


def test_the_rights_on_a_stream_are_one_query(asked: list[str]) -> None:
    found = runnable_dags(user_of("ours"), "stream_00.supervise")
    assert found.pop("approve") == [OPERATE, UPGRADE]
    assert set(found.values()) == {True}
    assert len(asked) == 1
