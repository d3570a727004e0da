"""The Streams page in Airflow: every route asks for rights, and no route changes anything."""

import asyncio
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api import security
from airflow.api_fastapi.core_api.security import get_user
from airflow.models.dag import DagModel
from fastapi import FastAPI

from sessionizer.home.control_store import Store
from sessionizer.page.app import ASSETS
from sessionizer.state.proof.result import page_of
from sessionizer_airflow.pages import app as streams
from sessionizer_airflow.pages.app import create_app, create_streams_page
from sessionizer_airflow.pages.links import PREFIX, STREAMS, views
from sessionizer_airflow.project import OPERATE, UPGRADE, Project
from support.processes.fabricated_platform import Platform

ROUTES: Final = {
    "/streams-page/",
    "/streams-page/assets/{name}",
    "/streams-page/api/fleet",
    "/streams-page/api/streams/{dag_id}",
    "/streams-page/api/streams/{dag_id}/find",
    "/streams-page/api/streams/{dag_id}/live",
    "/streams-page/api/streams/{dag_id}/log",
    "/streams-page/api/streams/{dag_id}/refused",
    "/sessionizer/{dag_id}/log",
    "/sessionizer/{dag_id}/spark-ui",
    "/sessionizer/{dag_id}/tables",
    "/sessionizer/{dag_id}/proof/{proof_id}",
}
"""Every route that the plugin adds to Airflow. A new one needs a row here, and its rights below."""
OF_ROWS: Final = ("/find", "/live", "/log", "/refused", "/proof/{proof_id}")
"""Ends of the routes that show rows, keys or logs."""


@dataclass
class Authority:
    """An auth manager with rights by DAG: those that a user may read, and those that they may run."""

    reads: set[str] = field(default_factory=set)
    runs: set[str] = field(default_factory=set)
    opens: bool = True
    sees_logs: bool = True
    name: str = "olga"

    def is_authorized_hitl_task(self, *, assigned_users: set[str], **_: Any) -> bool:
        return self.name in assigned_users

    def is_authorized_view(self, **_: Any) -> bool:
        return self.opens

    def is_authorized_dag(
        self, *, method: str, details: Any, access_entity: DagAccessEntity | None = None, **_: Any
    ) -> bool:
        if access_entity is DagAccessEntity.TASK_LOGS and not self.sees_logs:
            return False
        return details.id in (self.reads if method == "GET" else self.runs)

    def filter_authorized_dag_ids(self, *, dag_ids: set[str], **_: Any) -> set[str]:
        return dag_ids & self.reads


@pytest.fixture
def platform(tmp_path: Path) -> Platform:
    (tmp_path / "specs").mkdir()
    platform = Platform(tmp_path / "home", tmp_path / "specs")
    for name in ("clicks", "visits"):
        platform.add(name)
    _, home = platform.drive("clicks", batch_id=7)
    page = page_of(home, "one")
    Store(page.parent).make_folder()
    Store(page).replace(b"equal", durable=False)
    return platform


@pytest.fixture
def authority(monkeypatch: pytest.MonkeyPatch) -> Authority:
    authority = Authority()
    for module in (security, streams):
        monkeypatch.setattr(module, "get_auth_manager", lambda: authority)
    monkeypatch.setattr(DagModel, "get_team_name", lambda *_, **__: None)
    monkeypatch.setattr(DagModel, "get_dag_id_to_team_name_mapping", lambda *_, **__: {})
    monkeypatch.setattr(streams, "read_pauses", lambda _: {})
    return authority


def apps(platform: Platform) -> dict[str, FastAPI]:
    nowhere = platform.home / "nothing"
    project = Project(application=nowhere, streams=platform.streams, jars=nowhere, home=platform.home)
    return {STREAMS: create_streams_page(project, pages=PREFIX), "/sessionizer": create_app(project)}


def ask(app: FastAPI, path: str, method: str = "GET", *, user: str | None = "olga") -> httpx.Response:
    if user is not None:
        app.dependency_overrides[get_user] = lambda: user

    async def call() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://airflow.example") as client:
            return await client.request(method, path, headers={"x-event": "a"})

    return asyncio.run(call())


def paths(route: str) -> str:
    return (
        re.sub(r"^/(streams-page|sessionizer)", "", route)
        .replace("{dag_id}", "clicks.supervise")
        .replace("{name}", "page.js")
        .replace("{proof_id}", "one")
    )


def app_of(platform: Platform, route: str) -> FastAPI:
    return next(app for prefix, app in apps(platform).items() if route.startswith(prefix))


def test_every_route_is_in_the_list_and_only_reads(platform: Platform) -> None:
    found: dict[str, set[str]] = {}
    for prefix, app in apps(platform).items():
        for route in app.routes:
            found[f"{prefix}{route.path}"] = set(route.methods or ())  # type: ignore[attr-defined]
    assert set(found) == ROUTES
    assert set().union(*found.values()) == {"GET"}, "a route that changes something needs a defence against forgery"


@pytest.mark.parametrize("route", sorted(ROUTES))
def test_a_stranger_is_turned_away(route: str, platform: Platform) -> None:
    answer = ask(app_of(platform, route), paths(route), user=None)
    assert answer.status_code == 401
    assert "clicks" not in answer.text


