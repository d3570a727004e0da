"""A stand-in for a schema registry: a server on loopback that speaks the parts of Confluent's REST API that we use."""

import base64
import json
import re
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from support.processes.ports import Answering, served

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

        class Answer(Answering, BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                code, content = registry.reply_to(self.path, self.headers.get("Authorization"))
                self.answer(code, json.dumps(content).encode(), Location=f"{registry.url}/elsewhere")

        self._server = ExitStack()
        self.port = self._server.enter_context(served(ThreadingHTTPServer(("127.0.0.1", self.port), Answer)))
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def reply_to(self, path: str, authorization: str | None) -> tuple[int, Any]:
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
