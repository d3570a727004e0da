"""Routes that show rows, keys or logs of a stream, each when a user asks for it. They need the right to read logs.

The key or event id of a lookup comes in a header, because an address is kept in the server's log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote

from fastapi import Header, HTTPException, Query, Response

from sessionizer.control.log_tail import tail
from sessionizer.control.records.driver_records import POSITIONS_FILE
from sessionizer.control.records.process_records import own_file, read_launch
from sessionizer.deployment.running_spec import spec_in_force
from sessionizer.errors import UnknownStream
from sessionizer.fleet.lookup.ask import ask_driver
from sessionizer.fleet.lookup.find import find_event, find_key
from sessionizer.fleet.lookup.samples import read_refused_rows
from sessionizer.fleet.streams import find_view
from sessionizer.home.clock import DAY, HOUR, MINUTE, epoch_ms
from sessionizer.home.names import is_name, parse_supervising_dag
from sessionizer.lineage.active import locate_data
from sessionizer.page.answers import answer_json
from sessionizer.page.documents import live_document
from sessionizer.stream_spec.spec_folder import find_stream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastapi import FastAPI

    from sessionizer.fleet.stream_view import StreamView
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.page.reader import PageReader

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
