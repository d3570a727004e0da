"""``types.json`` of a lineage: its time mode, and every type that each payload column ever had in it.

Open events keep what they came with, so any of these may still be in the state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sessionizer.errors import DamagedFile
from sessionizer.home.json_file import require_json, write_json
from sessionizer.home.stamp import stamped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer.home.stream_home import StreamHome


@dataclass(frozen=True, slots=True)
class KeptTypes:
    """Types of the ``payload``, by name, oldest first, each as Spark writes a type in JSON."""

    time_mode: str
    payload: Mapping[str, list[Any]] = field(default_factory=dict)

    def add_payload(self, types: Mapping[str, Any]) -> KeptTypes:
        """Add the types of the current payload."""
        names = {**self.payload, **types}
        return KeptTypes(self.time_mode, {name: self._add(name, types.get(name)) for name in names})

    def _add(self, name: str, now: Any) -> list[Any]:  # noqa: ANN401  JSON
        known = self.payload.get(name, [])
        return known if now is None or now in known else [*known, now]


def read_kept_types(home: StreamHome, lineage: str) -> KeptTypes | None:
    """Read the record, None before the first driver of ``lineage``. Raises DamagedFile."""
    path = home.lineage(lineage).types
    value = require_json(path)
    if value is None:
        return None
    time_mode, payload = value.get("time_mode"), value.get("payload")
    if not isinstance(time_mode, str) or not isinstance(payload, dict):
        raise DamagedFile(path, "it lacks the time mode, or the types of the payload")
    return KeptTypes(time_mode, payload)


def write_kept_types(home: StreamHome, lineage: str, kept: KeptTypes) -> None:
    """Write the record. Only the holder of the lease may, before its query starts. Raises UnwritablePath."""
    write_json(home.lineage(lineage).types, stamped({"time_mode": kept.time_mode, "payload": kept.payload}))
