"""The columns that a schema of values gives, as Spark DDL: of Avro and of Protobuf."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor


_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Avro's own rule for names."""
MOST_DIGITS: Final = 38
"""Digits of Spark's widest decimal."""
_AVRO_TYPES: Final = {
    "boolean": "boolean", "int": "int", "long": "bigint", "float": "float", "double": "double", "bytes": "binary",
    "string": "string", "enum": "string", "fixed": "binary", "null": "void",
}  # fmt: skip
_LOGICAL: Final = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
}
_WIDER: Final = ((frozenset({"int", "bigint"}), "bigint"), (frozenset({"float", "double"}), "double"))
"""Pairs of types that become one type, if a union is of the two."""


def avro_columns(text: str) -> str:
    """Return the columns of the record that ``text`` describes, as Spark DDL.

    Raises ValueError, which says what is wrong, if it is no schema of a record, or of a record within itself.
    """
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise ValueError(f"an Avro schema in JSON ({error})") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ValueError("an Avro schema of a record")
    return ", ".join(_Reading().columns(schema, ""))


@dataclass(slots=True)
class _Reading:
    """The reading of a schema. ``named``: its named types so far. ``inside``: the records around the present place."""

    named: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    inside: list[str] = field(default_factory=list)

    def columns(self, record: Mapping[str, Any], space: str) -> list[str]:
        return [f"{name} {kind}" for name, kind in self._fields(record, space)]

    def _fields(self, record: Mapping[str, Any], space: str) -> Iterator[tuple[str, str]]:
        name, space = self._note(record, space)
        if name in self.inside:
            raise ValueError(f"an Avro schema of records that end, not {name} within itself")
        self.inside.append(name)
        fields = record.get("fields")
        if not isinstance(fields, list):
            raise ValueError("an Avro schema with a list of fields in each record")  # noqa: TRY004  wrong content
        for each in fields:
            found = _text_of(each, "name")
            if not _NAME.fullmatch(found):  # it becomes a column and so a part of SQL
                raise ValueError(f"an Avro schema whose names match {_NAME.pattern}, not {found!r}")
            yield found, self._type(each.get("type"), space)
        self.inside.pop()

    def _note(self, named: Mapping[str, Any], space: str) -> tuple[str, str]:
        """Remember a named type, and return its full name and its namespace."""
        own = _text_of(named, "name")
        space = own.rpartition(".")[0] or str(named.get("namespace", space))
        name = _full_name(own, space)
        self.named[name] = {**named, "namespace": space}
        return name, space

    def _type(self, schema: object, space: str) -> str:
        match schema:
            case str() as name if name in _AVRO_TYPES:
                return _AVRO_TYPES[name]
            case str() as name:
                if (found := self.named.get(_full_name(name, space))) is None:
                    raise ValueError(f"an Avro schema whose types are all declared: {name} is not")
                return self._described(found, space)
            case list():
                return self._union(schema, space)
            case dict():
                return self._described(schema, space)
        raise ValueError(f"an Avro schema, not {schema!r} in it")

    def _described(self, schema: Mapping[str, Any], space: str) -> str:
        match schema.get("type"):
            case "record":
                return f"struct<{', '.join(f'{name}: {kind}' for name, kind in self._fields(schema, space))}>"
            case "array":
                return f"array<{self._type(schema.get('items'), space)}>"
            case "map":
                return f"map<string, {self._type(schema.get('values'), space)}>"
            case "enum" | "fixed" as kind:
                self._note(schema, space)
                return self._logical(schema, kind, space)
            case str() as kind:
                return self._logical(schema, kind, space)
            case inner:
                return self._type(inner, space)

    def _logical(self, schema: Mapping[str, Any], kind: str, space: str) -> str:
        logical = schema.get("logicalType")
        if logical == "decimal" and kind in {"bytes", "fixed"}:
            return f"decimal({_number_of(schema, 'precision')},{_number_of({'scale': 0, **schema}, 'scale')})"
        return _LOGICAL.get((kind, str(logical))) or self._type(kind, space)

    def _union(self, branches: list[object], space: str) -> str:
        kinds = [self._type(branch, space) for branch in branches if branch != "null"]
        if len(kinds) == 1:
            return kinds[0]
        for pair, wider in _WIDER:
            if set(kinds) == pair:
                return wider
        return f"struct<{', '.join(f'member{number}: {kind}' for number, kind in enumerate(kinds))}>"


