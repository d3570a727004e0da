"""A server that takes OpenLineage's events, as Marquez does, and checks each against the schema."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker  # type: ignore[import-untyped]

from support.places import REPOSITORY

SCHEMA = REPOSITORY / "tests" / "golden" / "openlineage.json"


class LineageServer:
    """The address of a server, and the events that it got, in order."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.events: list[dict[str, Any]] = []

    def states(self, job: str) -> list[str]:
        """Return the states of the runs of ``job``, in order."""
        return [event["eventType"] for event in self.events if event["job"]["name"] == job]

    def last(self, job: str) -> dict[str, Any]:
        """Return the newest event of ``job``."""
        return [event for event in self.events if event["job"]["name"] == job][-1]

    def complaints(self) -> list[str]:
        """Return the errors of the schema in all events."""
        validator = Draft202012Validator(json.loads(SCHEMA.read_text()), format_checker=FormatChecker())
        return [f"{error.json_path}: {error.message}" for each in self.events for error in validator.iter_errors(each)]


@contextmanager
def lineage_server(status: int = 201) -> Iterator[LineageServer]:
    """Run a server on this machine that answers each event with ``status``."""

    class Take(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.events.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Take) as server:
        found = LineageServer(f"http://127.0.0.1:{server.server_port}")
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
