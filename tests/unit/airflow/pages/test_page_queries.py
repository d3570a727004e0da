"""The number of queries of the Streams page to Airflow's database, which is the same for one stream and for many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.team import Team
from airflow.models.team import dag_bundle_team_association_table as TEAMS_OF_BUNDLES
from sqlalchemy import create_engine, event, insert
from sqlalchemy.orm import sessionmaker
from sqlalchemy.pool import StaticPool

from airflow import settings
from sessionizer.page.reader import PageReader
from sessionizer_airflow.dag_defaults import OPERATE, UPGRADE
from sessionizer_airflow.pages import streams
from sessionizer_airflow.pages.streams import read_pauses, readable_dags, runnable_dags

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser

    from support.processes.fabricated_platform import Platform

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
        engine, [each.__table__ for each in (DagModel, DagBundleModel, Team)] + [TEAMS_OF_BUNDLES]
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
