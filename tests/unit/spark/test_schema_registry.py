"""The registry of schemas: what it is asked, what its answers mean, and the ids that a lineage remembers."""

import base64
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.duration_pb2 import DESCRIPTOR as DURATION_FILE
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP_FILE
from google.protobuf.wrappers_pb2 import DESCRIPTOR as WRAPPERS_FILE

from sessionizer.errors import InvalidSpec, SourceUnreachable
from sessionizer.home.record_file import RecordFile
from sessionizer.spark.ingest.kafka_values.records import parse_message
from sessionizer.spark.ingest.kafka_values.registry import (
    MOST_ASKED,
    RegistryClient,
    SchemaIds,
    asked_ids,
    find_writers,
    indexes_in_header,
    message_indexes,
    note_unknown_id,
)
from sessionizer.stream_spec.document.source import KafkaSource, Registry, ValueSchema
from sessionizer.stream_spec.schema_columns import protobuf_columns
from support.places import known
from support.processes.ports import served
from support.stores.schema_registry import SchemaRegistry
from support.streams.spec_folder import EXAMPLES, values_of

SUBJECT = "clicks-value"


@pytest.fixture
def server() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as found:
        found.register(SUBJECT, 11, '"one"')
        found.register(SUBJECT, 12, '"two"')
        found.register("other", 20, '"three"')
        yield found


def client(server: SchemaRegistry, login: str | None = None, encoding: str = "avro", **fields: Any) -> RegistryClient:
    registry = {"url": server.url, "subject": SUBJECT, "credentials_from_environment": "REGISTRY", **fields}
    return RegistryClient(Registry.model_validate(registry), encoding, login)


def source(encoding: str = "avro", message: str | None = None) -> KafkaSource:
    schema = ValueSchema(file="x", columns="u string", content="")
    return KafkaSource.model_validate(
        {"format": "kafka", "bootstrap_servers": "b:9", "topic": "t", "encoding": encoding, "schema": schema,
         "message": message}
    )  # fmt: skip


def test_versions_ids_and_what_is_not_there(server: SchemaRegistry) -> None:
    found = client(server)
    assert list(found.schemas()) == [(11, '"one"'), (12, '"two"')]
    assert found.version(2) == (12, '"two"')
    assert found.schema(20) == '"three"'
    assert found.schema(99) is None
    assert all(path.endswith("?format=resolved") for path in server.asked)
    with pytest.raises(InvalidSpec) as caught:
        found.version(3)
    assert caught.value.field == "source.registry.version"
    with pytest.raises(InvalidSpec) as caught:
        list(client(server, subject="clikcs").schemas())
    assert caught.value.field == "source.registry.subject"


def test_a_login_is_sent_and_one_that_is_refused_is_an_error_of_the_spec(server: SchemaRegistry) -> None:
    server.login = "ada:secret"
    assert client(server, "ada:secret").version(1)[0] == 11
    with pytest.raises(InvalidSpec) as caught:
        client(server, "ada:wrong").version(1)
    assert caught.value.field == "source.registry.credentials_from_environment"
    assert "wrong" not in str(caught.value)


@pytest.mark.parametrize("code", [500, 503, 429, 302])
def test_a_registry_that_fails_may_answer_later(server: SchemaRegistry, code: int) -> None:
    server.answers = code
    with pytest.raises(SourceUnreachable) as caught:
        client(server).version(1)
    assert caught.value.address == server.url
    assert str(code) in caught.value.cause
    assert len(server.asked) == 1, "a redirect was followed"


def test_a_registry_that_is_down_may_be_up_later(server: SchemaRegistry) -> None:
    with SchemaRegistry() as other:
        down = other.url
    with pytest.raises(SourceUnreachable):
        client(server, url=down).version(1)
    assert client(server).version(1)[0] == 11


def answer(body: bytes, head: str = "HTTP/1.1 200 OK", *more: str, length: int | None = None) -> bytes:
    lines = [head, *more, f"Content-Length: {len(body) if length is None else length}", "", ""]
    return "\r\n".join(lines).encode() + body


BAD_ANSWERS = {
    "nothing": b"",
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-",
    "a head without end": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 50_000,
    "no number as its length": b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}",
    "less than its length": answer(b"{}", length=100),
    "broken chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
    "no gzip": answer(b"{}", "HTTP/1.1 200 OK", "Content-Encoding: gzip"),
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "another code": answer(b'{"id": 1, "schema": "x"}', "HTTP/1.1 299 Maybe"),
    "a page": answer(b"<html>Sign in</html>"),
    "a page that is not found": answer(b"<html>Not found</html>", "HTTP/1.1 404 Not Found"),
    "another service's not found": answer(b'{"error_code": 404}', "HTTP/1.1 404 Not Found"),
    "null": answer(b"null"),
    "a number": answer(b"7"),
    "an empty object": answer(b"{}"),
    "a list of texts": answer(b'["1", "2"]'),
    "no schema": answer(b'{"id": 1}'),
    "a schema that is no text": answer(b'{"id": 1, "schema": {"type": "string"}}'),
    "an id that is text": answer(b'{"id": "1", "schema": "x"}'),
    "an id beyond four bytes": answer(b'{"id": 4294967296, "schema": "x"}'),
    "deep": answer(b"[" * 200_000),
    "no UTF-8": answer(b'{"id": 1, "schema": "\xff\xfe"}'),
    "too long": answer(b" " * (5 * 1024 * 1024)),
    "no such code": answer(b"{}", "HTTP/1.1 999 What"),
}


