"""Schemas that values were written with, by the id in Confluent's header: a zero byte, and four bytes of the id."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sessionizer.errors import SourceUnreachable
from sessionizer.home.json_record import add_stamp
from sessionizer.home.record_file import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sessionizer.home.roots import ControlPath
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.spark.ingest.kafka_values.registry import RegisteredSchema, RegistryClient
    from sessionizer.stream_spec.document.source import KafkaSource

MOST_ASKED: Final = 1_000
"""Number of ids after which a lineage asks for no more, because a producer writes ids at random."""
UNKNOWN_ID: Final = "UNKNOWN_SCHEMA_ID"
_IDS: Final = "ids"
_NAMED: Final = re.compile(rf"\[{UNKNOWN_ID} (\d+)\]")
_FIRST_MESSAGE: Final = (0,)


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
class SchemaIds:
    """Ids in values of a lineage that its subject does not have, as ``record`` remembers them."""

    record: ControlPath

    @classmethod
    def of(cls, home: StreamHome, lineage: str) -> SchemaIds:
        """Return the ids of ``lineage``."""
        return cls(home.lineage(lineage).schema_ids)

    def asked(self) -> frozenset[int]:
        """Return the ids that the registry is to be asked for. Raises DamagedFile."""
        return frozenset((read_json(self.record) or {}).get(_IDS, []))

    def meet(self, error: Exception) -> str | None:
        """Remember the id that ended a query with ``error``, and return a text about it. None for another error."""
        found = _NAMED.search(str(error))
        asked = self.asked()
        if found is None or int(found[1]) in asked:
            return None
        write_json(self.record, add_stamp({_IDS: sorted({*asked, int(found[1])})}))
        return f"a value names schema {found[1]}, for which the registry is asked"


def find_writers(client: RegistryClient, source: KafkaSource, asked: Collection[int], *, is_final: bool) -> Writers:
    """Return the schemas of the subject, and of the ``asked`` ids. Raises SourceUnreachable, InvalidSpec."""
    registered = {each.id: each for each in client.schemas()}
    registered |= {each.id: each for each in map(client.schema, set(asked) - registered.keys()) if each is not None}
    try:
        known = {number: _known_as(each, source) for number, each in sorted(registered.items())}
    except ValueError as error:
        raise SourceUnreachable(
            client.registry.url, f"its answer is not a Protobuf schema in base64: {error}"
        ) from error
    return Writers(
        known={number: text for number, text in known.items() if text is not None},
        absent=frozenset({*asked} - registered.keys()) | {number for number, text in known.items() if text is None},
        is_final=is_final or len(asked) >= MOST_ASKED,
    )


def _known_as(schema: RegisteredSchema, source: KafkaSource) -> str | None:
    """Return what a value with this schema is known by. None if the schema lacks the message of the source."""
    if source.encoding == "avro":
        return schema.text
    path = message_indexes(base64.b64decode(schema.text, validate=True), source.message or "")
    return None if path is None else indexes_in_header(path).hex()


def message_indexes(file: bytes, message: str) -> tuple[int, ...] | None:
    """Return the place of ``message`` (its full name) in ``file``, a FileDescriptorProto. None if it is not there.

    Raises ValueError for another content.
    """
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
        place = next((place for place, each in enumerate(inner) if each.name == name), None)
        if place is None:
            return None
        path.append(place)
        inner = inner[place].nested_type
    return tuple(path)


def indexes_in_header(path: tuple[int, ...]) -> bytes:
    """Return the place of a message as Confluent's header has it: a zero for the first message of a file."""
    if path == _FIRST_MESSAGE:
        return b"\0"
    return b"".join(_varint(number << 1) for number in (len(path), *path))


def _varint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:  # noqa: PLR2004  seven bits a byte
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))
