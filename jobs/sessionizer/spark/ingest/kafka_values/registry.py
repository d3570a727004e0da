"""A client of schema registries that speak Confluent's REST API. It only reads."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import HTTPRedirectHandler, Request, build_opener

from sessionizer.errors import InvalidSpec, SourceUnreachable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessionizer.stream_spec.document.value_schema import Registry

WITHIN_S: Final = 10.0
"""Seconds to wait for an answer."""
MOST_BYTES: Final = 4 * 1024 * 1024
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json"
_NOT_FOUND, _REFUSED = 404, frozenset({401, 403})
SELF_CONTAINED: Final = {"avro": "resolved", "protobuf": "serialized"}
"""Forms of a schema that need no other text: Avro with its references, and Protobuf as a FileDescriptorProto."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema of the registry: its ``id``, the same in all subjects, and its ``text``."""

    id: int
    text: str


class _NoRedirect(HTTPRedirectHandler):
    """A refusal of redirects, because the credentials are for this registry only."""

    def redirect_request(self, *_: object) -> None:
        """Return no request, so that the answer counts as an error."""


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
        numbers = self._ask(f"/subjects/{quote(subject, safe='')}/versions")
        if not numbers:
            allowed = f"a subject of the registry at {self.registry.url}"
            raise InvalidSpec("source.registry.subject", subject, allowed)
        yield from (self.version(number) for number in numbers)

    def version(self, number: int) -> RegisteredSchema:
        """Return the schema of version ``number`` of the subject. Raises InvalidSpec if there is none."""
        found = self._ask(f"/subjects/{quote(self.registry.subject, safe='')}/versions/{number}")
        if found is None:
            allowed = f"a version of {self.registry.subject} in the registry at {self.registry.url}"
            raise InvalidSpec("source.registry.version", number, allowed)
        return RegisteredSchema(found["id"], found["schema"])

    def schema(self, number: int) -> RegisteredSchema | None:
        """Return the schema with the id ``number``, None if the registry has none."""
        found = self._ask(f"/schemas/ids/{number}")
        return None if found is None else RegisteredSchema(number, found["schema"])

    def _ask(self, path: str) -> Any:  # noqa: ANN401  JSON
        """Return the answer, None if the registry does not have it."""
        url = f"{self.registry.url}{path}?format={SELF_CONTAINED[self.encoding]}"
        request = Request(url, headers={"Accept": _ACCEPT})  # noqa: S310  the spec checks that it is http(s)
        if self.login is not None:
            request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(self.login.encode()).decode()}")
        try:
            with build_opener(_NoRedirect).open(request, timeout=WITHIN_S) as answer:
                return json.loads(answer.read(MOST_BYTES))
        except HTTPError as error:
            with error:
                return self._refused(error)
        except (OSError, ValueError) as error:
            raise SourceUnreachable(self.registry.url, str(error)) from error

    def _refused(self, error: HTTPError) -> None:
        """Return None if the registry does not have it, or raise the error of an answer without it."""
        if error.code == _NOT_FOUND:
            return
        if error.code not in _REFUSED:
            raise SourceUnreachable(self.registry.url, f"the registry answers {error.code}") from error
        name = self.registry.credentials_from_environment
        allowed = f"a variable with a login that the registry at {self.registry.url} accepts (it answers {error.code})"
        raise InvalidSpec("source.registry.credentials_from_environment", name, allowed) from error