@pytest.fixture
def proxy() -> Iterator[tuple[str, list[bytes]]]:
    """A server on loopback, and the bytes that it answers with."""
    said: list[bytes] = []

    class Answer(StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            with suppress(OSError):
                self.wfile.write(said[0])

    with served(ThreadingTCPServer(("127.0.0.1", 0), Answer)) as port:
        yield f"http://127.0.0.1:{port}", said


@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_an_answer_that_is_no_registrys_may_be_one_later(name: str, proxy: tuple[str, list[bytes]]) -> None:
    url, said = proxy
    said.append(BAD_ANSWERS[name])
    registry = RegistryClient(Registry(url=url, subject=SUBJECT), "avro")
    for ask in (lambda: registry.version(1), lambda: list(registry.schemas())):
        with pytest.raises(SourceUnreachable) as caught:
            ask()
        assert caught.value.address == url


def test_writers_are_those_of_the_subject_and_of_ids_that_values_named(server: SchemaRegistry) -> None:
    found = find_writers(client(server), source(), {20, 99}, is_final=False)
    assert found.known == {11: '"one"', 12: '"two"', 20: '"three"'}
    assert found.absent == {99}
    assert not found.is_final
    assert find_writers(client(server), source(), range(100, 100 + MOST_ASKED), is_final=False).is_final


def test_a_schema_without_the_message_is_as_good_as_absent(server: SchemaRegistry) -> None:
    files = FileDescriptorSet.FromString((EXAMPLES / "protobuf_clicks.desc").read_bytes())
    written = {file.name: base64.b64encode(file.SerializeToString()).decode() for file in files.file}
    server.subjects, server.schemas = {}, {}
    server.register(SUBJECT, 11, written["protobuf_clicks.proto"])
    server.register(SUBJECT, 12, written["google/protobuf/timestamp.proto"])
    found = find_writers(client(server, encoding="protobuf"), source("protobuf", "shop.Click"), (), is_final=True)
    assert found.known == {11: "00"}
    assert found.absent == {12}
    assert server.asked[0].endswith("?format=serialized")


@pytest.mark.parametrize("schema", ['syntax = "proto3";', base64.b64encode(b"\xff\xff\xff").decode()])
def test_a_schema_that_is_no_descriptor_is_no_registrys_answer(server: SchemaRegistry, schema: str) -> None:
    server.register(SUBJECT, 13, schema)
    with pytest.raises(SourceUnreachable):
        find_writers(client(server, encoding="protobuf"), source("protobuf", "shop.Click"), (), is_final=True)


def test_the_place_of_a_message_in_its_file() -> None:
    file = FileDescriptorProto(package="shop", message_type=[{"name": "View"}, {"name": "Click"}])
    file.message_type[1].nested_type.add(name="Item")
    content = file.SerializeToString()
    names = ("shop.View", "shop.Click", "shop.Click.Item", "shop.Gone", "Click", "other.Click")
    assert [message_indexes(content, name) for name in names] == [(0,), (1,), (1, 0), None, None, None]


@pytest.mark.parametrize(
    ("path", "header"), [((0,), "00"), ((1,), "0202"), ((1, 0), "040200"), ((0, 0), "040000"), ((64,), "028001")]
)
def test_the_place_of_a_message_as_confluents_header_has_it(path: tuple[int, ...], header: str) -> None:
    assert indexes_in_header(path).hex() == header


def test_an_id_is_remembered_once(tmp_path: Path) -> None:
    ids = RecordFile(tmp_path / "schema_ids.json", SchemaIds)
    assert asked_ids(ids) == frozenset()
    unknown = RuntimeError("Job aborted: [USER_RAISED_EXCEPTION] [UNKNOWN_SCHEMA_ID 99] SQLSTATE: P0001")
    assert note_unknown_id(ids, RuntimeError("another")) is None
    assert "99" in str(note_unknown_id(ids, unknown))
    assert note_unknown_id(ids, unknown) is None
    assert asked_ids(ids) == {99}


ONE, MANY = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED
SIMPLE: dict[str, tuple[Any, Any]] = {
    "DOUBLE": (0.5, 0.5), "FLOAT": (0.5, 0.5), "INT32": (-1, -1), "SINT32": (-2, -2), "SFIXED32": (-3, -3),
    "UINT32": (2**32 - 1, 2**32 - 1), "FIXED32": (7, 7), "INT64": (-(2**63), -(2**63)), "SINT64": (-5, -5),
    "SFIXED64": (-6, -6), "UINT64": (2**64 - 1, Decimal(2**64 - 1)), "FIXED64": (8, Decimal(8)),
    "BOOL": (True, True), "STRING": ("ü", "ü"), "BYTES": (b"\xff", b"\xff"),
}  # fmt: skip
"""Each simple type, with a value and what it comes as."""
ARROW = {
    "double": pa.float64(), "float": pa.float32(), "int": pa.int32(), "bigint": pa.int64(), "boolean": pa.bool_(),
    "decimal(20,0)": pa.decimal128(20, 0), "string": pa.string(), "binary": pa.binary(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}  # fmt: skip
"""Arrow's types by Spark's, as Spark exchanges them with Python."""
KNOWN = {
    "Timestamp": ({"seconds": 1, "nanos": 2_000}, datetime(1970, 1, 1, 0, 0, 1, 2, tzinfo=UTC)),
    "Duration": ({"seconds": 1, "nanos": 2_000}, 1_000_002),
    "StringValue": ({"value": ""}, ""),
    "UInt64Value": ({"value": 3}, Decimal(3)),
}


def descriptor() -> bytes:
    """A message with a field of each simple type, its list, and the well-known messages."""
    files = FileDescriptorSet()
    for each in (DURATION_FILE, TIMESTAMP_FILE, WRAPPERS_FILE):
        each.CopyToProto(files.file.add())
    names = [file.name for file in files.file]
    file = FileDescriptorProto(name="all.proto", syntax="proto3", dependency=names)
    message = file.message_type.add(name="All")
    for number, name in enumerate(SIMPLE, start=1):
        kind = FieldDescriptorProto.Type.Value(f"TYPE_{name}")
        message.field.add(name=name.lower(), number=number, type=kind, label=ONE)
        message.field.add(name=f"{name.lower()}_list", number=100 + number, type=kind, label=MANY)
    for number, name in enumerate(KNOWN, start=200):
        kind = FieldDescriptorProto.TYPE_MESSAGE
        message.field.add(name=name.lower(), number=number, type=kind, label=ONE, type_name=f".google.protobuf.{name}")
    files.file.append(file)
    return bytes(files.SerializeToString())


def written(**fields: Any) -> bytes:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(descriptor()).file:
        pool.Add(file)
    return bytes(GetMessageClass(pool.FindMessageTypeByName("All"))(**fields).SerializeToString())


def as_column(value: Any, name: str) -> Any:
    """The value of the column as Spark gets it: in the type that the descriptor gives to it."""
    kind = dict(each.split(" ", 1) for each in protobuf_columns(descriptor(), "All").split(", "))[name]
    arrow = pa.list_(ARROW[kind[6:-1]]) if kind.startswith("array<") else ARROW[kind]
    return pa.array([value], arrow).to_pylist()[0]


@pytest.mark.parametrize("name", SIMPLE)
def test_each_simple_type_comes_with_each_of_its_values(name: str) -> None:
    given, wanted = SIMPLE[name]
    one, many = name.lower(), f"{name.lower()}_list"
    row = parse_message(descriptor(), "All", written(**{one: given, many: [given, given]})) or {}
    assert row.keys() == {one, many}
    assert as_column(row[one], one) == wanted
    assert as_column(row[many], many) == [wanted, wanted]


@pytest.mark.parametrize("name", KNOWN)
def test_known_messages_come_as_values(name: str) -> None:
    given, wanted = KNOWN[name]
    row = parse_message(descriptor(), "All", written(**{name.lower(): given})) or {}
    assert as_column(row[name.lower()], name.lower()) == wanted


def test_nested_messages_lists_maps_and_numbers_of_enums() -> None:
    content = (EXAMPLES / "protobuf_clicks.desc").read_bytes()
    rows = [parse_message(content, "shop.Click", value) for value in values_of("protobuf_clicks")]
    assert [row and row["event_id"] for row in rows] == ["e-1", "e-2", "e-3", "e-4", "e-5", "e-6", None, None, None]
    view, purchase, unheard = (known(rows[number]) for number in (0, 1, 3))
    assert view["labels"] == [("country", "DE")]
    assert view["at"] == datetime(2024, 3, 5, 14, 0, tzinfo=UTC).timestamp() * 1_000_000
    assert purchase["items"] == [{"sku": "p-7", "count": 2}, {"sku": "p-8", "count": 1}]
    assert (view["kind"], purchase["kind"], unheard["kind"]) == ("VIEW", "PURCHASE", "7")
    assert (view.get("amount_cents"), purchase["amount_cents"]) == (None, 3980)