def _full_name(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _text_of(block: object, key: str) -> str:
    found = block.get(key) if isinstance(block, dict) else None
    if not isinstance(found, str):
        raise ValueError(f"an Avro schema with a {key} for each record and field")  # noqa: TRY004  wrong content
    return found


def _number_of(block: Mapping[str, Any], key: str) -> int:
    found = block.get(key)
    if not isinstance(found, int) or not 0 <= found <= MOST_DIGITS:
        raise ValueError(f"an Avro schema with a {key} of at most {MOST_DIGITS} in each decimal")
    return found


TIMESTAMP: Final = "google.protobuf.Timestamp"
DURATION: Final = "google.protobuf.Duration"
WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
"""Messages around one ``value``, which may be absent."""
_PROTOBUF_TYPES: Final = {
    "double": "double", "float": "float", "bool": "boolean", "string": "string", "bytes": "binary", "enum": "string",
    "int32": "int", "sint32": "int", "sfixed32": "int", "uint32": "bigint", "fixed32": "bigint",
    "int64": "bigint", "sint64": "bigint", "sfixed64": "bigint", "uint64": "decimal(20,0)", "fixed64": "decimal(20,0)",
}  # fmt: skip
"""Spark's types by those of Protobuf. A type without a sign gets one that has all of its values."""


def message_descriptor(content: bytes, message: str) -> Descriptor:
    """Return the descriptor of ``message`` (its full name) in ``content``, a FileDescriptorSet.

    Raises ValueError, which says what is wrong.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorSet  # noqa: PLC0415  only streams with Protobuf need it
    from google.protobuf.descriptor_pool import DescriptorPool  # noqa: PLC0415
    from google.protobuf.message import DecodeError  # noqa: PLC0415

    pool = DescriptorPool()
    try:
        for file in FileDescriptorSet.FromString(content).file:
            pool.Add(file)
        return pool.FindMessageTypeByName(message)
    except KeyError as error:
        raise ValueError(f"a descriptor set that has the message {message}, with its imports") from error
    except (DecodeError, TypeError) as error:
        raise ValueError(f"a descriptor set as protoc writes it ({error})") from error


def protobuf_columns(content: bytes, message: str) -> str:
    """Return the columns of ``message`` as Spark DDL. Raises ValueError for a message within itself, too."""
    descriptor = message_descriptor(content, message)
    return ", ".join(f"{each.name} {_type(each, (message,))}" for each in descriptor.fields)


def is_map(field: FieldDescriptor) -> bool:
    """Whether ``field`` is a map, which Protobuf keeps as a list of entries."""
    kind = field.message_type
    return kind is not None and kind.GetOptions().map_entry


def _type(field: FieldDescriptor, inside: Sequence[str]) -> str:
    if is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return f"map<{_single(key, inside)}, {_single(value, inside)}>"
    return f"array<{_single(field, inside)}>" if field.is_repeated else _single(field, inside)


def _single(field: FieldDescriptor, inside: Sequence[str]) -> str:
    message = field.message_type
    if message is None:
        return _simple(field)
    if message.full_name == TIMESTAMP:
        return "timestamp"
    if message.full_name == DURATION:
        return "bigint"
    if message.full_name in WRAPPERS:
        return _simple(message.fields_by_name["value"])
    if message.full_name in inside:
        raise ValueError(f"messages that end, not {message.full_name} within itself")
    fields = (f"{each.name}: {_type(each, (*inside, message.full_name))}" for each in message.fields)
    return f"struct<{', '.join(fields)}>"


def _simple(field: FieldDescriptor) -> str:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto  # noqa: PLC0415

    return _PROTOBUF_TYPES[FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()]
