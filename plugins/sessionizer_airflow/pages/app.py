"""The pages as an application that Airflow's API server mounts. Each asks for the reader's rights on the DAG.

Every text inserted into their HTML is escaped.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet
from html import escape
from typing import TYPE_CHECKING, Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag, requires_access_view
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from sqlalchemy import select

from sessionizer.control.log_tail import tail
from sessionizer.control.records.process_records import own_file, read_launch
from sessionizer.control.status.driver_status import read_driver
from sessionizer.deployment.running_spec import describe_change, spec_in_force
from sessionizer.errors import InvalidSpec, SessionizerError
from sessionizer.fleet.table_queries import table_places
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import Store
from sessionizer.home.names import Verb, dag_id, parse_supervising_dag
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import locate_data
from sessionizer.page.app import PageHost, create_page
from sessionizer.page.reader import PageReader
from sessionizer.redaction import redact
from sessionizer.state.proof.result import page_of
from sessionizer.stream_spec.spec_folder import find_stream
from sessionizer_airflow.project import OPERATE, UPGRADE, Project, read_approvers

if TYPE_CHECKING:
    from sessionizer.fleet.table_queries import TablePlace

STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem;max-width:80rem}"
    "pre{background:#8881;padding:.8rem;overflow-x:auto;white-space:pre-wrap;overflow-wrap:anywhere}"
    "h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:2rem}:root{color-scheme:light dark}"
)


HEADERS = {
    # No output of a driver may become a script, even if the escaping fails.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def _render(title: str, *blocks: str) -> HTMLResponse:
    """Render a whole document. ``blocks`` are HTML already."""
    text = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style><h1>{escape(title)}</h1>{''.join(blocks)}</html>"
    )
    return HTMLResponse(text, headers=HEADERS)


def _paragraph(text: str | None) -> str:
    return f"<p>{escape(text)}</p>" if text else ""


def _preformatted(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def _table(place: TablePlace) -> str:
    if not place.may_be_there:
        return f"<h2>{escape(place.name)}</h2>{_paragraph(f'{place.path} (not there yet, or not on this machine)')}"
    queries = (("Spark SQL", place.spark_sql), ("DuckDB", place.duckdb), ("Polars", place.polars))
    shown = "".join(f"{_paragraph(label)}{_preformatted(query)}" for label, query in queries)
    version = "" if place.version is None else f", version {place.version}"
    named = "" if place.catalog_name is None else f", {place.catalog_name} in Spark's catalog"
    return f"<h2>{escape(place.name)}</h2>{_paragraph(f'{place.path}{version}{named}')}{shown}"


MayReadLogs = Depends(requires_access_dag("GET", DagAccessEntity.TASK_LOGS))
MayReadDag = Depends(requires_access_dag("GET"))


def create_app(project: Project | None = None) -> FastAPI:
    """Make the application. The routes carry the id of the DAG, by which Airflow decides which users may see them."""
    app = FastAPI(title="sessionizer", openapi_url=None, docs_url=None, redoc_url=None)
    app.state.project = project or Project.from_environment()
    app.get("/{dag_id}/log", dependencies=[MayReadLogs])(driver_log)
    app.get("/{dag_id}/spark-ui", dependencies=[MayReadDag])(spark_ui)
    app.get("/{dag_id}/tables", dependencies=[MayReadDag])(tables)
    app.get("/{dag_id}/proof/{proof_id}", dependencies=[MayReadLogs])(proof)
    return app


def project_of(request: Request) -> Project:
    """Return the project of the application."""
    project: Project = request.app.state.project
    return project


def home_of(dag_id: str, project: Annotated[Project, Depends(project_of)]) -> StreamHome:
    """Return the home of the stream that the DAG supervises. Answer 404 if there is none."""
    stream = parse_supervising_dag(dag_id)
    if stream is None:
        raise HTTPException(404, "no such stream")
    home = project.home_of(stream)
    if not Store(home.control).exists():
        raise HTTPException(404, "no such stream, or it never ran")
    return home


def driver_log(
    home: Annotated[StreamHome, Depends(home_of)], project: Annotated[Project, Depends(project_of)]
) -> Response:
    """Show the end of the newest driver's log, without credentials."""
    launch, title = read_launch(home), f"{home.name}: driver log"
    if launch is None:
        return _render(title, _paragraph("Its driver was not launched from Airflow."))
    log = own_file(home, launch.log)
    if log is None:
        return _render(title, _paragraph("Its launch record names a file outside of its home."))
    changed, lines = _paragraph(describe_change(home, project.streams)), tail(log, 500)
    if not lines:
        nothing = f"Nothing to be read in {launch.log}: it is empty, or on another machine."
        return _render(title, changed, _paragraph(nothing))
    about = _paragraph(f"The last {len(lines)} lines of {launch.log}. Reload for newer ones.")
    return _render(title, changed, about, _preformatted("\n".join(lines)))


