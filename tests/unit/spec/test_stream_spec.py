"""What a spec means once it is read: defaults, units, every source."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from pydantic import ValidationError
from typer.testing import CliRunner

from sessionizer.cli.app import app
from sessionizer.core.definition.rules import Clock
from sessionizer.stream_spec.document.source import DeltaSource, FilesSource, KafkaSource, SocketSource
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.document.upgrades import DAYS, Upgrades, parse_window
from sessionizer.stream_spec.spec_text import SCHEMA_FILE, stream_schema, stream_schema_text
from support.faults.bad_clicks import ABSENT, KAFKA, changed
from support.places import REPOSITORY
from support.streams.spec_folder import EXAMPLES, NAMES, expected_file, load_streams, values_of


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


@pytest.mark.parametrize("time_mode", ["processing_time", "none", "event_time"])
def test_idle_after_is_off_where_the_clock_runs_by_itself_or_it_is_switched_off(time_mode: str) -> None:
    off = {"rules/idle_after": None} if time_mode == "event_time" else {"mapping/event_time": ABSENT}
    spec = read({"rules/time_mode": time_mode, **off})
    assert (spec.rules.clock, spec.rules.idle_after_ms) == (Clock(time_mode), None)


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


SECRET = {"kafka.sasl.jaas.config": "KAFKA_JAAS"}
OPTIONS = {"allowComments": True, "maxFilesPerTrigger": 10, "lineSep": ";"}


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"source": KAFKA | {"topic": "one,two"}}, "topic", "one,two"),
        ({"source": KAFKA}, "starting_offsets", "earliest"),
        ({"source": KAFKA | {"options_from_environment": SECRET}}, "options_from_environment", SECRET),
        # text as Spark reads it
        (
            {"source/options": OPTIONS},
            "options",
            {"allowComments": "true", "maxFilesPerTrigger": "10", "lineSep": ";"},
        ),
    ],
)
def test_a_field_of_a_source_is_read(changes: dict[str, Any], field: str, value: object) -> None:
    assert getattr(read(changes).source, field) == value


def test_a_spec_never_changes() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        read({}).key_groups = 3


STREAMS = REPOSITORY / "dags" / "streams"
EXAMPLES_OF_SPEC_SCHEMA = sorted(STREAMS.glob("*.yaml"))


def accepts(spec: dict[str, Any]) -> bool:
    return bool(Draft202012Validator(stream_schema()).is_valid(spec))


def test_the_published_schema_is_up_to_date() -> None:
    assert (STREAMS / SCHEMA_FILE).read_text() == stream_schema_text(), "run: sessionizer spec schema"


def test_it_is_a_schema_in_which_every_key_is_described_and_durations_are_text() -> None:
    Draft202012Validator.check_schema(stream_schema())
    assert stream_schema()["title"] == "Stream spec"
    assert stream_schema()["$schema"].endswith("2020-12/schema")
    undescribed = [
        f"{block}.{key}"
        for block, schema in (("StreamSpec", stream_schema()), *stream_schema()["$defs"].items())
        for key, facts in schema.get("properties", {}).items()
        if not facts.get("description")
    ]
    assert undescribed == []
    rules = stream_schema()["$defs"]["Rules"]["properties"]
    assert rules["watermark_delay"]["default"] == "10 minutes"
    assert rules["idle_after"]["default"] == "1 minute"
    assert rules["max_duration"]["default"] == "1 day"


@pytest.mark.parametrize("example", EXAMPLES_OF_SPEC_SCHEMA, ids=lambda path: path.stem)
def test_the_examples_satisfy_it(example: Path) -> None:
    assert example.read_text().startswith(f"# yaml-language-server: $schema={SCHEMA_FILE}\n")
    assert accepts(yaml.safe_load(example.read_text()))


def test_the_examples_are_streams() -> None:
    assert set(load_streams(STREAMS)) >= {"clicks", "access_log"}


GOOD: list[dict[str, Any]] = [
    {},
    {"source": KAFKA},
    {"source": KAFKA | {"topic": "a,b"}},
    {"source/options": {"header": True, "maxFilesPerTrigger": 10}},
    {"rules/idle_after": None},
    {"mapping/closes": None},
]
BAD: list[dict[str, Any]] = [
    {"zzz": 1},
    {"name": "Visits"},
    {"rules/gap_timeout": "0 seconds"},
    {"rules/gap_timeout": 30},
    {"rules/time_mode": "wall"},
    {"measures/Upper": "1"},
    {"measures/session_id": "1"},
    {"mapping/payload/event_id": "1"},
    {"key_groups": 0},
    {"source/format": "kinesis"},
    {"source": KAFKA | {"topic": "a b"}},
]


@pytest.mark.parametrize("changes", [*GOOD, *BAD])
def test_it_accepts_what_the_models_accept(changes: dict[str, Any]) -> None:
    assert accepts(changed(changes)) == (changes in GOOD)


REFERENCE = REPOSITORY / "docs" / "stream-spec.md"
BLOCKS = [
    ("", None),
    ("mapping.", "Mapping"),
    ("rules.", "Rules"),
    ("sink.", "Sink"),
    ("savepoints.", "Savepoints"),
    ("compaction.", "Compaction"),
    ("retention.", "RowAges"),
    ("upgrades.", "Upgrades"),
    ("source.", "FilesSource"),
    ("source.", "DeltaSource"),
    ("source.", "KafkaSource"),
    ("source.registry.", "Registry"),
    ("source.", "SocketSource"),
]


def rows() -> list[str]:
    return [line for line in REFERENCE.read_text().splitlines() if line.startswith("| `")]


@pytest.mark.parametrize(("prefix", "block"), BLOCKS)
def test_every_key_has_its_row(prefix: str, block: str | None) -> None:
    schema: dict[str, Any] = stream_schema()
    properties = (schema["$defs"][block] if block else schema)["properties"]
    for key, facts in properties.items():
        if block is None and (key == "source" or f"{key}." in dict(BLOCKS)):
            continue
        row = f"| `{prefix}{key}` |"
        default = facts.get("default")
        shown = f"| `{json.dumps(default).strip(chr(34))}` |" if default not in (None, "") else "|"
        assert any(line.startswith(row) and shown in line and facts["description"] in line for line in rows()), row


LEAST = {"segment", "snowplow", "ga4", "combined_log", "cloudevents", "avro_clicks", "protobuf_clicks"}


def test_the_examples_are_those_that_the_page_of_sources_tells_of() -> None:
    assert set(NAMES) >= LEAST


@pytest.mark.parametrize("name", NAMES)
def test_an_example_passes_the_check_of_specs(name: str) -> None:
    done = CliRunner().invoke(app, ["spec", "check", name, "--streams", str(EXAMPLES)])
    assert (done.exit_code, done.output.split()[:2]) == (0, ["ok", name]), done.output


@pytest.mark.parametrize("name", NAMES)
def test_each_row_of_an_example_becomes_an_event_or_is_refused(name: str) -> None:
    expected = json.loads(expected_file(name).read_text(encoding="utf-8"))
    assert len(expected["events"]) + len(expected["refused"]) == len(values_of(name))
    assert expected["sessions"]
    assert expected["refused"]


MINUTE = 60_000
WEEK = 7 * 24 * 60 * MINUTE
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe")


def ms(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


@pytest.mark.parametrize(
    ("window", "moment", "until"),
    [
        # 29 November 2026 is a Sunday
        ("Sun 03:00-05:00", "2026-11-29T02:59", None),
        ("Sun 03:00-05:00", "2026-11-29T03:00", "2026-11-29T05:00"),
        ("Sun 03:00-05:00", "2026-11-29T04:59", "2026-11-29T05:00"),
        ("Sun 03:00-05:00", "2026-11-29T05:00", None),
        ("Sun 03:00-05:00", "2026-11-30T04:00", None),
        ("03:00-05:00", "2026-11-30T04:00", "2026-11-30T05:00"),
        ("Sat,Sun 03:00-05:00", "2026-11-28T04:00", "2026-11-28T05:00"),
        ("Mon-Fri 03:00-05:00", "2026-11-28T04:00", None),
        ("Fri-Mon 03:00-05:00", "2026-11-30T04:00", "2026-11-30T05:00"),
        ("Sun 22:00-01:00", "2026-11-30T00:30", "2026-11-30T01:00"),
        ("Sun 22:00-01:00", "2026-11-29T00:30", None),
        ("Sun 22:00-24:00", "2026-11-29T23:59", "2026-11-30T00:00"),
        ("00:00-24:00", "2026-11-29T00:00", "2026-11-30T00:00"),
        ("Sun 03:00-05:00 Europe/Berlin", "2026-11-29T02:00", "2026-11-29T04:00"),
        ("Sun 03:00-05:00 Europe/Berlin", "2026-07-05T01:00", "2026-07-05T03:00"),
        # on 28 March 2027 the clocks of Berlin leave out the hour from two to three
        ("Sun 02:00-03:00 Europe/Berlin", "2027-03-28T01:00", "2027-03-28T02:00"),
        ("Sun 02:30-03:00 Europe/Berlin", "2027-03-28T01:30", "2027-03-28T02:00"),
    ],
)
def test_a_moment_is_inside_or_outside(window: str, moment: str, until: str | None) -> None:
    expected = None if until is None else ms(until)
    assert parse_window(window).open_until(ms(moment)) == expected
    assert Upgrades.model_validate({"window": window}).open_until(ms(moment)) == expected


def test_without_a_window_nothing_is_open() -> None:
    assert Upgrades().open_until(ms("2026-11-29T04:00")) is None


times = st.integers(0, 24 * 60 - 1).map(lambda minute: f"{minute // 60:02}:{minute % 60:02}")
windows = st.builds(
    lambda day, start, end, zone: f"{day} {start}-{end} {zone}", st.sampled_from(DAYS), times, times,
    st.sampled_from(ZONES),
).filter(lambda text: text.split()[1][:5] != text.split()[1][6:])  # fmt: skip
moments = st.datetimes(datetime(2026, 1, 1), datetime(2036, 1, 1)).map(  # noqa: DTZ001  hypothesis wants naive ones
    lambda each: int(each.replace(tzinfo=UTC).timestamp() * 1000)
)


@given(windows, moments)
def test_a_window_opens_at_its_start_and_is_closed_at_its_end(window: str, now: int) -> None:
    hours = parse_window(window)
    start = hours.next_start(now)
    assert now < start <= now + WEEK + 3 * 60 * MINUTE
    local = datetime.fromtimestamp(start / 1000, hours.zone)
    skipped = local.utcoffset() != (local - timedelta(hours=4)).utcoffset()
    assert skipped or f"{DAYS[local.weekday()]} {local:%H:%M}" == window[:9]
    until = hours.open_until(start)
    assert until is not None
    assert start < until
    assert hours.open_until(until - 1) == until
    assert hours.open_until(until) is None


@given(windows, moments)
def test_an_open_window_ends_within_a_day_and_the_next_begins_later(window: str, now: int) -> None:
    hours = parse_window(window)
    until = hours.open_until(now)
    if until is not None:
        assert now < until <= now + 25 * 60 * MINUTE
        assert hours.next_start(now) >= until - 60 * MINUTE
