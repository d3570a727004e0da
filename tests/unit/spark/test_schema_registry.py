"""The registry of schemas: what it is asked, what its answers mean, and the ids that a lineage remembers."""

from __future__ import annotations

import base64
from contextlib import suppress
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from sessionizer.errors import InvalidSpec, SourceUnreachable
from sessionizer.spark.ingest.kafka_values.registry import (
    MOST_ASKED,
    RegisteredSchema,
    RegistryClient,
    SchemaIds,
    find_writers,
    indexes_in_header,
    message_indexes,
)
from sessionizer.stream_spec.document.source import KafkaSource, Registry, ValueSchema
from support.stores.schema_registry import SchemaRegistry
from support.streams.example_streams import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

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
    assert list(found.schemas()) == [RegisteredSchema(11, '"one"'), RegisteredSchema(12, '"two"')]
    assert found.version(2).id == 12
    assert found.schema(20) == RegisteredSchema(20, '"three"')
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
    assert client(server, "ada:secret").version(1).id == 11
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
    gone = client(server)
    with SchemaRegistry() as other:
        down = other.url
    with pytest.raises(SourceUnreachable):
        client(server, url=down).version(1)
    assert gone.version(1).id == 11


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

    with ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", said
        server.shutdown()


@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_an_answer_that_is_no_registrys_may_be_one_later(name: str, proxy: tuple[str, list[bytes]]) -> None:
    url, said = proxy
    said.append(BAD_ANSWERS[name])
    registry = RegistryClient(Registry(url=url, subject=SUBJECT), "avro")
    asks: list[Callable[[], object]] = [lambda: registry.version(1), lambda: list(registry.schemas())]
    for ask in asks:
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
    ids = SchemaIds(tmp_path / "schema_ids.json")
    assert ids.asked() == frozenset()
    unknown = RuntimeError("Job aborted: [USER_RAISED_EXCEPTION] [UNKNOWN_SCHEMA_ID 99] SQLSTATE: P0001")
    assert ids.meet(RuntimeError("another")) is None
    assert "99" in str(ids.meet(unknown))
    assert ids.meet(unknown) is None
    assert ids.asked() == {99}
