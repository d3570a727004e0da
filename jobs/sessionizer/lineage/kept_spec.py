"""Records that a lineage keeps: its spec, the types of its open events, applied migrations, and ids of its source.

``types.json`` has every type that each payload column ever had: open events keep theirs (docs/adr/0055).
``source.json`` has the id of each topic or table (docs/adr/0127): offsets of a topic mean nothing in one that was made
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Self, TypeAlias

from pydantic import ValidationError

from sessionizer.errors import SourceReplaced
from sessionizer.home.json_record import JsonObject, JsonRecord, UnfitValue
from sessionizer.home.record_file import LineageFile
from sessionizer.home.stream_home import StreamHome
from sessionizer.migrations.declared import AppliedMigration, pending_migrations, record_applied
from sessionizer.stream_spec.document.rules import Migration
from sessionizer.stream_spec.document.stream import StreamSpec

SinkFolder: TypeAlias = str | None
"""``sink.path`` of a spec. None is the stream's own data."""


@dataclass(frozen=True, slots=True)
class LineageSpec:
    """The ``document`` of a spec as JSON, and the time ``since`` when the lineage runs by it (epoch ms).

    ``desired_at``: since when the desired state of that moment held (epoch ms). ``former_sinks``: earlier folders of
    tables. ``rescaled_over``: the number of key groups in the file when a user rescaled the stream to another one.
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
        own = {"since": self.since, "desired_at": self.desired_at, "spec": self.document}
        over = {} if self.rescaled_over is None else {"rescaled_over": self.rescaled_over}
        return {**own, "former_sinks": list(self.former_sinks), **over}

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
    columns = document.get("source", {}).get("columns") or ""
    named = {name: text or "" for name, text in mapping.items()}
    texts = {**named, **payload, "payload": "", "source.columns": columns}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise UnfitValue(f"{name} of its spec is {text!r}, not a text")
    migrations = document.get("migrations") or []
    if not (isinstance(migrations, list) and all(isinstance(each, dict) and "id" in each for each in migrations)):
        raise UnfitValue(f"migrations of its spec is {migrations!r}, not a list of migrations")


SPEC_FILE: Final = LineageFile("spec.json", LineageSpec)


def keep_rescale(home: StreamHome, lineage: str | None, spec: StreamSpec) -> StreamSpec:
    """Return the file's ``spec`` as ``lineage`` goes on by it (``LineageSpec.keep_rescale``). Raises DamagedFile."""
    record = SPEC_FILE.of(home, lineage).require() if lineage else None
    return spec if record is None else record.keep_rescale(spec)


def write_lineage_spec(home: StreamHome, lineage: str, spec: LineageSpec) -> None:
    """Write the record, as holder of the lease, before the query starts. Keeps folders that it leaves."""
    file = SPEC_FILE.of(home, lineage)
    before = file.require()
    known = [*spec.former_sinks, *((*before.former_sinks, before.sink) if before is not None else ())]
    former = tuple(folder for folder in dict.fromkeys(known) if folder != spec.sink)
    file.write(replace(spec, former_sinks=former))


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
        payload = {name: list(self.payload.get(name, ())) for name in names}
        for name, now in types.items():
            payload[name] += [now] if now is not None and now not in payload[name] else []
        return KeptTypes(self.time_mode, payload)


TYPES_FILE: Final = LineageFile("types.json", KeptTypes)


@dataclass(frozen=True, slots=True)
class AppliedMigrations(JsonRecord):
    """The content of ``migrations.json``."""

    applied: tuple[AppliedMigration, ...]


MIGRATIONS_FILE: Final = LineageFile("migrations.json", AppliedMigrations)


def read_applied(home: StreamHome, lineage: str) -> tuple[AppliedMigration, ...]:
    """Read the applied migrations, none in a lineage of an earlier release. Raises DamagedFile."""
    kept = MIGRATIONS_FILE.of(home, lineage).require()
    return () if kept is None else kept.applied


def begin_applied(home: StreamHome, lineage: str, spec: LineageSpec) -> None:
    """Record all migrations of ``spec`` as applied: a lineage without open events needs none of them."""
    try:
        declared = [Migration.model_validate(each) for each in spec.document.get("migrations", [])]
    except ValidationError:  # this release refuses them
        declared = []
    MIGRATIONS_FILE.of(home, lineage).write(AppliedMigrations(record_applied(declared, spec.since)))


def waiting_migrations(home: StreamHome, lineage: str, spec: StreamSpec) -> tuple[Migration, ...]:
    """Return the migrations of ``spec`` that wait for a new lineage, in order. Raises MigrationRefused, DamagedFile."""
    return pending_migrations(home.name, spec.migrations, read_applied(home, lineage))


@dataclass(frozen=True, slots=True)
class SourceIds(JsonRecord):
    """The ``ids`` by the names of topics, or of the table."""

    ids: Mapping[str, str]


SOURCE_IDS_FILE: Final = LineageFile("source.json", SourceIds)


def read_source_ids(home: StreamHome, lineage: str) -> dict[str, str]:
    """Read the ids, none in a lineage of an earlier release. Raises DamagedFile."""
    kept = SOURCE_IDS_FILE.of(home, lineage).require()
    return {} if kept is None else dict(kept.ids)


def note_source_ids(home: StreamHome, lineage: str, ids: Mapping[str, str]) -> None:
    """Keep ``ids`` beside the known ones, as holder of the lease. Raises UnwritablePath, DamagedFile."""
    known = read_source_ids(home, lineage)
    if ids and known != {**known, **ids}:
        SOURCE_IDS_FILE.of(home, lineage).write(SourceIds({**known, **ids}))


def choose_known_ids(noted: Mapping[str, str], source: Mapping[str, Any], offset: Any) -> dict[str, str]:  # noqa: ANN401  JSON
    """Choose the ids in a spec's ``source`` that ``offset`` is a position in. Delta's offsets have theirs."""
    if not offset:
        return {}
    if source["format"] == "delta":
        return {str(source["path"]): str(offset["reservoirId"])}
    partitions: Mapping[str, Mapping[str, int]] = offset if source["format"] == "kafka" else {}
    return {name: found for name, found in noted.items() if any(partitions.get(name, {}).values())}


def replaced_names(known: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names whose id ``now`` differs from the ``known`` one. An unknown id counts as the same."""
    return [name for name, found in known.items() if now.get(name, found) != found]


def require_same_source(stream: str, known: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raise SourceReplaced for a topic or table that was made anew."""
    for name in replaced_names(known, now):
        raise SourceReplaced(stream, name, known[name], now[name])
