"""Clicks in Avro and Protobuf in a real broker: sessions as defined, whatever else is in the topic."""

import base64
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sessionizer.core.definition.oracle import sessionize
from sessionizer.errors import SourceUnreachable
from sessionizer.spark.ingest.file_source.lines import FAULT, parse_lines
from sessionizer.spark.ingest.kafka_values.registry import SchemaIds
from sessionizer.spark.query.assembly import rules_of
from sessionizer_demo.feed.generator import Row
from sessionizer_demo.feed.rows.kinds import RowKind
from support.expected.landed import as_landed, is_valid, landed
from support.places import REPOSITORY
from support.processes.driver_process import DriverProcess, run_to_end
from support.processes.kafka_broker import KafkaBroker
from support.stores.schema_registry import SchemaRegistry
from support.streams.click_files import (
    CLICK,
    WITHOUT_DEVICE,
    avro_schema,
    avro_value,
    known_rows,
    protobuf_descriptor,
    protobuf_value,
)
from support.streams.kafka_clicks import Place, batches_of, kafka_spec, produce, read_so_far
from support.streams.stage import Stage

LOGIN = "ada:secret"
SUBJECT = "clicks-value"


def spec_of(broker: KafkaBroker, topic: str, **source: Any) -> dict[str, Any]:
    spec = kafka_spec(broker.bootstrap_servers, topic)
    del spec["source"]["columns"]
    spec["source"] |= source
    return spec


def clicks(count: int) -> list[Row]:
    """Rows that are valid events, late ones and duplicates among them."""
    return [row for row in known_rows(2 * count) if is_valid(row)][:count]


def bad(row: Row, value: bytes) -> Row:
    return replace(row, kind=RowKind.TRUNCATED, value=value)


def assert_landed(stage: Stage, topic: str, placed: dict[Place, Row], refused: dict[bytes, str]) -> None:
    """The tables hold the sessions of the definition, and each refused value with its reason."""
    outcome = sessionize(batches_of([(stage.checkpoint, None)], topic, placed), rules_of(stage.spec()))
    expected, found = as_landed(outcome, []), landed(stage)
    assert found.sessions == expected.sessions
    assert found.late == expected.late
    values = Counter((reason, base64.b64encode(value).decode()) for value, reason in refused.items())
    assert found.quarantine == expected.quarantine + values
    assert expected.sessions.total() > 10


