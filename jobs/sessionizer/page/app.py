"""The Streams page as an application: static files and two JSON routes. Its host decides what each user may see.

It changes nothing. In Airflow a user's actions are runs of DAGs, which the browser asks Airflow's own API for.
"""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003  FastAPI reads the annotations
from collections.abc import Set as AbstractSet  # noqa: TC003  as above
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Query, Response

from sessionizer.errors import SessionizerError
from sessionizer.home.clock import DAY, HOUR, MINUTE
from sessionizer.home.names import Verb, dag_id, parse_supervising_dag
from sessionizer.page.answers import ASSETS, answer_error, answer_file, answer_json
from sessionizer.page.reader import PageReader  # noqa: TC001  FastAPI reads the annotations
from sessionizer.page.row_routes import add_row_routes


@dataclass(frozen=True, kw_only=True)
class PageHost:
    """Decisions of the page's host. Its functions are FastAPI dependencies.

    ``may_open`` refuses a user who may not open the page. ``may_read`` refuses one who may not see the stream of the
    path's ``dag_id``, ``may_read_rows`` one who may not see its rows, keys and logs. ``sees`` returns a function from
    DAG ids to those whose streams the user may see. ``offers`` tells the browser what the host has: the place of
    Airflow's API and what the user may do with the stream.
    """

    may_open: Callable[..., Any]
    may_read: Callable[..., Any]
    may_read_rows: Callable[..., Any]
    sees: Callable[..., Any]
    offers: Callable[..., Any]
    settings: dict[str, Any] = field(default_factory=dict)


def create_page(reader: PageReader, host: PageHost) -> FastAPI:
    """Make the application over the platform of ``reader``, with the rights of ``host``."""
    app = FastAPI(title="streams", openapi_url=None, docs_url=None, redoc_url=None)
    app.state.reader = reader
    for kind in (SessionizerError, OSError):
        app.add_exception_handler(kind, answer_error)
    opens, reads = [Depends(host.may_open)], [Depends(host.may_open), Depends(host.may_read)]

    # The host is no global, so its dependencies cannot be in annotations, which FastAPI reads as text.
    of_fleet, of_stream = Depends(host.sees), Depends(host.offers)

    def fleet(sees: Callable[[AbstractSet[str]], AbstractSet[str]] = of_fleet) -> Response:
        """Return the table of the streams that the user may see."""
        found = reader.fleet()
        dags = {dag_id(row["stream"], Verb.SUPERVISE): row for row in found["streams"]}
        seen = sees(dags.keys())
        rows = [row for dag, row in dags.items() if dag in seen]
        return answer_json({"at": found["at"], "streams": rows, "host": host.settings})

    def stream(
        dag_id: str,
        span: Annotated[int, Query(ge=MINUTE, le=7 * DAY)] = 6 * HOUR,
        begin: Annotated[int, Query(ge=0)] = 0,
        offers: dict[str, Any] = of_stream,
    ) -> Response:
        """Return the document of the stream that the DAG supervises, with figures from ``begin`` (epoch ms) on."""
        name = parse_supervising_dag(dag_id)
        found = reader.stream(name, span, begin) if name else None
        if found is None:
            raise HTTPException(404, "no such stream")
        return answer_json({**found, "host": host.settings, "may": offers})

    app.get("/", dependencies=opens)(page)
    app.get("/assets/{name}", dependencies=opens)(asset)
    app.get("/api/fleet", dependencies=opens)(fleet)
    app.get("/api/streams/{dag_id}", dependencies=reads)(stream)
    add_row_routes(app, reader, [*reads, Depends(host.may_read_rows)])
    return app


def page() -> Response:
    """Return the page."""
    return answer_file("index.html")


def asset(name: str) -> Response:
    """Return a module or style sheet of the page."""
    if name not in ASSETS:
        raise HTTPException(404, "no such file")
    return answer_file(name)
