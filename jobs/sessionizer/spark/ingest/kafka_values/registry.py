"""A client of schema registries that speak Confluent's REST API. It only reads."""

from __future__ import annotations

import base64
import re
import ssl
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, Final, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from sessionizer.errors import InvalidSpec, SourceUnreachable
from sessionizer.home.json_record import JsonRecord
from sessionizer.home.record_file import LineageFile, RecordFile

if TYPE_CHECKING:
    from sessionizer.stream_spec.document.source import KafkaSource, Registry


_Answer = TypeVar("_Answer")

WITHIN_S: Final = 10.0
"""Seconds to wait for an answer to begin, and for the next part of it. The whole may take three times as long."""
MOST_BYTES: Final = 4 * 1024 * 1024
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json"
_OK, _NOT_FOUND, _REFUSED = 200, 404, frozenset({401, 403})
SELF_CONTAINED: Final = {"avro": "resolved", "protobuf": "serialized"}
"""Forms of a schema that need no other text: Avro with its references, and Protobuf as a FileDescriptorProto."""


class RegisteredSchema(BaseModel):
    """A registry's answer about a schema. Its ``id`` is the same in all subjects. An answer about an id has none."""

    model_config = ConfigDict(strict=True)

    id: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    text: str = Field(alias="schema")


class _Absent(BaseModel):
    """A registry's answer that it has no such subject, version or id. A proxy's page is none."""

    error_code: Annotated[int, Field(ge=40_400, lt=40_500)]


_NUMBERS: Final = TypeAdapter(list[Annotated[int, Field(strict=True, ge=1)]])
_REGISTERED: Final = TypeAdapter(RegisteredSchema)


@dataclass(frozen=True, slots=True)
class RegistryClient:
    """A ``registry``, asked with ``login`` (``user:password``). Schemas come in the form of an ``encoding``.

    Each question raises SourceUnreachable if the registry does not answer, which a retry may cure, and InvalidSpec if
    it refuses the login.
    """

    registry: Registry
    encoding: str
    login: str | None = None

    def schemas(self) -> Iterator[tuple[int, str]]:
        """Yield the id and the text of each version of the subject. Raises InvalidSpec without such a subject."""
        subject = self.registry.subject
        if not (numbers := self._ask(f"/subjects/{quote(subject, safe='')}/versions", _NUMBERS)):
            allowed = f"a subject of the registry at {self.registry.url}"
            raise InvalidSpec("source.registry.subject", subject, allowed)
        yield from (self.version(number) for number in numbers)

    def version(self, number: int) -> tuple[int, str]:
        """Return the id and the text of version ``number`` of the subject. Raises InvalidSpec if there is none."""
        found = self._ask(f"/subjects/{quote(self.registry.subject, safe='')}/versions/{number}", _REGISTERED)
        if found is None:
            allowed = f"a version of {self.registry.subject} in the registry at {self.registry.url}"
            raise InvalidSpec("source.registry.version", number, allowed)
        if found.id is None:
            raise SourceUnreachable(self.registry.url, f"its answer about version {number} has no id")
        return found.id, found.text

    def schema(self, number: int) -> str | None:
        """Return the text of the schema with the id ``number``, None if the registry has none."""
        found = self._ask(f"/schemas/ids/{number}", _REGISTERED)
        return None if found is None else found.text

    def _ask(self, path: str, form: TypeAdapter[_Answer]) -> _Answer | None:
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
        # httpx does not ask the machine's own authorities by default
        client = httpx.Client(timeout=WITHIN_S, verify=_certificates(), headers={"Accept": _ACCEPT})
        begun, content = time.monotonic(), b""
        with client, client.stream("GET", url, auth=(user, password) if self.login else None) as answer:
            for part in answer.iter_bytes():
                content += part
                if len(content) > MOST_BYTES:
                    raise SourceUnreachable(self.registry.url, f"its answer has more than {MOST_BYTES:,} bytes")
                if time.monotonic() - begun > 3 * WITHIN_S:
                    raise SourceUnreachable(self.registry.url, f"its answer takes more than {3 * WITHIN_S:.0f} s")
        return answer.status_code, content


