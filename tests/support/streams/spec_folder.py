"""A folder of specs of which each has to be right."""

import base64
import json
from pathlib import Path
from typing import Any

from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import survey_streams
from support.places import REPOSITORY


def load_streams(folder: Path) -> dict[str, StreamSpec]:
    """Read all specs in ``folder``, by name; raises InvalidSpec and DuplicateStream."""
    found = survey_streams(folder)
    if found.problems:
        raise found.problems[0]
    return found.specs


EXAMPLES = REPOSITORY / "examples" / "streams"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.yaml"))


def values_of(name: str) -> list[bytes | None]:
    """The values of the example's rows, in their order. None is a tombstone."""
    rows = map(json.loads, (EXAMPLES / f"{name}.rows.jsonl").read_text(encoding="utf-8").splitlines())
    return [_value(row) for row in rows]


def _value(row: dict[str, Any]) -> bytes | None:
    if "value" in row:
        return str(row["value"]).encode()
    return None if row["value_base64"] is None else base64.b64decode(row["value_base64"])


def expected_file(name: str) -> Path:
    """The file with what the rows become: events, refused rows, sessions."""
    return EXAMPLES / f"{name}.expected.json"
