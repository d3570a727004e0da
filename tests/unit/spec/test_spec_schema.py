"""The published JSON Schema and the reference page: up to date, complete, and of one mind with the models."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from sessionizer.stream_spec.spec_text import SCHEMA_FILE, stream_schema, stream_schema_text
from support.faults.bad_clicks import KAFKA, changed
from support.places import REPOSITORY
from support.streams.spec_folder import load_streams

STREAMS = REPOSITORY / "dags" / "streams"
EXAMPLES = sorted(STREAMS.glob("*.yaml"))


def blocks(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "StreamSpec", schema
    yield from schema["$defs"].items()


def accepts(spec: dict[str, Any]) -> bool:
    return bool(Draft202012Validator(stream_schema()).is_valid(spec))


def test_the_published_schema_is_up_to_date() -> None:
    assert (STREAMS / SCHEMA_FILE).read_text() == stream_schema_text(), "run: sessionizer spec schema"


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(stream_schema())
    assert stream_schema()["title"] == "Stream spec"
    assert stream_schema()["$schema"].endswith("2020-12/schema")


def test_every_key_is_described() -> None:
    undescribed = [
        f"{block}.{key}"
        for block, schema in blocks(stream_schema())
        for key, facts in schema.get("properties", {}).items()
        if not facts.get("description")
    ]
    assert undescribed == []


def test_defaults_of_durations_are_text() -> None:
    rules = stream_schema()["$defs"]["Rules"]["properties"]
    assert rules["watermark_delay"]["default"] == "10 minutes"
    assert rules["idle_after"]["default"] == "1 minute"
    assert rules["max_duration"]["default"] == "1 day"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_satisfy_it(example: Path) -> None:
    assert example.read_text().startswith(f"# yaml-language-server: $schema={SCHEMA_FILE}\n")
    assert accepts(yaml.safe_load(example.read_text()))


def test_the_examples_are_streams() -> None:
    assert set(load_streams(STREAMS)) >= {"clicks", "access_log"}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"source": KAFKA},
        {"source": KAFKA | {"topic": "a,b"}},
        {"source/options": {"header": True, "maxFilesPerTrigger": 10}},
        {"rules/idle_after": None},
        {"mapping/closes": None},
    ],
)
def test_it_accepts_what_the_models_accept(changes: dict[str, Any]) -> None:
    assert accepts(changed(changes))


@pytest.mark.parametrize(
    "changes",
    [
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
    ],
)
def test_it_refuses_what_the_models_refuse(changes: dict[str, Any]) -> None:
    assert not accepts(changed(changes))


REFERENCE = REPOSITORY / "docs" / "stream-spec.md"
BLOCKS = [
    ("", None),
    ("mapping.", "Mapping"),
    ("rules.", "Rules"),
    ("sink.", "Sink"),
    ("savepoints.", "Savepoints"),
    ("compaction.", "Compaction"),
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
