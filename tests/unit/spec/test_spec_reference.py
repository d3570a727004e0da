"""The reference page: no key missing, no default out of date."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessionizer.stream_spec.document.stream import stream_schema
from support.places import REPOSITORY

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
        if block is None and key in {"source", "mapping", "rules", "sink", "savepoints", "compaction", "upgrades"}:
            continue
        row = f"| `{prefix}{key}` |"
        default = facts.get("default")
        shown = f"| `{json.dumps(default).strip(chr(34))}` |" if default not in (None, "") else "|"
        assert any(line.startswith(row) and shown in line and facts["description"] in line for line in rows()), row