@pytest.mark.long
def test_avro_by_its_registry(
    kafka_broker: KafkaBroker, kafka_topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older and newer writers, ids of other subjects and of none, bytes that are no Avro, a registry that is down."""
    monkeypatch.setenv("KAFKA_REGISTRY_LOGIN", LOGIN)
    rows = clicks(300)
    with SchemaRegistry(login=LOGIN, answers=503) as registry:
        registry.register(SUBJECT, 11, avro_schema(WITHOUT_DEVICE))
        registry.register(SUBJECT, 12, avro_schema())
        place = {"url": registry.url, "subject": SUBJECT, "credentials_from_environment": "KAFKA_REGISTRY_LOGIN"}
        spec = spec_of(kafka_broker, kafka_topic, encoding="avro", schema="clicks.avsc", registry=place)
        stage = Stage.set_up(tmp_path, spec)
        (stage.streams / "clicks.avsc").write_text(avro_schema())
        said = run_to_end(stage, "down", code=SourceUnreachable.exit_code)
        assert LOGIN not in said
        assert stage.lineage is None

        registry.answers = None
        older = [replace(row, event=replace(row.event, device=None)) for row in rows[:50]]  # type: ignore[arg-type]
        known = [replace(row, value=avro_value(11, row.event, WITHOUT_DEVICE)) for row in older]
        known += [replace(row, value=avro_value(12, row.event)) for row in rows[50:100]]
        broken = {known[-1].value[:-3]: "malformed", b'{"event_id": "e"}': "malformed", b"\0\0\0": "malformed"}
        placed = produce(kafka_broker, kafka_topic, [*known, *(bad(rows[0], value) for value in broken)])
        with DriverProcess.start(stage, "live", until="stopped") as driver:
            driver.wait_for(lambda: read_so_far(stage) >= len(placed), "reading what was there")
            registry.register(SUBJECT, 13, avro_schema(newer="int"))
            registry.register("other-value", 20, avro_schema())
            newer = [replace(row, value=avro_value(13, row.event, newer=7)) for row in rows[100:200]]
            newer += [replace(row, value=avro_value(20, row.event)) for row in rows[200:250]]
            absent = avro_value(99, rows[0].event)
            placed |= produce(kafka_broker, kafka_topic, [*newer, bad(rows[0], absent)])
            driver.wait_for(lambda: read_so_far(stage) >= len(placed), "reading values of schemas unknown before")
            driver.kill_all()
        assert stage.lineage
        assert SchemaIds.of(stage.stream_home, stage.lineage).asked() == {13, 20, 99}
        last = [replace(row, value=avro_value(13, row.event, newer=8)) for row in rows[250:]]
        placed |= produce(kafka_broker, kafka_topic, last)
        run_to_end(stage, "last")
    assert_landed(stage, kafka_topic, placed, {**broken, absent: "unknown_schema"})


@pytest.mark.long
@pytest.mark.parametrize("header", [b"", b"\0\0\0\0\x0b\x02\x02"], ids=["bare", "confluent"])
def test_protobuf_by_its_descriptor(kafka_broker: KafkaBroker, kafka_topic: str, tmp_path: Path, header: bytes) -> None:
    """Read values whose header names the second message of the file. Values of the first are refused."""
    rows, file = clicks(200), FileDescriptorSet.FromString(protobuf_descriptor()).file[0]
    with SchemaRegistry() as registry:
        registry.register(SUBJECT, 11, base64.b64encode(file.SerializeToString()).decode())
        source: dict[str, Any] = {"encoding": "protobuf", "schema": "clicks.desc", "message": CLICK}
        spec = spec_of(kafka_broker, kafka_topic, **source)
        if header:
            spec["source"]["registry"] = {"url": registry.url, "subject": SUBJECT}
        stage = Stage.set_up(tmp_path, spec)
        (stage.streams / "clicks.desc").write_bytes(protobuf_descriptor())
        good = [replace(row, value=header + protobuf_value(row.event)) for row in rows]
        broken = {header + protobuf_value(rows[0].event)[:-3]: "malformed", b"\xff\xff": "malformed"}
        if header:
            broken[header[:5] + b"\0"] = "malformed"
        placed = produce(kafka_broker, kafka_topic, [*good, *(bad(rows[0], value) for value in broken)])
        run_to_end(stage, "a")
    assert_landed(stage, kafka_topic, placed, broken)


PAGE = REPOSITORY / "docs" / "values.md"
ROW = re.compile(r"^\| `(.+)` \| `(.+)` \| (?:`(.+)`|refused) \|$", re.MULTILINE)
LEAST_ROWS = 25


def come_as(spark: SparkSession, values: list[tuple[str, str]]) -> list[tuple[str | None, str | None]]:
    """Read each value of JSON as a column of its type, all in one query."""
    parsed = [
        parse_lines(spark.createDataFrame([(f'{{"v":{value}}}',)], "value string"), "json", f"v {kind}", {}, 9_999)
        .select(F.lit(number).alias("number"), F.expr("cast(v as string) v"), FAULT)
        for number, (value, kind) in enumerate(values)
    ]  # fmt: skip
    rows = parsed[0]
    for each in parsed[1:]:
        rows = rows.unionAll(each)
    return [(row["v"], row[FAULT]) for row in sorted(rows.collect(), key=lambda row: int(row["number"]))]


def test_each_row_of_the_page(spark: SparkSession) -> None:
    found = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert len(found) > LEAST_ROWS
    wanted = [(text, None) if text else (None, "wrong_type") for _, _, text in found]
    came = come_as(spark, [(value, kind) for value, kind, _ in found])
    assert {row[:2]: each for row, each in zip(found, came, strict=True)} == {
        row[:2]: each for row, each in zip(found, wanted, strict=True)
    }


def test_of_two_fields_of_one_name_the_last_counts(spark: SparkSession) -> None:
    lines = ['{"v":1,"v":2}', '{"v":3,"v":null}', '{"V":1}']
    rows = parse_lines(spark.createDataFrame([(line,) for line in lines], "value string"), "json", "v int", {}, 99)
    assert {row["_raw"]: row["v"] for row in rows.collect()} == dict(zip(lines, [2, None, None], strict=True))


PIECES = [
    "\\",
    "\\\\",
    "u",
    '"',
    "ud83d",
    "a",
    "é",
    "\U0001f600",
    "\ud83d",
    "\ud83e",
    "\ude00",
    "\udfff",
    "\ud800",
    "\n",
]
TEXTS = st.lists(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), min_size=200, max_size=200)


def has_half_a_character(line: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in json.loads(line)["key"])


@settings(
    max_examples=3,
    derandomize=True,
    phases=[Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(texts=TEXTS)
def test_those_lines_are_refused_in_which_python_finds_half_a_character(spark: SparkSession, texts: list[str]) -> None:
    lines = [json.dumps({"key": text}) for text in texts]
    lines += [line.replace("\\ud", "\\uD") for line in lines]
    rows = parse_lines(spark.createDataFrame([(line,) for line in lines], "value string"), "json", "key string", {}, 99)
    wanted = {line: "invalid_utf8" if has_half_a_character(line) else None for line in lines}
    assert {row["_raw"]: row[FAULT] for row in rows.collect()} == wanted


def test_a_long_line_of_escapes_ends_no_task(spark: SparkSession) -> None:
    line = json.dumps({"key": "\U0001f600" * 40_000})
    rows = parse_lines(spark.createDataFrame([(line,)], "value string"), "json", "key string", {}, 1_000_000)
    assert [row[FAULT] for row in rows.collect()] == [None]
