"""The Streams page as an application: static files and JSON routes. Its host decides what each user may see.

It changes nothing. In Airflow a user's actions are runs of DAGs, which the browser asks Airflow's own API for. Without
Airflow, the page is on the loopback interface, for one user with the token. It offers no actions.

Routes with rows, keys or logs need the right to read logs. The key or event id of a lookup comes in a header, because
an address is kept in the server's log.
"""

from __future__ import annotations

import hmac
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import unquote

from fastapi import Depends, FastAPI, Header, HTTPException, Query, Request, Response
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse
from starlette.middleware.trustedhost import TrustedHostMiddleware

from sessionizer.control.log_tail import tail
from sessionizer.control.records.driver_records import POSITIONS_FILE
from sessionizer.control.records.process_records import own_file, read_launch
from sessionizer.deployment.running_spec import spec_in_force
from sessionizer.errors import SessionizerError, UnknownStream
from sessionizer.fleet.lookup.find import ask_driver, find_event, find_key, read_refused_rows
from sessionizer.fleet.stream_view import StreamView
from sessionizer.fleet.streams import find_view
from sessionizer.home.clock import DAY, HOUR, MINUTE, epoch_ms
from sessionizer.home.names import Verb, dag_id, is_name, parse_supervising_dag
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import locate_data
from sessionizer.page.reader import PageReader, live_document
from sessionizer.redaction import redact
from sessionizer.stream_spec.spec_folder import find_stream

STATIC: Final = Path(__file__).parent / "static"
TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
ASSETS: Final = frozenset(file.name for file in STATIC.iterdir() if file.suffix in {".css", ".js", ".svg"})
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def answer_json(content: Any, status: int = 200) -> Response:  # noqa: ANN401  any JSON
    """Return the answer."""
    return JSONResponse(content, status_code=status, headers=HEADERS)


def answer_error(_request: Request, error: Exception) -> Response:
    """Tell the browser of an error of ours, or of a place that cannot be read, in the form that the page shows."""
    return answer_json({"error": type(error).__name__, "message": redact(str(error))}, 503)


def answer_file(name: str) -> Response:
    """Return a file of the page."""
    return FileResponse(STATIC / name, media_type=TYPES[Path(name).suffix], headers=HEADERS)


LINES_SHOWN = 200


def add_row_routes(app: FastAPI, reader: PageReader, rights: Sequence[Any]) -> None:
    """Add the routes. ``rights``: dependencies that refuse a user who may not see rows of the path's ``dag_id``."""

    def live(dag_id: str) -> Response:
        """Return the open sessions by age, the heaviest keys, and the positions in the source."""
        view = _view(reader, dag_id)
        return answer_json(live_document(view, POSITIONS_FILE.of(view.home).read() if view.home else None))

    def find(
        dag_id: str, x_key: Annotated[str | None, Header()] = None, x_event: Annotated[str | None, Header()] = None
    ) -> Response:
        """Return where the key of ``x_key``, or the event of ``x_event``, is. Both are percent-encoded."""
        if (x_key is None) == (x_event is None):
            raise HTTPException(422, "ask for a key or for an event")
        home = _home(reader, dag_id)
        places = _places(reader, home)
        if x_key is None:
            return answer_json(find_event(home.name, unquote(x_event or ""), places))
        key = unquote(x_key)
        return answer_json(find_key(home.name, key, places, ask_driver(home, key)))

    def refused(dag_id: str, span: Annotated[int, Query(ge=MINUTE, le=7 * DAY)] = 6 * HOUR) -> Response:
        """Return the refused rows of the last ``span`` ms: counts by reason, and the newest rows of each."""
        home = _home(reader, dag_id)
        return answer_json(read_refused_rows(home.name, _places(reader, home), epoch_ms() - span))

    def log(dag_id: str) -> Response:
        """Return the end of the newest driver's log, without credentials."""
        home = _home(reader, dag_id)
        launch = read_launch(home)
        file = own_file(home, launch.log) if launch else None
        return answer_json({"path": launch.log if launch else None, "lines": tail(file, LINES_SHOWN) if file else []})

    for name, route in {"live": live, "find": find, "refused": refused, "log": log}.items():
        app.get(f"/api/streams/{{dag_id}}/{name}", dependencies=rights)(route)


def _view(reader: PageReader, dag_id: str) -> StreamView:
    name = parse_supervising_dag(dag_id) or ""
    try:
        if is_name(name):
            return find_view(reader.home, reader.streams, name)
    except UnknownStream:
        pass
    raise HTTPException(404, "no such stream")


def _home(reader: PageReader, dag_id: str) -> StreamHome:
    home = _view(reader, dag_id).home
    if home is None:
        raise HTTPException(404, "no such stream, or it never ran")
    return home


def _places(reader: PageReader, home: StreamHome) -> Mapping[str, str]:
    spec = spec_in_force(home, find_stream(reader.streams, home.name))
    return locate_data(home).table_locations(spec.sink.path)


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

    app.get("/", dependencies=opens)(lambda: answer_file("index.html"))
    app.get("/assets/{name}", dependencies=opens)(asset)
    app.get("/api/fleet", dependencies=opens)(fleet)
    app.get("/api/streams/{dag_id}", dependencies=reads)(stream)
    add_row_routes(app, reader, [*reads, Depends(host.may_read_rows)])
    return app


def asset(name: str) -> Response:
    """Return a module or style sheet of the page."""
    if name not in ASSETS:
        raise HTTPException(404, "no such file")
    return answer_file(name)


LOOPBACK: Final = "127.0.0.1"
COOKIE: Final = "sessionizer_page"


def create_page_alone(home: Path, streams: Path, token: str) -> FastAPI:
    """Make the page over the platform at ``home``. Each request must bring the ``token``, as a cookie or a header."""

    def has_token(request: Request) -> None:
        """Refuse a request without the token."""
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not any(_is_same(given, token) for given in (request.cookies.get(COOKIE, ""), bearer)):
            raise HTTPException(401, "open the address that `sessionizer page` printed")

    rights = dict.fromkeys(("may_open", "may_read", "may_read_rows"), has_token)
    host = PageHost(**rights, sees=lambda: lambda dags: dags, offers=_offers_nothing, settings={"name": "alone"})
    app = create_page(PageReader(home, streams), host)

    @app.middleware("http")
    async def take_token(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        """Keep the token of the address in a cookie, so that it does not stay in the address."""
        given = request.query_params.get("token")
        if request.url.path != "/" or given is None or not _is_same(given, token):
            return await call_next(request)
        answer = RedirectResponse("/", status_code=303, headers=HEADERS)
        answer.set_cookie(COOKIE, token, httponly=True, samesite="strict")
        return answer

    # Without it, a foreign page could reach us by a name of its own that leads to this machine.
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[LOOPBACK, "localhost"])
    return app


def listen(port: int) -> socket.socket:
    """Return a socket on the loopback interface. Raises OSError if the port is taken."""
    found = socket.create_server((LOOPBACK, port))
    found.set_inheritable(True)
    return found


def _is_same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())


def _offers_nothing() -> dict[str, Any]:
    return {}