_certificates: Final = cache(ssl.create_default_context)


MOST_ASKED: Final = 1_000
"""Number of ids after which a lineage asks for no more, because a producer writes ids at random."""
UNKNOWN_ID: Final = "UNKNOWN_SCHEMA_ID"


@dataclass(frozen=True, slots=True)
class Writers:
    """The ``known`` schemas by id: of Avro the JSON, of Protobuf the bytes that follow the id, in hex.

    A value with an id in ``absent`` is quarantined. One with any other id ends the query, so that the registry is asked
    for it, unless ``is_final``.
    """

    known: Mapping[int, str] = field(default_factory=dict)
    absent: frozenset[int] = frozenset()
    is_final: bool = True


@dataclass(frozen=True, slots=True)
class SchemaIds(JsonRecord):
    """The record of the ids in values of a lineage that its subject does not have: the registry is asked for them."""

    ids: tuple[int, ...]


SCHEMA_IDS_FILE: Final = LineageFile("schema_ids.json", SchemaIds)


def asked_ids(file: RecordFile[SchemaIds]) -> frozenset[int]:
    """Return the ids that the registry is to be asked for. Raises DamagedFile, ControlUnreachable."""
    found = file.require()
    return frozenset() if found is None else frozenset(found.ids)


def note_unknown_id(file: RecordFile[SchemaIds], error: Exception) -> str | None:
    """Remember the id that ended a query with ``error``, and return a text about it. None for another error."""
    found, asked = re.search(rf"\[{UNKNOWN_ID} (\d+)\]", str(error)), asked_ids(file)
    if found is None or int(found[1]) in asked:
        return None
    file.write(SchemaIds(tuple(sorted({*asked, int(found[1])}))))
    return f"a value names schema {found[1]}, for which the registry is asked"


def find_writers(client: RegistryClient, source: KafkaSource, asked: Collection[int], *, is_final: bool) -> Writers:
    """Return the schemas of the subject, and of the ``asked`` ids. Raises SourceUnreachable, InvalidSpec."""
    registered = dict(client.schemas())
    others = ((number, client.schema(number)) for number in set(asked) - registered.keys())
    registered |= {number: text for number, text in others if text is not None}
    try:
        known = {number: _known_as(each, source) for number, each in sorted(registered.items())}
    except ValueError as error:
        cause = f"its answer is not a Protobuf schema in base64: {error}"
        raise SourceUnreachable(client.registry.url, cause) from error
    return Writers(
        known={number: text for number, text in known.items() if text is not None},
        absent=frozenset({*asked} - registered.keys()) | {number for number, text in known.items() if text is None},
        is_final=is_final or len(asked) >= MOST_ASKED,
    )


def _known_as(schema: str, source: KafkaSource) -> str | None:
    """Return what a value with this schema is known by. None if the schema lacks the message of the source."""
    if source.encoding == "avro":
        return schema
    path = message_indexes(base64.b64decode(schema, validate=True), source.message or "")
    return None if path is None else indexes_in_header(path).hex()


def message_indexes(file: bytes, message: str) -> tuple[int, ...] | None:
    """Return the place of ``message`` in ``file``, a FileDescriptorProto. Raises ValueError for another content."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto  # noqa: PLC0415  only Protobuf needs it
    from google.protobuf.message import DecodeError  # noqa: PLC0415

    try:
        found = FileDescriptorProto.FromString(file)
    except DecodeError as error:
        raise ValueError(str(error)) from error
    if found.package and not message.startswith(f"{found.package}."):
        return None
    inner, path = found.message_type, []
    for name in message.removeprefix(f"{found.package}.").split("."):
        if (place := next((place for place, each in enumerate(inner) if each.name == name), None)) is None:
            return None
        path.append(place)
        inner = inner[place].nested_type
    return tuple(path)


def indexes_in_header(path: tuple[int, ...]) -> bytes:
    """Return the place of a message as Confluent's header has it: a zero for the first message of a file."""
    if path == (0,):
        return b"\0"
    return b"".join(_varint(number << 1) for number in (len(path), *path))


def _varint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:  # noqa: PLR2004  seven bits a byte
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))
