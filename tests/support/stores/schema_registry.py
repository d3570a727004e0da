"""A stand-in for a schema registry: a server on loopback that speaks the parts of Confluent's REST API that we use."""

import base64
import json
import re
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Self

_VERSIONS = re.compile(r"/subjects/([^/?]+)/versions(?:/(\d+))?(?:\?.*)?")
_ID = re.compile(r"/schemas/ids/(\d+)(?:\?.*)?")


@dataclass
class SchemaRegistry:
    """Answers while the context lasts, always at the same ``url`` once it has one.

    ``subjects``: the ids of each subject's versions. ``schemas``: the schemas by id. ``answers``: a code in place of
    each answer. ``login``: the only one that is let in. ``asked``: the paths so far.
    """

    subjects: dict[str, list[int]] = field(default_factory=dict)
    schemas: dict[int, str] = field(default_factory=dict)
    login: str | None = None
    answers: int | None = None
    asked: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def register(self, subject: str, number: int, schema: str) -> None:
        self.schemas[number] = schema
        self.subjects.setdefault(subject, []).append(number)

    def __enter__(self) -> Self:
        registry = self

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                code, content = registry.answer(self.path, self.headers.get("Authorization"))
                body = json.dumps(content).encode()
                self.send_response(code)
                self.send_header("Location", f"{registry.url}/elsewhere")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Answer)
        self.port = self._server.server_port
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str, authorization: str | None) -> tuple[int, Any]:
        wanted = None if self.login is None else f"Basic {base64.b64encode(self.login.encode()).decode()}"
        if wanted != authorization:
            return 401, {"error_code": 401}
        if self.answers is not None:
            return self.answers, {"error_code": self.answers}
        if found := _ID.fullmatch(path):
            return self._schema(int(found[1]))
        if found := _VERSIONS.fullmatch(path):
            ids = self.subjects.get(found[1], [])
            if found[2] is None:
                return (200, list(range(1, len(ids) + 1))) if ids else (404, {"error_code": 40401})
            if 0 < int(found[2]) <= len(ids):
                number = ids[int(found[2]) - 1]
                return 200, {"subject": found[1], "version": int(found[2]), "id": number, **self._schema(number)[1]}
        return 404, {"error_code": 40402 if found else 404}

    def _schema(self, number: int) -> tuple[int, dict[str, Any]]:
        known = self.schemas.get(number)
        return (404, {"error_code": 40403}) if known is None else (200, {"schema": known})
