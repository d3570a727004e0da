"""Every way to get a spec wrong: one message with the field as typed, its value, what is allowed."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from sessionizer.errors import InvalidSpec
from sessionizer.stream_spec.document.names import RESERVED_NAMES
from sessionizer.stream_spec.document.reader_options import READER_OPTIONS, ReaderOptions
from sessionizer.stream_spec.document.source import Source, SourceWithOptions
from support.faults.bad_clicks import ABSENT, KAFKA
from support.fixtures.reviewed import Reviewed
from support.places import REPOSITORY

Refused = Callable[[dict[str, Any]], InvalidSpec]


WRONG: list[tuple[dict[str, Any], str, Any, str]] = [
    # changes, field, value as shown (... if it is long), part of what is allowed
    ({"rules/watermark_dely": "1 second"}, "rules.watermark_dely", "'1 second'", "Did you mean 'watermark_delay'"),
    ({"rules/watermark_delay_ms": 5}, "rules.watermark_delay_ms", "5", "Did you mean 'watermark_delay'"),
    ({"zzz": 1}, "zzz", "1", "a known key: name, description"),
    ({"source/pth": "x"}, "source.pth", "'x'", "Did you mean 'path'"),
    ({"mapping/key": ABSENT, "mapping/kye": "u"}, "mapping.kye", "'u'", "Did you mean 'key'? (1 more problem in this"),
    ({"mapping/key": ABSENT}, "mapping.key", "missing", "Add it. Key of the session"),
    ({"mapping/key": "  "}, "mapping.key", "'  '", "not empty"),
    ({"mapping/key": None}, "mapping.key", "null", "text"),
    ({"mapping/closes": False}, "mapping.closes", "false", "in quotes"),
    ({"mapping": []}, "mapping", "a list", "a block"),
    ({"mapping/payload/page": ""}, "mapping.payload.page", "''", "not empty"),
    ({"mapping/payload/Page": "p"}, "mapping.payload.Page", "'Page'", "a lower-case letter"),
    ({"mapping/payload/events": "p"}, "mapping.payload.events", "'events'", "other than the built-in ones"),
    ({"mapping/payload": {True: "p"}}, "mapping.payload.True", "True", "in quotes"),
    ({"mapping/event_time": ABSENT}, "mapping.event_time", "missing", "rules.time_mode is event_time"),
    ({"measures/page": "max(page)"}, "measures.page", "'max(page)'", "payload column"),
    (
        {"measures/due_at": "max(page)", "sink": {"open_sessions_every": "5 minutes"}},
        "measures.due_at",
        "'max(page)'",
        "open_sessions",
    ),
    ({"measures/key": "max(page)"}, "measures.key", "'key'", "other than the built-in ones"),
    ({"measures/hits": 1}, "measures.hits", "1", "text"),
    ({"rules/gap_timeout": 30}, "rules.gap_timeout", "30", "a unit"),
    ({"rules/gap_timeout": "0 seconds"}, "rules.gap_timeout", "'0 seconds'", "above 0"),
    ({"rules/time_mode": "wall"}, "rules.time_mode", "'wall'", "'event_time', 'processing_time' or 'none'"),
    ({"rules/max_events": 0}, "rules.max_events", "0", "at least 1"),
    ({"rules/max_bytes": None}, "rules.max_bytes", "null", "a whole number"),
    ({"rules/max_bytes": 2**30 + 1}, "rules.max_bytes", "1073741825", "at most 1073741824"),
    ({"rules/max_events": "many"}, "rules.max_events", "'many'", "a whole number"),
    ({"rules/max_events": True}, "rules.max_events", "true", "a whole number"),
    ({"rules/max_event_bytes": 0}, "rules.max_event_bytes", "0", "at least 1"),
    (
        {"rules/time_mode": "processing_time", "rules/idle_after": "1 minute"},
        "rules.idle_after",
        "'1 minute'",
        "time_mode is processing_time",
    ),
    (
        {"rules/time_mode": "none", "rules/max_events": None, "rules/max_duration": None},
        "mapping.closes",
        "missing",
        "nothing else ends a session",
    ),
    ({"rules/client_timeouts/acme": "1 hour"}, "mapping.client", "missing", "rules.client_timeouts is given"),
    ({"rules/client_timeouts_table": "t"}, "mapping.client", "missing", "rules.client_timeouts_table is given"),
    (
        {"mapping/client": "c", "rules/client_timeouts/acme": 5},
        "rules.client_timeouts.acme",
        "5",
        "a unit",
    ),
    ({"key_groups": 0}, "key_groups", "0", "at least 1"),
    ({"key_groups": 32_769}, "key_groups", "32769", "at most 32768"),
    ({"sink/keep_events": "yes"}, "sink.keep_events", "'yes'", "true or false"),
    *(
        ({field: place, "mapping/client": "c"}, field.replace("/", "."), repr(shown), "a place without credentials")
        for field in ("source/path", "sink/path", "rules/client_timeouts_table")
        for place, shown in (
            ("s3a://KEY:SECRET@b/x", "s3a://KEY:***@b/x"),
            ("s3://KEY@b/x", "s3://***@b/x"),
            ("hdfs://me:pw@host/x", "hdfs://me:***@host/x"),
        )
    ),
    *(
        ({field: place, "mapping/client": "c"}, field.replace("/", "."), repr(place), "such as s3://bucket/folder")
        for field in ("source/path", "sink/path", "rules/client_timeouts_table")
        for place in ("fe\0ed", "s3://[b/x", "hdfs://host:port/x")
    ),
    *(
        ({"sink/path": place}, "sink.path", repr(place), "takes for a pattern")
        for place in ("a[1]", "s3://b/{x}", "a`b")
    ),
    ({"rules/max_events": 2**53}, "rules.max_events", str(2**53), f"at most {2**53 - 1}"),
    ({"rules/max_event_bytes": 10**30}, "rules.max_event_bytes", str(10**30), f"at most {2**53 - 1}"),
    ({"source/columns": f"a {'array<' * 201}int{'>' * 201}"}, "source.columns", ..., "at most 200 brackets"),
    ({"mapping/key": f"{'(' * 250_000}a{')' * 250_000}"}, "mapping.key", ..., "at most 200 brackets"),
    ({"migrations": "none"}, "migrations", "'none'", "a list, whose lines begin with"),
    ({"source": KAFKA | {"registry": {"subject": "a"}}}, "source.registry.url", "missing", "Add it. Address of"),
    ({"source": KAFKA | {"registry": {"uri": "a"}}}, "source.registry.uri", "'a'", "Did you mean 'url'?"),
    *(
        ({"source": KAFKA | {"registry": {"url": url, "subject": "a"}}}, "source.registry.url", ..., "such as")
        for url in ("http://[a", "http://a:b", "http://a:0")
    ),
    ({"savepoints/every": "hourly"}, "savepoints.every", "'hourly'", "a unit"),
    ({"savepoints/at_least": 0}, "savepoints.at_least", "0", "at least 1"),
    ({"sink/table": "sessions"}, "sink.table", "'sessions'", "schema.table"),
    ({"sink/table": "web.`sessions"}, "sink.table", "'web.`sessions'", "schema.table"),
    ({"sink/table": "web.sessions; DROP TABLE x"}, "sink.table", "'web.sessions; DROP TABLE x'", "schema.table"),
    ({"sink/table": "Web.Sessions"}, "sink.table", "'Web.Sessions'", "lower-case"),
    ({"sink/table": "a.lake.web.sessions"}, "sink.table", "'a.lake.web.sessions'", "catalog.schema.table"),
    ({"retention/quarantine": "23 hours"}, "retention.quarantine", "'23 hours'", "at least 1 day"),
    ({"compaction/keep": "59 minutes"}, "compaction.keep", "'59 minutes'", "at least 1 hour"),
    ({"savepoints/evry": "1 hour"}, "savepoints.evry", "'1 hour'", "Did you mean 'every'"),
    ({"upgrades/window": "Sunday"}, "upgrades.window", "'Sunday'", "'Sun 03:00-05:00'"),
    ({"upgrades/window": "03:00-24:30"}, "upgrades.window", "'03:00-24:30'", "an end at 24:00 at the latest"),
    ({"upgrades/window": "03:00-03:00"}, "upgrades.window", "'03:00-03:00'", "not at the start"),
    ({"upgrades/window": "03:00-05:00 Mars/X"}, "upgrades.window", "'03:00-05:00 Mars/X'", "a time zone"),
    ({"upgrades/policy": "apply"}, "upgrades.window", "missing", "because policy is apply"),
    ({"upgrades/policy": "always"}, "upgrades.policy", "'always'", "'approve', 'apply' or 'refuse'"),
    ({"name": "Visits"}, "name", "'Visits'", "a lower-case letter"),
    ({"name": "a" * 64}, "name", repr("a" * 64), "62"),
    ({"name": "vists"}, "name", "'vists'", "the name of the file, 'visits'"),
    ({"source/format": ABSENT}, "source.format", "missing", "'files', 'delta', 'kafka', 'socket'"),
    ({"source/format": "kinesis"}, "source.format", "'kinesis'", "'files', 'delta', 'kafka', 'socket'"),
    ({"source/columns": ABSENT}, "source.columns", "missing", "which json needs"),
    ({"source/encoding": "text"}, "source.columns", "'u string, t timestamp, i string'", "`value` only"),
    ({"source/encoding": "avro"}, "source.encoding", "'avro'", "'json', 'csv', 'parquet' or 'text'"),
    ({"source/options/PATH": "x"}, "source.options.PATH", "'x'", "the stream sets it"),
    ({"source/options": {"a": {"b": 1}}}, "source.options.a", "a block", "text"),
    ({"source": KAFKA | {"topic": "ok,a b"}}, "source.topic", "'ok,a b'", "text that matches"),
    *(
        ({"source": KAFKA | {"bootstrap_servers": wrong}}, "source.bootstrap_servers", repr(wrong), f"such as {right}")
        for wrong, right in (
            ("localhost", "localhost:9092"),
            ("a:9092,b", "b:9092"),
            ("a:", "a:9092"),
            ("a:9092,", "localhost:9092"),
            ("a:0", "a:9092"),
            ("a:65536", "a:9092"),
            ("a:kafka", "a:9092"),
            (":9092", "localhost:9092"),
            ("PLAINTEXT://a:9092", "a:9092"),
        )
    ),
    ({"source": KAFKA | {"starting_offsets": "end"}}, "source.starting_offsets", "'end'", "'earliest' or 'latest'"),
    (
        {"source": KAFKA | {"options": {"failOnDataLoss": False}}},
        "source.options.failOnDataLoss",
        "false",
        "the stream sets it itself",
    ),
    (
        {"source": KAFKA | {"options": {"kafka.a": "1"}, "options_from_environment": {"kafka.a": "A"}}},
        "source.options.kafka.a",
        "'1'",
        "in one of the two blocks",
    ),
    *(
        ({"source": KAFKA | {block: {"kafka.config.providers": "ENV"}}}, "source.options", shown, "Kafka replaces")
        for block, shown in (("options", "a block"), ("options_from_environment", "missing"))
    ),
    (
        {"source": KAFKA | {"options_from_environment": {"kafka.client.id": "AIRFLOW__CORE__FERNET_KEY"}}},
        "source.options_from_environment.kafka.client.id",
        "'AIRFLOW__CORE__FERNET_KEY'",
        "Airflow itself",
    ),
    ({"source": {"format": "socket", "host": "h", "port": 70_000}}, "source.port", "70000", "at most 65535"),
]


@pytest.mark.parametrize(("changes", "field", "value", "allowed"), WRONG, ids=[case[1] for case in WRONG])
def test_the_message_names_field_value_and_what_is_allowed(
    refused: Refused,
    changes: dict[str, Any],
    field: str,
    value: Any,
    allowed: str,
) -> None:
    error = refused(changes)
    assert (error.field, ... if value is ... else repr(error.value)) == (field, value)
    assert allowed in error.allowed
    assert "\n" not in str(error)


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES))
@pytest.mark.parametrize("block", ["measures", "mapping/payload"])
def test_built_in_columns_cannot_be_taken(refused: Refused, block: str, name: str) -> None:
    error = refused({f"{block}/{name}": "max(page)"})
    assert error.field == f"{block.replace('/', '.')}.{name}"


SECRETS = [
    "kafka.sasl.jaas.config",
    "kafka.ssl.keystore.password",
    "kafka.ssl.keystore.key",
    "fs.s3a.access.key",
    "fs.s3a.secret.key",
    "accessKey",
    "apikey",
    "sessionToken",
    "credentials",
]
CODE_OF_KAFKA = [
    "kafka.interceptor.classes",
    "kafka.sasl.login.callback.handler.class",
    "kafka.ssl.engine.factory.class",
    "kafka.metric.reporters",
    "kafka.partition.assignment.strategy",
    "kafka.sasl.login.class",
    "kafka.sasl.client.callback.handler.class",
    "kafka.value.deserializer",
    "kafka.sasl.kerberos.kinit.cmd",
    "kafka.SASL.Kerberos.Kinit.CMD",
]
CODE_OF_HADOOP = [
    "fs.file.impl",
    "fs.AbstractFileSystem.file.impl",
    "parquet.crypto.factory.class",
    "parquet.encryption.kms.client.class",
    "hadoop.rpc.socket.factory.class.default",
    "mapreduce.input.pathFilter.class",
    "dfs.client.failover.proxy.provider.cluster",
    "hadoop.security.group.mapping",
    "io.compression.codecs",
    "io.serializations",
    "net.topology.script.file.name",
]


@pytest.mark.parametrize("option", [*SECRETS, *CODE_OF_KAFKA, *CODE_OF_HADOOP])
def test_an_option_that_is_a_secret_or_names_code_is_refused_with_its_place(refused: Refused, option: str) -> None:
    found = [refused({"source/options": {option: "hunter2"}})]
    if option not in CODE_OF_HADOOP:
        found.append(refused({"source": KAFKA | {"options": {option: "hunter2"}}}))
    for error, place in zip(found, ("Spark's own configuration", f"options_from_environment.{option}"), strict=False):
        assert error.field == f"source.options.{option}"
        assert place in error.allowed
        assert error.__cause__ is None
        assert option not in SECRETS or "hunter2" not in str(error)


@pytest.mark.parametrize(
    ("changes", "allowed"),
    [
        (
            {"source": KAFKA | {"options_from_environment": {"kafka.sasl.jaas.config": "user=me hunter2"}}},
            "environment variable",
        ),
        ({"source/password": "hunter2"}, "a known key"),
    ],
)
def test_a_secret_in_a_wrong_place_is_not_repeated(refused: Refused, changes: dict[str, Any], allowed: str) -> None:
    error = refused(changes)
    assert allowed in error.allowed
    assert "hunter2" not in str(error)


@pytest.mark.parametrize(
    "option", ["kafka.ssl.keystore.location", "minPartitions", "kafka.monkeys", "kafka.client.dns.lookup"]
)
def test_innocent_options_pass(refused: Refused, option: str) -> None:
    error = refused({"source": KAFKA | {"options": {option: "x"}}, "key_groups": 0})
    assert error.field == "key_groups"


def test_further_problems_are_counted(refused: Refused, reviewed: Reviewed) -> None:
    error = refused({"key_groups": 0, "rules/max_events": 0, "rules/gap_timeout": 5})
    reviewed(error.allowed)


def test_a_long_value_is_shortened(refused: Refused) -> None:
    assert len(str(refused({"rules/gap_timeout": "x" * 1_000_000}))) < 500


def test_the_line_is_named(refused: Refused) -> None:
    error = refused({"rules/max_events": 0})
    assert error.file is not None
    assert error.line is not None
    assert error.file.read_text().splitlines()[error.line - 1] == "  max_events: 0"
    assert str(error).startswith(f"{error.file}:{error.line}: rules.max_events is 0. Use ")


def test_what_has_no_other_value_is_said_in_the_imperative(refused: Refused) -> None:
    error = refused({"source/encoding": "text"})
    assert error.allowed.startswith("Omit ")
    assert "allowed" not in str(error)


PAGE = REPOSITORY / "docs" / "stream-spec.md"
FILES = ("text", "json", "csv", "parquet")
READERS = (*FILES, "delta", "kafka")
NAMES = sorted({name.replace("*", "x") for row in READER_OPTIONS for name in row.names.split()} | {"anything", "sep "})


def source_with(reader: str, option: str, value: str = "1", block: str = "options") -> SourceWithOptions:
    own = {
        "delta": {"format": "delta", "path": "t"},
        "kafka": {"format": "kafka", "bootstrap_servers": "b:1", "topic": "t", "encoding": "text"},
    }.get(reader, {"format": "files", "path": "f", "encoding": reader})
    columns = {"columns": "a string"} if reader in {"json", "csv", "parquet"} else {}
    source = TypeAdapter(Source).validate_python({**own, **columns, block: {option: value}})
    assert isinstance(source, SourceWithOptions)
    return source


@pytest.mark.parametrize("reader", READERS)
def test_an_option_is_taken_or_refused_by_name(reader: str) -> None:
    for option, given in ((name, written) for name in NAMES for written in (name, name.upper())):
        rows = [row for row in READER_OPTIONS if row.has(option) and reader in row.readers.split()]
        if rows and rows[0].advice is None:
            assert source_with(reader, given).options == {given: "1"}
            continue
        with pytest.raises(ValidationError) as refused:
            source_with(reader, given)
        assert refused.value.errors()[0]["ctx"]["at"] == ("options", given)


@pytest.mark.parametrize(
    ("reader", "option", "value"),
    [
        ("json", "latestFirst", "true"),
        ("parquet", "fileNameOnly", "true"),
        ("text", "ignoreCorruptFiles", "true"),
        ("csv", "unescapedQuoteHandling", "RAISE_ERROR"),
        ("delta", "readChangeFeed", "true"),
        ("delta", "failOnDataLoss", "false"),
        ("delta", "mergeSchema", "true"),
        ("kafka", "failOnDataLoss", "false"),
        ("kafka", "minOffsetsPerTrigger", "1000"),
        ("kafka", "multiLine", "true"),
    ],
)
def test_an_option_that_loses_events_is_refused(reader: str, option: str, value: str) -> None:
    with pytest.raises(ValidationError) as refused:
        source_with(reader, option, value)
    found = refused.value.errors()[0]["ctx"]
    assert (found["at"], found["value"]) == (("options", option), value)


def test_an_option_from_the_environment_is_refused_alike() -> None:
    with pytest.raises(ValidationError) as refused:
        source_with("kafka", "maxTriggerDelay", "DELAY", "options_from_environment")
    assert refused.value.errors()[0]["ctx"]["at"] == ("options_from_environment", "maxTriggerDelay")


def test_the_closest_option_is_named() -> None:
    with pytest.raises(ValidationError, match="recursiveFileLookup'"):
        source_with("text", "recursiveFileLookUps", "true")


def page_rows(rows: list[ReaderOptions]) -> str:
    def names(row: ReaderOptions) -> str:
        readers = row.readers.replace(" ".join(FILES), "files").replace(" ", ", ")
        return f"| {readers} | {', '.join(f'`{name}`' for name in row.names.split())} | {row.effect} |\n"

    return "".join(map(names, rows))


@pytest.mark.parametrize(
    ("head", "is_taken"),
    [("| source | taken | effect |\n|---|---|---|\n", True), ("| source | refused | why |\n|---|---|---|\n", False)],
)
def test_the_page_shows_every_option(head: str, is_taken: bool, request: pytest.FixtureRequest) -> None:
    text = PAGE.read_text()
    wanted = head + page_rows([row for row in READER_OPTIONS if (row.advice is None) == is_taken])
    if request.config.getoption("--rewrite-golden"):
        text = re.sub(re.escape(head) + r"(\|.*\n)*", lambda _: wanted, text)
        PAGE.write_text(text)
    assert f"{wanted}\n" in text, "differs from the table in the code. Run pytest with --rewrite-golden"