@pytest.mark.parametrize("route", sorted(ROUTES))
def test_a_user_without_the_right_is_refused(route: str, platform: Platform, authority: Authority) -> None:
    authority.opens = False
    assert ask(app_of(platform, route), paths(route)).status_code == 403


@pytest.mark.parametrize("route", sorted(route for route in ROUTES if "dag_id" in route))
def test_a_user_who_may_open_the_page_sees_only_streams_whose_dags_they_may_read(
    route: str, platform: Platform, authority: Authority
) -> None:
    app = app_of(platform, route)
    assert ask(app, paths(route)).status_code == 403
    authority.reads = {"clicks.supervise"}
    assert ask(app, paths(route)).status_code == 200
    assert ask(app, paths(route).replace("clicks", "visits")).status_code == 403


@pytest.mark.parametrize("route", sorted(route for route in ROUTES if route.endswith(OF_ROWS)))
def test_rows_and_logs_need_the_right_to_read_logs(route: str, platform: Platform, authority: Authority) -> None:
    authority.reads, authority.sees_logs = {"clicks.supervise"}, False
    assert ask(app_of(platform, route), paths(route)).status_code == 403


@pytest.mark.parametrize("route", sorted(ROUTES))
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_no_other_method(route: str, method: str, platform: Platform, authority: Authority) -> None:
    authority.reads = {"clicks.supervise"}
    assert ask(app_of(platform, route), paths(route), method).status_code == 405


def test_the_table_lists_what_the_user_may_read(platform: Platform, authority: Authority) -> None:
    app = apps(platform)[STREAMS]
    assert ask(app, "/api/fleet").json()["streams"] == []
    authority.reads = {"visits.supervise"}
    assert [row["stream"] for row in ask(app, "/api/fleet").json()["streams"]] == ["visits"]


@pytest.mark.parametrize(
    ("runs", "may", "answers"),
    [
        (set(), set(), []),
        ({"clicks.stop"}, {"stop"}, []),
        ({"clicks.start", "clicks.stop", OPERATE}, {"start", "stop", "operate"}, [OPERATE]),
        ({UPGRADE}, {"upgrade"}, [UPGRADE]),
    ],
)
def test_a_viewer_is_offered_no_action(
    runs: set[str], may: set[str], answers: list[str], platform: Platform, authority: Authority
) -> None:
    authority.reads, authority.runs = {"clicks.supervise"}, runs
    assert offered(platform) == {
        "rows": True,
        "approve": answers,
        **{each: each in may for each in ("start", "stop", "operate", "upgrade")},
    }


@pytest.mark.parametrize(
    ("approvers", "answers"), [("", [OPERATE, UPGRADE]), ("olga, tom", [OPERATE, UPGRADE]), ("tom", [])]
)
def test_only_an_approver_is_offered_an_answer(
    approvers: str, answers: list[str], platform: Platform, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSIONIZER_APPROVERS", approvers)
    authority.reads, authority.runs = {"clicks.supervise"}, {OPERATE, UPGRADE}
    assert offered(platform)["approve"] == answers


def offered(platform: Platform) -> dict[str, Any]:
    found: dict[str, Any] = ask(apps(platform)[STREAMS], "/api/streams/clicks.supervise").json()["may"]
    return found


@pytest.mark.parametrize("dag_id", ["clicks.stop", "clicks", "sessionizer.operate", "nothing.supervise", "..%2F.."])
def test_what_is_no_stream(dag_id: str, platform: Platform, authority: Authority) -> None:
    authority.reads = {"clicks.stop", "clicks", "sessionizer.operate", "nothing.supervise"}
    assert ask(apps(platform)[STREAMS], f"/api/streams/{dag_id}").status_code in {403, 404}


def test_every_answer_has_a_strict_policy(platform: Platform, authority: Authority) -> None:
    authority.reads = {"clicks.supervise"}
    app = apps(platform)[STREAMS]
    for path in ("/", "/api/fleet", "/api/streams/clicks.supervise", *(f"/assets/{name}" for name in ASSETS)):
        answer = ask(app, path)
        assert answer.status_code == 200, path
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_an_asset_is_one_of_the_folder(platform: Platform, authority: Authority) -> None:
    assert authority.opens
    for name in ("..%2Fapp.py", "app.py", "index.html", "none.js"):
        assert ask(apps(platform)[STREAMS], f"/assets/{name}").status_code == 404


def test_the_page_names_no_other_host(platform: Platform, authority: Authority) -> None:
    assert authority.opens
    app = apps(platform)[STREAMS]
    for path in ("/", *(f"/assets/{name}" for name in ASSETS)):
        found = set(re.findall(r"https?://[^\s'\"`)]+", ask(app, path).text))
        assert found <= {"http://www.w3.org/2000/svg"}, path


def test_the_page_is_in_the_navigation_and_on_dags() -> None:
    fleet, *tabs = views()
    assert (fleet["destination"], fleet["nav_top_level"], fleet["href"]) == ("nav", True, "streams-page/")
    assert [tab["destination"] for tab in tabs] == ["dag", "dag_run", "task_instance"]
    assert {(tab["href"], *tab["applies_to"]["dag_tags"]) for tab in tabs} == {
        ("streams-page/?dag_id={DAG_ID}", "sessionizer")
    }
    assert len({view["url_route"] for view in views()}) == 4
