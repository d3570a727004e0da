"""The Streams page inside Airflow: each user sees the streams whose DAGs they may read."""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003  FastAPI reads the annotations
from typing import TYPE_CHECKING, Any, Final

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag, requires_access_view
from airflow.models.dag import DagModel

from sessionizer.home.names import Verb, dag_id, supervised_stream
from sessionizer.page.app import PageHost, create_page
from sessionizer.page.reader import PageReader
from sessionizer_airflow.house import PLATFORM
from sessionizer_airflow.project import Project

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod
    from fastapi import FastAPI

OPERATE: Final = f"{PLATFORM}.operate"
UPGRADE: Final = f"{PLATFORM}.upgrade"

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
    return create_page(PageReader(place.home, place.streams, is_paused), host)


def is_paused(stream: str) -> bool | None:
    """Return whether Airflow has paused the supervisor of ``stream``. None if it has no such DAG."""
    dag = DagModel.get_dagmodel(_dag(stream, Verb.SUPERVISE))
    return None if dag is None or dag.is_stale else bool(dag.is_paused)


def readable_dags(user: GetUserDep) -> Callable[[str], bool]:
    """Return a function that says whether the user may read a DAG."""

    def may(dag: str) -> bool:
        details = DagDetails(id=dag, team_name=DagModel.get_team_name(dag))
        return get_auth_manager().is_authorized_dag(method="GET", details=details, user=user)

    return may


def runnable_dags(user: GetUserDep, dag_id: str) -> dict[str, Any]:
    """Return which actions on the stream the user may ask for. Airflow's API asks again when they do."""
    stream = supervised_stream(dag_id) or ""
    return {
        "start": _may_run(user, _dag(stream, Verb.START)),
        "stop": _may_run(user, _dag(stream, Verb.STOP)),
        "operate": _may_run(user, OPERATE),
        "upgrade": _may_run(user, UPGRADE),
        "approve": _may(user, OPERATE, "PUT", DagAccessEntity.HITL_DETAIL),
        "rows": _may(user, dag_id, "GET", DagAccessEntity.TASK_LOGS),
    }


def _dag(stream: str, verb: Verb) -> str:
    return dag_id(stream, verb)


def _may_run(user: Any, dag: str) -> bool:  # noqa: ANN401  as Airflow has it
    return _may(user, dag, "POST", DagAccessEntity.RUN)


def _may(user: Any, dag: str, method: ResourceMethod, entity: DagAccessEntity) -> bool:  # noqa: ANN401  as above
    details = DagDetails(id=dag, team_name=DagModel.get_team_name(dag))
    return get_auth_manager().is_authorized_dag(method=method, access_entity=entity, details=details, user=user)
