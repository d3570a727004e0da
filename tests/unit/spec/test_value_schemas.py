"""Schemas of values in bytes: the columns they give, the file beside the spec, and the fields around them."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.deployment.differences import MigrationEffects, OpenState, SinkColumns
from sessionizer.deployment.verdicts import spec_differences
from sessionizer.errors import InvalidSpec
from sessionizer.stream_spec import sql_words
from sessionizer.stream_spec.decisions import check_sql, decisions_of, document_of, source_columns, spec_fingerprint
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.effect import Verdict
from sessionizer.stream_spec.schema_columns import avro_columns, protobuf_columns
from sessionizer.stream_spec.spec_folder import load_stream
from sessionizer.stream_spec.sql_guard import Scope, refuse_sql
from sessionizer.stream_spec.sql_words import WordKind, words_of
from support.expected.sql_corpus import ACCEPTED, COLUMNS, MEASURES, REFUSED, REFUSED_MEASURES
from support.faults.bad_clicks import changed
from support.streams.spec_folder import EXAMPLES

FIELDS = [{"name": "u", "type": "string"}, {"name": "i", "type": "string"}, {"name": "page", "type": "string"}]
TIME = {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}}
IN_PLACE = Verdict.IN_PLACE
AVRO = {"format": "kafka", "bootstrap_servers": "broker:9092", "topic": "clicks", "encoding": "avro"}
REGISTRY = {"url": "https://registry:8081", "subject": "clicks-value"}


def record(*fields: Any, **others: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": list(fields), **others})


def read(folder: Path, text: str = record(*FIELDS, TIME), **source: Any) -> StreamSpec:
    (folder / "visits.avsc").write_text(text)
    spec = changed({"source": {**AVRO, "schema": "visits.avsc", **source}})
    (folder / "visits.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    return load_stream(folder / "visits.yaml")


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("int", "int"),
        (["null", "long"], "bigint"),
        (["int", "long"], "bigint"),
        (["float", "null", "double"], "double"),
        (["string", "int"], "struct<member0: string, member1: int>"),
        ({"type": "int", "logicalType": "date"}, "date"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "timestamp"),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "timestamp_ntz"),
        ({"type": "string", "logicalType": "uuid"}, "string"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "decimal(9,2)"),
        ({"type": "fixed", "name": "F", "size": 4}, "binary"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        ({"type": "array", "items": ["null", "string"]}, "array<string>"),
        ({"type": "map", "values": {"type": "array", "items": "bytes"}}, "map<string, array<binary>>"),
        ({"type": "record", "name": "P", "fields": [{"name": "x", "type": "double"}]}, "struct<x: double>"),
    ],
)
def test_each_type_of_avro_is_a_type_of_spark(kind: Any, column: str) -> None:
    assert avro_columns(record({"name": "f", "type": kind})) == f"f {column}"


def test_a_type_that_is_named_once_may_be_used_again() -> None:
    inner = {"type": "record", "name": "P", "namespace": "geo", "fields": [{"name": "x", "type": "int"}]}
    fields = [{"name": "a", "type": inner}, {"name": "b", "type": ["null", "geo.P"]}]
    assert avro_columns(record(*fields, namespace="shop")) == "a struct<x: int>, b struct<x: int>"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "in JSON"),
        ('"string"', "of a record"),
        (record({"name": "f", "type": "R"}), "R within itself"),
        (record({"name": "f", "type": "Unheard"}), "Unheard is not"),
        (record({"type": "int"}), "a name"),
        ('{"type": "record", "name": "R"}', "a list of fields"),
        (record({"name": "f", "type": 7}), "not 7"),
        (record({"name": "f int, g", "type": "int"}), "whose names match"),
        (record({"name": "f", "type": {"type": "bytes", "logicalType": "decimal"}}), "a precision"),
    ],
)
def test_what_is_no_schema_of_a_record_is_said(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        avro_columns(text)


def test_a_message_gives_its_columns() -> None:
    content = (EXAMPLES / "protobuf_clicks.desc").read_bytes()
    assert protobuf_columns(content, "shop.Click") == (
        "event_id string, user_id string, at timestamp, kind string, page string, amount_cents bigint, "
        "items array<struct<sku: string, count: bigint>>, labels map<string, string>"
    )


@pytest.mark.parametrize(
    ("content", "message", "said"),
    [
        (b"\xff", "shop.Click", "as protoc writes it"),
        (None, "shop.Clack", "the message shop.Clack"),
        (None, "Tree", "Tree within itself"),
    ],
)
def test_what_is_no_descriptor_of_the_message_is_said(content: bytes | None, message: str, said: str) -> None:
    tree = FileDescriptorSet()
    file = tree.file.add(name="tree.proto", syntax="proto3")
    kind = file.message_type.add(name="Tree")
    kind.field.add(name="left", number=1, type="TYPE_MESSAGE", label="LABEL_OPTIONAL", type_name=".Tree")
    with pytest.raises(ValueError, match=said):
        protobuf_columns(tree.SerializeToString() if content is None else content, message)


def test_a_spec_records_the_content_of_its_schema(tmp_path: Path) -> None:
    spec = read(tmp_path)
    check_sql(spec)
    assert set(source_columns(spec.source) or ()) >= {"u", "i", "t", "page", "kafka"}
    document = document_of(spec)
    assert json.loads(document["source"]["schema"]["content"])["fields"][0]["name"] == "u"
    (tmp_path / "visits.avsc").unlink()
    assert StreamSpec.model_validate(json.loads(json.dumps(document))) == spec


def test_a_changed_schema_is_another_spec_and_its_name_is_not(tmp_path: Path) -> None:
    first = read(tmp_path)
    more = read(tmp_path, record(*FIELDS, TIME, {"name": "more", "type": "int"}))
    assert spec_fingerprint(first) != spec_fingerprint(more)
    assert decisions_of(more)["source.schema.content"].startswith("sha256 ")
    (tmp_path / "other.avsc").write_text((tmp_path / "visits.avsc").read_text())
    assert spec_fingerprint(read(tmp_path, schema="other.avsc")) == spec_fingerprint(more)


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        (record(*FIELDS, TIME, {"name": "more", "type": "int"}), {"source column added": IN_PLACE}),
        (
            record(FIELDS[0], FIELDS[1], TIME),
            {"source column dropped": IN_PLACE, "column computed otherwise": Verdict.PARTIAL},
        ),
        (
            record(*FIELDS[:2], TIME, {"name": "page", "type": "long"}),
            {"source column retyped": IN_PLACE, "column of another type": Verdict.INCOMPATIBLE},
        ),
        (record(*FIELDS, TIME, doc="with words"), {}),
    ],
)
def test_an_upgrade_shows_a_changed_schema_by_its_columns(
    tmp_path: Path, schema: str, kinds: dict[str, Verdict]
) -> None:
    before, now = document_of(read(tmp_path)), document_of(read(tmp_path, schema))
    found = spec_differences(before, now, OpenState(), SinkColumns(), MigrationEffects.of(()))
    assert {each.kind: each.verdict for each in found} == {"schema changed": IN_PLACE, **kinds}


@pytest.mark.parametrize(
    ("source", "field"),
    [
        ({"schema": "absent.avsc"}, "source.schema"),
        ({"schema": "../visits.avsc"}, "source.schema"),
        ({"schema": "/etc/passwd"}, "source.schema"),
        ({"schema": "visits.yaml"}, "source.schema"),
        ({"schema": {"file": "visits.avsc", "columns": "u string", "content": "{}"}}, "source.schema"),
        ({"schema": None}, "source.schema"),
        ({"columns": "u string"}, "source.columns"),
        ({"message": "shop.Click"}, "source.message"),
        ({"encoding": "protobuf"}, "source.message"),
        ({"encoding": "protobuf", "message": "shop.Click"}, "source.schema"),
        ({"encoding": "text"}, "source.schema"),
        ({"encoding": "json", "columns": "u string", "schema": None, "registry": REGISTRY}, "source.registry"),
        ({"registry": REGISTRY, "schema": None}, "source.schema"),
        ({"registry": {**REGISTRY, "version": 3}}, "source.registry.version"),
        ({"registry": {**REGISTRY, "version": 0}, "schema": None}, "source.registry.version"),
        ({"registry": {**REGISTRY, "url": "ftp://registry"}}, "source.registry.url"),
        ({"registry": {**REGISTRY, "url": "https://"}}, "source.registry.url"),
        ({"registry": {**REGISTRY, "url": "https://ada:secret@registry"}}, "source.registry.url"),
        ({"registry": {**REGISTRY, "url": "https://registry?token=secret"}}, "source.registry.url"),
        ({"registry": {**REGISTRY, "subject": "a/b"}}, "source.registry.subject"),
        ({"registry": {**REGISTRY, "pasword": "x"}}, "source.registry.pasword"),
        ({"registry": {**REGISTRY, "credentials_from_environment": "ada:secret"}},
         "source.registry.credentials_from_environment"),
    ],
)  # fmt: skip
def test_fields_that_do_not_fit_are_refused_by_name(tmp_path: Path, source: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        read(tmp_path, **source)
    assert caught.value.field == field
    assert "secret" not in str(caught.value)


def test_a_schema_too_deep_to_read_is_refused_by_name(tmp_path: Path) -> None:
    deep = '{"type":"array","items":' * 5_000 + '"int"' + "}" * 5_000
    with pytest.raises(InvalidSpec) as caught:
        read(tmp_path, record({"name": "f", "type": "DEEP"}).replace('"DEEP"', deep))
    assert caught.value.field == "source.schema"


def test_the_registry_may_give_the_columns(tmp_path: Path) -> None:
    spec = read(tmp_path, schema=None, registry={**REGISTRY, "version": 3})
    assert source_columns(spec.source) is None
    assert spec.source.format == "kafka"
    assert spec.source.environment_variables == frozenset()


ROW, MEASURE, UNKNOWN = Scope({**COLUMNS, "a1": "string"}), Scope(COLUMNS, measure=True), Scope()


@pytest.mark.parametrize("sql", ACCEPTED)
def test_an_expression_over_its_row_passes(sql: str) -> None:
    assert refuse_sql(sql, ROW) is None
    assert refuse_sql(sql, UNKNOWN) is None


@pytest.mark.parametrize("sql", MEASURES)
def test_an_aggregate_of_events_passes(sql: str) -> None:
    assert refuse_sql(sql, MEASURE) is None
    assert "not the aggregate" in (refuse_sql(sql, ROW) or "")


@pytest.mark.parametrize(
    ("sql", "scope", "reason"),
    [(sql, of, why) for of, all_ in ((ROW, REFUSED), (MEASURE, REFUSED_MEASURES)) for sql, why in all_.items()],
)
def test_what_reaches_beyond_its_row_changes_or_is_no_measure_is_refused(sql: str, scope: Scope, reason: str) -> None:
    assert reason in (refuse_sql(sql, scope) or "")


@pytest.mark.parametrize("sql", [sql for sql, reason in REFUSED.items() if "None is called" not in reason])
def test_a_table_of_unknown_columns_permits_nothing_but_names(sql: str) -> None:
    if not any(column in sql for column in ("at <", "day =", "s.at", "coalesce(at")):
        assert refuse_sql(sql, UNKNOWN) is not None


def test_a_refused_name_is_told_with_the_columns_of_the_source() -> None:
    assert refuse_sql("user", Scope({"u": "", "ts": "", "_raw": ""})) == (
        "a column: u, ts. None is called user, so Spark takes it for user()"
    )


@given(st.lists(st.sampled_from([*"()[].,:'\"`\\-/*${};?xrR1 \n", "select", "u", "''", "\\'", "é"]), max_size=12))
def test_words_are_the_whole_text(parts: list[str]) -> None:
    sql = "".join(parts)
    words = words_of(sql)
    assert [sql[word.start : word.end] for word in words] == [word.written for word in words]
    taken = {at for word in words for at in range(word.start, word.end)}
    assert {char for at, char in enumerate(sql) if at not in taken} <= set(" \t\r\n")


def test_no_function_is_on_two_lists() -> None:
    kept = {name: value for name, value in vars(sql_words).items() if name.isupper() and name[0] != "_"}
    lists = [value for value in kept.values() if isinstance(value, frozenset | dict)]
    names = [name for listed in lists if listed is not sql_words.CLOCK_WITHOUT_ARGUMENTS for name in listed]
    assert len(names) == len(set(names)) > 500


def test_a_text_has_the_value_that_spark_gives_it() -> None:
    written = {r"'a\'b'": "a'b", r"'\u0041\x\n'": "Ax\n", r"'\101'": "A", r"r'\n'": r"\n", r"'\U00000041'": "A"}
    assert {word.written: word.value for text in written for word in words_of(text)} == written


SPEC: dict[str, Any] = {
    "name": "visits",
    "source": {"format": "files", "path": "in", "encoding": "json", "columns": "u string, ts bigint, s struct<a: int>"},
    "mapping": {"key": "u", "event_time": "timestamp_millis(ts)", "event_id": "s.a", "payload": {"page": "u"}},
}


def spec(**changes: object) -> StreamSpec:
    return StreamSpec.model_validate({**SPEC, **changes})


def test_all_sql_of_a_spec_is_checked_by_its_fields() -> None:
    mapping = {**SPEC["mapping"], "key": "user", "closes": "reflect('a')", "payload": {"page": "pages", "n": "uuid()"}}
    migrations = [{"id": "one", "key": "java_method('a')", "columns": {"page": "unknown", "n": "(select 1)"}}]
    with pytest.raises(InvalidSpec) as caught:
        check_sql(spec(mapping=mapping, migrations=migrations, measures={"hits": "count(u)", "pages": "max(page)"}))
    assert [caught.value.field, *(other.field for other in caught.value.others)] == [
        "mapping.key", "mapping.closes", "mapping.payload.page", "mapping.payload.n", "measures.hits",
        "migrations.one.key", "migrations.one.columns.n",
    ]  # fmt: skip
    check_sql(spec())


@pytest.mark.parametrize(
    ("ddl", "columns"),
    [
        ("u string, ts bigint not null comment 'a, b'", ["u", "ts"]),
        ("s struct<a: int, b: map<string, int>>, d decimal(10, 2), `A b` date", ["s", "d", "a b"]),
        ("u string -- x", None), ("u <", ["u"]), ("u >", None), (", u string", None),
    ],
)  # fmt: skip
def test_the_columns_of_a_source_are_those_of_its_ddl(ddl: str, columns: list[str] | None) -> None:
    found = source_columns(spec(source={**SPEC["source"], "columns": ddl}).source)
    assert (None if found is None else [name for name in found if name[0] != "_"]) == columns


def test_the_columns_of_a_table_are_not_known_and_those_of_kafka_are() -> None:
    assert source_columns(spec(source={"format": "delta", "path": "t"}).source) is None
    kafka = {"format": "kafka", "bootstrap_servers": "h:1", "topic": "t", "encoding": "text"}
    assert {"value", "kafka"} < set(source_columns(spec(source=kafka).source) or ())
    assert [word.kind for word in words_of("a\x00")] == [WordKind.NAME, WordKind.UNKNOWN]
