"""What a spec means once it is read: defaults, units, every source."""

from typing import Any

import pytest
from pydantic import ValidationError

from sessionizer.core.definition.rules import Clock
from sessionizer.stream_spec.document.source import DeltaSource, FilesSource, KafkaSource, SocketSource
from sessionizer.stream_spec.document.stream import StreamSpec
from support.faults.bad_clicks import ABSENT, KAFKA, changed


def read(changes: dict[str, Any]) -> StreamSpec:
    return StreamSpec.model_validate(changed(changes))


def test_defaults() -> None:
    spec = read({})
    assert spec.rules.model_dump() == {
        "clock": Clock.EVENT_TIME,
        "watermark_delay_ms": 600_000,
        "gap_timeout_ms": 1_800_000,
        "client_timeouts": {},
        "client_timeouts_table": None,
        "max_events": 10_000,
        "max_bytes": 67_108_864,
        "max_duration_ms": 86_400_000,
        "idle_after_ms": 60_000,
        "emit_every_ms": 30_000,
        "future_tolerance_ms": 600_000,
        "max_event_bytes": 524_288,
    }
    assert (spec.key_groups, spec.trigger_interval_ms) == (16, 10_000)
    assert (spec.sink.keep_events, spec.sink.path) == (True, None)
    assert (spec.description, spec.owner, spec.measures) == ("", "unowned", {})
    assert (spec.mapping.client, spec.mapping.closes, spec.mapping.timeout_ms) == (None, None, None)


def test_durations_are_milliseconds() -> None:
    spec = read(
        {
            "trigger_interval": "500 milliseconds",
            "mapping/client": "c",
            "rules": {
                "watermark_delay": "2 hours",
                "client_timeouts": {"acme": "1 day"},
                "max_duration": None,
                "emit_every": None,
            },
        },
    )
    assert spec.trigger_interval_ms == 500
    assert spec.rules.watermark_delay_ms == 7_200_000
    assert spec.rules.client_timeouts == {"acme": 86_400_000}
    assert (spec.rules.max_duration_ms, spec.rules.emit_every_ms) == (None, None)


@pytest.mark.parametrize("time_mode", ["processing_time", "none"])
def test_idle_after_is_off_where_the_clock_runs_by_itself(time_mode: str) -> None:
    spec = read({"rules/time_mode": time_mode, "mapping/event_time": ABSENT})
    assert spec.rules.clock is Clock(time_mode)
    assert spec.rules.idle_after_ms is None


def test_idle_after_can_be_switched_off() -> None:
    assert read({"rules/idle_after": None}).rules.idle_after_ms is None


@pytest.mark.parametrize(
    ("source", "model"),
    [
        ({"format": "files", "path": "f", "encoding": "text"}, FilesSource),
        ({"format": "files", "path": "f", "encoding": "csv", "columns": "a int"}, FilesSource),
        ({"format": "delta", "path": "lake/events"}, DeltaSource),
        (KAFKA, KafkaSource),
        ({"format": "socket", "host": "localhost", "port": 9999}, SocketSource),
        ({"format": "socket", "host": "h", "port": 1, "encoding": "json", "columns": "a int"}, SocketSource),
    ],
)
def test_every_source_is_read(source: dict[str, Any], model: type) -> None:
    spec = read({"source": source})
    assert isinstance(spec.source, model)
    assert spec.source.format == source["format"]


def test_kafka_begins_at_the_earliest_offset() -> None:
    source = read({"source": KAFKA | {"topic": "one,two"}}).source
    assert isinstance(source, KafkaSource)
    assert (source.topic, source.starting_offsets) == ("one,two", "earliest")


def test_options_are_text_as_spark_reads_it() -> None:
    source = read({"source/options": {"allowComments": True, "maxFilesPerTrigger": 10, "lineSep": ";"}}).source
    assert isinstance(source, FilesSource)
    assert source.options == {"allowComments": "true", "maxFilesPerTrigger": "10", "lineSep": ";"}


def test_secrets_are_named_by_their_environment_variable() -> None:
    source = read({"source": KAFKA | {"options_from_environment": {"kafka.sasl.jaas.config": "KAFKA_JAAS"}}}).source
    assert isinstance(source, KafkaSource)
    assert source.options_from_environment == {"kafka.sasl.jaas.config": "KAFKA_JAAS"}


def test_a_spec_never_changes() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        read({}).key_groups = 3
