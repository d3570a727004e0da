"""``spec.json`` of a lineage: what the spec decided that its newest driver ran by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.atomic_file import JsonObject, examine_json, write_json
from sessionizer.errors import DamagedFile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sessionizer.control.stream_home import StreamHome


def read_lineage_spec(home: StreamHome, lineage: str) -> JsonObject | None:
    """Field to value; None before the first driver of ``lineage``. Raises DamagedFile."""
    reading = examine_json(_path(home, lineage))
    if reading.damage is not None:
        raise DamagedFile(_path(home, lineage), reading.damage)
    return reading.value


def write_lineage_spec(home: StreamHome, lineage: str, decisions: Mapping[str, object]) -> None:
    """Only the holder of the lease may, before its query starts. Raises UnwritablePath."""
    write_json(_path(home, lineage), decisions)


def _path(home: StreamHome, lineage: str) -> Path:
    return home.checkpoint(lineage).with_name("spec.json")
