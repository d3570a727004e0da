"""The pages as an application that Airflow's API server mounts. Each asks for the reader's rights on the DAG."""

from __future__ import annotations

from typing import Annotated

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from sessionizer.control.log_tail import tail
from sessionizer.control.records.process_records import own_file, read_launch
from sessionizer.control.status.read_status import read_driver
from sessionizer.deployment.running_spec import describe_change, spec_in_force
from sessionizer.errors import InvalidSpec, SessionizerError
from sessionizer.fleet.table_queries import table_places
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import Store
from sessionizer.home.names import parse_supervising_dag
from sessionizer.home.stream_home import StreamHome  # noqa: TC001  FastAPI reads the annotations
from sessionizer.lineage.active import locate_data
from sessionizer.redaction import redact
from sessionizer.state.proof.page import page_of
from sessionizer.stream_spec.spec_folder import find_stream
from sessionizer_airflow.pages.markup import log_page, message_page, tables_page
from sessionizer_airflow.project import Project

LINES_SHOWN = 500
HEADERS = {
    # No output of a driver may become a script, even if the escaping fails.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}

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
    launch = read_launch(home)
    if launch is None:
        return _html(message_page(home.name, "driver log", "Its driver was not launched from Airflow."))
    log = own_file(home, launch.log)
    if log is None:
        return _html(message_page(home.name, "driver log", "Its launch record names a file outside of its home."))
    changed = describe_change(home, project.streams)
    return _html(log_page(home.name, launch.log, tail(log, LINES_SHOWN), changed))


def spark_ui(home: Annotated[StreamHome, Depends(home_of)]) -> Response:
    """Redirect to the live driver's Spark UI, whose address changes with each driver."""
    seen = read_driver(home, epoch_ms())
    address = seen.heartbeat.spark_ui if seen.heartbeat else None
    if not seen.state.is_live:
        return _html(message_page(home.name, "Spark UI", f"No driver runs now ({seen.state})."))
    if address is None or not address.startswith(("http://", "https://")):
        return _html(message_page(home.name, "Spark UI", "The driver has no Spark UI (spark.ui.enabled), or not yet."))
    return RedirectResponse(address, headers=HEADERS)


def tables(home: Annotated[StreamHome, Depends(home_of)], project: Annotated[Project, Depends(project_of)]) -> Response:
    """Show the places of the tables, with queries to paste."""
    try:
        sink = spec_in_force(home, find_stream(project.streams, home.name)).sink
    except SessionizerError as error:
        return _html(message_page(home.name, "tables", redact(str(error))))
    places = table_places(locate_data(home), sink)
    return _html(tables_page(home.name, places, describe_change(home, project.streams)))


def proof(home: Annotated[StreamHome, Depends(home_of)], proof_id: str) -> Response:
    """Show a kept proof. It has samples of the stream's rows, so that it needs the right to read logs."""
    try:
        return _html(Store(page_of(home, proof_id)).read().decode())
    except (InvalidSpec, FileNotFoundError):
        raise HTTPException(404, "no such proof: the newest are kept") from None


def _html(text: str) -> HTMLResponse:
    return HTMLResponse(text, headers=HEADERS)
