"""A client of schema registries that speak Confluent's REST API. It only reads."""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Final, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from sessionizer.errors import InvalidSpec, SourceUnreachable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessionizer.stream_spec.document.value_schema import Registry

_Answer = TypeVar("_Answer")

WITHIN_S: Final = 10.0
"""Seconds to wait for an answer to begin, and for the next part of it. The whole may take three times as long."""
MOST_BYTES: Final = 4 * 1024 * 1024
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json"
_OK, _NOT_FOUND, _REFUSED = 200, 404, frozenset({401, 403})
SELF_CONTAINED: Final = {"avro": "resolved", "protobuf": "serialized"}
"""Forms of a schema that need no other text: Avro with its references, and Protobuf as a FileDescriptorProto."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema of the registry: its ``id``, the same in all subjects, and its ``text``."""

    id: int
    text: str


class _Registered(BaseModel):
    """A registry's answer about a schema. That about an id has no ``id``."""

    model_config = ConfigDict(strict=True)

    id: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    text: str = Field(alias="schema")


class _Absent(BaseModel):
    """A registry's answer that it has no such subject, version or id. A proxy's page is none."""

    error_code: Annotated[int, Field(ge=40_400, lt=40_500)]


_NUMBERS: Final = TypeAdapter(list[Annotated[int, Field(strict=True, ge=1)]])
_REGISTERED: Final = TypeAdapter(_Registered)


@dataclass(frozen=True, slots=True)
class RegistryClient:
    """A ``registry``, asked with ``login`` (``user:password``). Schemas come in the form of an ``encoding``.

    Each question raises SourceUnreachable if the registry does not answer, which a retry may cure, and InvalidSpec if
    it refuses the login.
    """

    registry: Registry
    encoding: str
    login: str | None = None

    def schemas(self) -> Iterator[RegisteredSchema]:
        """Yield the schema of each version of the subject. Raises InvalidSpec without such a subject."""
        subject = self.registry.subject
        numbers = self._ask(f"/subjects/{quote(subject, safe='')}/versions", _NUMBERS)
        if not numbers:
            allowed = f"a subject of the registry at {self.registry.url}"
            raise InvalidSpec("source.registry.subject", subject, allowed)
        yield from (self.version(number) for number in numbers)

    def version(self, number: int) -> RegisteredSchema:
        """Return the schema of version ``number`` of the subject. Raises InvalidSpec if there is none."""
        found = self._ask(f"/subjects/{quote(self.registry.subject, safe='')}/versions/{number}", _REGISTERED)
        if found is None:
            allowed = f"a version of {self.registry.subject} in the registry at {self.registry.url}"
            raise InvalidSpec("source.registry.version", number, allowed)
        if found.id is None:
            raise SourceUnreachable(self.registry.url, f"its answer about version {number} has no id")
        return RegisteredSchema(found.id, found.text)

    def schema(self, number: int) -> RegisteredSchema | None:
        """Return the schema with the id ``number``, None if the registry has none."""
        found = self._ask(f"/schemas/ids/{number}", _REGISTERED)
        return None if found is None else RegisteredSchema(number, found.text)

    def _ask(self, path: str, form: TypeAdapter[_Answer]) -> _Answer | None:
        """Return the answer, None if the registry does not have it."""
        url = f"{self.registry.url}{path}?format={SELF_CONTAINED[self.encoding]}"
        try:
            code, content = self._get(url)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise SourceUnreachable(self.registry.url, str(error) or type(error).__name__) from error
        if code in _REFUSED:
            name = self.registry.credentials_from_environment
            accepted = f"a login that the registry at {self.registry.url} accepts (it answers {code})"
            raise InvalidSpec("source.registry.credentials_from_environment", name, f"a variable with {accepted}")
        try:
            if code == _OK:
                return form.validate_json(content)
            if code == _NOT_FOUND:
                _Absent.model_validate_json(content)
                return None
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False)[0]["msg"]
            raise SourceUnreachable(self.registry.url, f"its answer is not a schema registry's: {found}") from error
        raise SourceUnreachable(self.registry.url, f"the registry answers {code}")

    def _get(self, url: str) -> tuple[int, bytes]:
        """Return the code and the content of an answer. Redirects are not followed: the login is for this registry."""
        user, _, password = (self.login or "").partition(":")
        client = httpx.Client(timeout=WITHIN_S, verify=_system_certificates(), headers={"Accept": _ACCEPT})
        begun, content = time.monotonic(), b""
        with client, client.stream("GET", url, auth=(user, password) if self.login else None) as answer:
            for part in answer.iter_bytes():
                content += part
                if len(content) > MOST_BYTES:
                    raise SourceUnreachable(self.registry.url, f"its answer has more than {MOST_BYTES:,} bytes")
                if time.monotonic() - begun > 3 * WITHIN_S:
                    raise SourceUnreachable(self.registry.url, f"its answer takes more than {3 * WITHIN_S:.0f} s")
        return answer.status_code, content


@cache
def _system_certificates() -> ssl.SSLContext:
    """Return the machine's own authorities, which httpx does not ask by default. Reading them takes a while."""
    return ssl.create_default_context()
