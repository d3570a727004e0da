"""``spec.json`` and ``types.json`` of a lineage: the whole spec that it runs by (docs/adr/0055), and its types.

The types are its time mode, and every type that each payload column ever had in it. Open events keep what they came
with, so any of these may still be in the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeAlias

from sessionizer.home.json_record import JsonRecord, UnfitValue
from sessionizer.home.record_file import LineageFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sessionizer.home.json_record import JsonObject
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.stream_spec.document.stream import StreamSpec

SinkFolder: TypeAlias = str | None
"""``sink.path`` of a spec. None is the stream's own data."""


@dataclass(frozen=True, slots=True)
class LineageSpec:
    """The ``document`` of a spec as JSON, and the time ``since`` when the lineage runs by it (epoch ms).

    ``desired_at``: time since when the desired state of that moment held (epoch ms). ``former_sinks``: each
    ``sink.path`` that the lineage ran by before. ``rescaled_over``: the number of key groups in the file when a user
    rescaled the stream to another one.
    """

    document: JsonObject
    since: int = 0
    desired_at: int = 0
    former_sinks: tuple[SinkFolder, ...] = ()
    rescaled_over: int | None = None

    FORMAT: ClassVar[int] = 3
    """Formats 1 and 2 stand beside checkpoints that no driver goes on with any more (docs/adr/0071)."""

    @property
    def sink(self) -> str | None:
        """The folder of the tables, as the spec has it. None is the stream's own data."""
        found = self.document.get("sink", {}).get("path")
        return None if found is None else str(found)

    def to_json(self) -> JsonObject:
        """Return the content of the file."""
        former = list(self.former_sinks)
        over = {} if self.rescaled_over is None else {"rescaled_over": self.rescaled_over}
        own = {"since": self.since, "desired_at": self.desired_at, "spec": self.document, "former_sinks": former}
        return {**own, **over}

    def follow(self, before: LineageSpec | None) -> Self:
        """Return the record that follows ``before``: a rescale goes on to hold while the key groups stay."""
        stays = before is not None and before.document.get("key_groups") == self.document.get("key_groups")
        return replace(self, rescaled_over=before.rescaled_over) if before is not None and stays else self

    def keep_rescale(self, spec: StreamSpec) -> StreamSpec:
        """Return the file's ``spec`` with the key groups of a rescale, unless their number was edited after it."""
        if self.rescaled_over != spec.key_groups:
            return spec
        return spec.model_copy(update={"key_groups": self.document.get("key_groups", spec.key_groups)})

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Parse the content of the file. Raises ValueError."""
        document, since, desired_at = value.get("spec"), value.get("since"), value.get("desired_at")
        former, over = value.get("former_sinks", []), value.get("rescaled_over")
        if not (isinstance(document, dict) and isinstance(since, int) and isinstance(desired_at, int)):
            raise UnfitValue("it lacks the spec, or what belongs to it")
        if not (isinstance(former, list) and all(folder is None or isinstance(folder, str) for folder in former)):
            raise UnfitValue("its former_sinks are no list of folders")
        if not (over is None or isinstance(over, int)):
            raise UnfitValue("its rescaled_over is no number")
        _require_shape(document)
        return cls(document, since, desired_at, tuple(former), over)


def _require_shape(document: Mapping[str, Any]) -> None:
    """Check the parts of a recorded spec that are compared with those of the file. Raises UnfitValue."""
    for name in ("source", "mapping", "rules", "sink"):
        if not isinstance(document.get(name, {}), dict):
            raise UnfitValue(f"{name} of its spec is {document[name]!r}, not an object")
    mapping = document.get("mapping", {})
    payload = mapping.get("payload", {})
    if not isinstance(payload, dict):
        raise UnfitValue(f"mapping.payload of its spec is {payload!r}, not an object")
    for name, text in {**mapping, "payload": None, **payload}.items():
        if not isinstance(text, str | None):
            raise UnfitValue(f"mapping.{name} of its spec is {text!r}, not an expression")


SPEC_FILE: Final = LineageFile("spec.json", LineageSpec)


def keep_rescale(home: StreamHome, lineage: str | None, spec: StreamSpec) -> StreamSpec:
    """Return the file's ``spec`` as ``lineage`` goes on by it (``LineageSpec.keep_rescale``). Raises DamagedFile."""
    record = SPEC_FILE.of(home, lineage).require() if lineage else None
    return spec if record is None else record.keep_rescale(spec)


def write_lineage_spec(home: StreamHome, lineage: str, spec: LineageSpec) -> None:
    """Write the record. Only the holder of the lease may, before its query starts. Raises UnwritablePath, DamagedFile.

    A folder of tables that the lineage leaves is remembered, because a restore looks into each.
    """
    file = SPEC_FILE.of(home, lineage)
    file.write(replace(spec, former_sinks=_former_sinks(file.require(), spec)))


def _former_sinks(before: LineageSpec | None, now: LineageSpec) -> tuple[SinkFolder, ...]:
    known = [*now.former_sinks, *((*before.former_sinks, before.sink) if before is not None else ())]
    return tuple(folder for folder in dict.fromkeys(known) if folder != now.sink)


def sink_folders(home: StreamHome, lineages: Iterable[str]) -> tuple[SinkFolder, ...]:
    """Return each folder that one of ``lineages`` used, once. Raises DamagedFile."""
    found: dict[SinkFolder, None] = {}
    for lineage in lineages:
        record = SPEC_FILE.of(home, lineage).require()
        if record is not None:
            found.update(dict.fromkeys((*record.former_sinks, record.sink)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class KeptTypes(JsonRecord):
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


TYPES_FILE: Final = LineageFile("types.json", KeptTypes)
