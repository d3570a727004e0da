"""The Streams page inside Airflow: each user sees the streams whose DAGs they may read."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable  # noqa: TC003  FastAPI reads the annotations
from collections.abc import Set as AbstractSet  # noqa: TC003  as above
from typing import TYPE_CHECKING, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag, requires_access_view
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from sqlalchemy import select

from sessionizer.home.names import Verb, dag_id, parse_supervising_dag
from sessionizer.page.app import PageHost, create_page
from sessionizer.page.reader import PageReader
from sessionizer_airflow.dag_defaults import OPERATE, UPGRADE, read_approvers
from sessionizer_airflow.project import Project

if TYPE_CHECKING:
    from collections.abc import Collection

    from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod
    from fastapi import FastAPI

may_open = requires_access_view(AccessView.PLUGINS)
may_read = requires_access_dag("GET")
may_read_rows = requires_access_dag("GET", DagAccessEntity.TASK_LOGS)


def create_streams_page(project: Project | None = None, *, pages: str) -> FastAPI:
    """Make the page over the platform of ``project``, with the rights of Airflow's users.

    ``pages``: path of the other pages on Airflow's server, as ``/sessionizer``.
    """
    place = project or Project.from_environment()
    settings = {"name": "airflow", "api": "../api/v2", "pages": f"..{pages}", "operate": OPERATE, "upgrade": UPGRADE}
    host = PageHost(
        may_open=may_open,
        may_read=may_read,
        may_read_rows=may_read_rows,
        sees=readable_dags,
        offers=runnable_dags,
        settings=settings,
    )
    return create_page(PageReader(place.home, place.streams, read_pauses), host)


def read_pauses(streams: Collection[str]) -> dict[str, bool]:
    """Return whether Airflow has paused the supervisor of each of ``streams`` that has one. One query for all."""
    dags = {_dag(stream, Verb.SUPERVISE): stream for stream in streams}
    known = select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.in_(dags), ~DagModel.is_stale)
    with create_session() as session:
        return {dags[dag]: paused for dag, paused in session.execute(known)}


def readable_dags(user: GetUserDep) -> Callable[[AbstractSet[str]], AbstractSet[str]]:
    """Return a function that says which of some DAGs the user may read. One query for all."""

    def readable(dags: AbstractSet[str]) -> AbstractSet[str]:
        found: set[str] = set()
        for team, of_team in _divide_by_team(dags).items():
            found |= get_auth_manager().filter_authorized_dag_ids(dag_ids=of_team, user=user, team_name=team)
        return found

    return readable


def _divide_by_team(dags: AbstractSet[str]) -> dict[str | None, set[str]]:
    teams, found = DagModel.get_dag_id_to_team_name_mapping(list(dags)), defaultdict(set)
    for dag in dags:
        found[teams.get(dag)].add(dag)
    return found


def runnable_dags(user: GetUserDep, dag_id: str) -> dict[str, Any]:
    """Return which actions on the stream the user may ask for. Airflow's API asks again when they do."""
    stream = parse_supervising_dag(dag_id) or ""
    start, stop = _dag(stream, Verb.START), _dag(stream, Verb.STOP)
    teams = DagModel.get_dag_id_to_team_name_mapping([start, stop, OPERATE, UPGRADE, dag_id])

    def may(dag: str, method: ResourceMethod, entity: DagAccessEntity) -> bool:
        details = DagDetails(id=dag, team_name=teams.get(dag))
        return get_auth_manager().is_authorized_dag(method=method, access_entity=entity, details=details, user=user)

    answered = (OPERATE, UPGRADE) if is_approver(user) else ()
    return {
        "start": may(start, "POST", DagAccessEntity.RUN),
        "stop": may(stop, "POST", DagAccessEntity.RUN),
        "operate": may(OPERATE, "POST", DagAccessEntity.RUN),
        "upgrade": may(UPGRADE, "POST", DagAccessEntity.RUN),
        "approve": [dag for dag in answered if may(dag, "PUT", DagAccessEntity.HITL_DETAIL)],
        "rows": may(dag_id, "GET", DagAccessEntity.TASK_LOGS),
    }


def _dag(stream: str, verb: Verb) -> str:
    return dag_id(stream, verb)


def is_approver(user: Any) -> bool:  # noqa: ANN401  as Airflow has it
    """Whether the user may approve plans, if only some users may."""
    named = read_approvers(os.environ)
    return not named or get_auth_manager().is_authorized_hitl_task(assigned_users=set(named), user=user)