def spark_ui(home: Annotated[StreamHome, Depends(home_of)]) -> Response:
    """Redirect to the live driver's Spark UI, whose address changes with each driver."""
    seen, title = read_driver(home, epoch_ms()), f"{home.name}: Spark UI"
    address = seen.heartbeat.spark_ui if seen.heartbeat else None
    if not seen.state.is_live:
        return _render(title, _paragraph(f"No driver runs now ({seen.state})."))
    if address is None or not address.startswith(("http://", "https://")):
        return _render(title, _paragraph("The driver has no Spark UI (spark.ui.enabled), or not yet."))
    return RedirectResponse(address, headers=HEADERS)


def tables(home: Annotated[StreamHome, Depends(home_of)], project: Annotated[Project, Depends(project_of)]) -> Response:
    """Show the places of the tables, with queries to paste."""
    title = f"{home.name}: tables"
    try:
        sink = spec_in_force(home, find_stream(project.streams, home.name)).sink
    except SessionizerError as error:
        return _render(title, _paragraph(redact(str(error))))
    changed = _paragraph(describe_change(home, project.streams))
    return _render(title, changed, *map(_table, table_places(locate_data(home), sink)))


def proof(home: Annotated[StreamHome, Depends(home_of)], proof_id: str) -> Response:
    """Show a kept proof. It has samples of the stream's rows, so that it needs the right to read logs."""
    try:
        return HTMLResponse(Store(page_of(home, proof_id)).read().decode(), headers=HEADERS)
    except (InvalidSpec, FileNotFoundError):
        raise HTTPException(404, "no such proof: the newest are kept") from None


def create_streams_page(project: Project | None = None, *, pages: str) -> FastAPI:
    """Make the page, with the rights of Airflow's users. ``pages``: path of the other pages, as ``/sessionizer``."""
    place = project or Project.from_environment()
    settings = {"name": "airflow", "api": "../api/v2", "pages": f"..{pages}", "operate": OPERATE, "upgrade": UPGRADE}
    host = PageHost(
        may_open=requires_access_view(AccessView.PLUGINS),
        may_read=requires_access_dag("GET"),
        may_read_rows=requires_access_dag("GET", DagAccessEntity.TASK_LOGS),
        sees=readable_dags,
        offers=runnable_dags,
        settings=settings,
    )
    return create_page(PageReader(place.home, place.streams, read_pauses, state_of_upgrade), host)


def read_pauses(streams: Collection[str]) -> dict[str, bool]:
    """Return whether Airflow has paused the supervisor of each of ``streams`` that has one. One query for all."""
    dags = {_dag(stream, Verb.SUPERVISE): stream for stream in streams}
    known = select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.in_(dags), ~DagModel.is_stale)
    with create_session() as session:
        return {dags[dag]: paused for dag, paused in session.execute(known)}


def state_of_upgrade(run_id: str) -> str | None:
    """Return Airflow's state of a run of the DAG of upgrades: queued, running, success or failed. None without one."""
    with create_session() as session:
        state = session.scalar(select(DagRun.state).where(DagRun.dag_id == UPGRADE, DagRun.run_id == run_id))
    return None if state is None else str(state)


def readable_dags(user: GetUserDep) -> Callable[[AbstractSet[str]], AbstractSet[str]]:
    """Return a function that says which of some DAGs the user may read. One query for all."""

    def readable(dags: AbstractSet[str]) -> AbstractSet[str]:
        teams, of_team, found = DagModel.get_dag_id_to_team_name_mapping(list(dags)), defaultdict(set), set[str]()
        for dag in dags:
            of_team[teams.get(dag)].add(dag)
        for team, ids in of_team.items():
            found |= get_auth_manager().filter_authorized_dag_ids(dag_ids=ids, user=user, team_name=team)
        return found

    return readable


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
