"""``spec.json`` of a lineage: the whole spec that it runs by (docs/adr/0055)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sessionizer.errors import DamagedFile
from sessionizer.home.json_file import require_json, write_json
from sessionizer.home.stamp import stamped

if TYPE_CHECKING:
    from sessionizer.home.control_root import ControlPath
    from sessionizer.home.json_record import JsonObject
    from sessionizer.home.stream_home import StreamHome

FORMAT: Final = 3
"""Formats 1 and 2 stand beside checkpoints that no driver goes on with any more (docs/adr/0071)."""


@dataclass(frozen=True, slots=True)
class LineageSpec:
    """The ``document`` of a spec as JSON, and the time ``since`` when the lineage runs by it (epoch ms).

    ``desired_at``: time since when the desired state of that moment held (epoch ms). ``former_sinks``: each
    ``sink.path`` that the lineage ran by before.
    """

    document: JsonObject
    since: int = 0
    desired_at: int = 0
    former_sinks: tuple[str | None, ...] = ()

    @property
    def sink(self) -> str | None:
        """The folder of the tables, as the spec has it. None is the stream's own data."""
        found = self.document.get("sink", {}).get("path")
        return None if found is None else str(found)


def read_lineage_spec(home: StreamHome, lineage: str) -> LineageSpec | None:
    """Read the record, None before the first driver of ``lineage``. Raises DamagedFile."""
    path = home.lineage(lineage).spec
    value = require_json(path, FORMAT)
    return None if value is None else _decoded(value, path)


def write_lineage_spec(home: StreamHome, lineage: str, spec: LineageSpec) -> None:
    """Write the record. Only the holder of the lease may, before its query starts. Raises UnwritablePath, DamagedFile.

    A folder of tables that the lineage leaves is remembered, because a restore looks into each.
    """
    former = _former_sinks(read_lineage_spec(home, lineage), spec)
    content = {"since": spec.since, "desired_at": spec.desired_at, "spec": spec.document, "former_sinks": former}
    write_json(home.lineage(lineage).spec, stamped(content, FORMAT))


def _former_sinks(before: LineageSpec | None, now: LineageSpec) -> list[str | None]:
    known = [*now.former_sinks, *((*before.former_sinks, before.sink) if before is not None else ())]
    return [folder for folder in dict.fromkeys(known) if folder != now.sink]


def _decoded(value: JsonObject, path: ControlPath) -> LineageSpec:
    document, since, desired_at = value.get("spec"), value.get("since"), value.get("desired_at")
    former = value.get("former_sinks", [])
    if not (isinstance(document, dict) and isinstance(since, int) and isinstance(desired_at, int)):
        raise DamagedFile(path, "it lacks the spec, or what belongs to it")
    if not (isinstance(former, list) and all(folder is None or isinstance(folder, str) for folder in former)):
        raise DamagedFile(path, "its former_sinks are no list of folders")
    return LineageSpec(document, since, desired_at, tuple(former))
