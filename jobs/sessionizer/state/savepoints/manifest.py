"""``manifest.json`` of a savepoint: its origin, its content, and the proof of both.

It is written last. Its own content is covered by a SHA-256, and each file of the savepoint by another. So a reader can
tell years later whether it is unchanged.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sessionizer.errors import DamagedFile
from sessionizer.home.data_files import examine_data_json, publish_json
from sessionizer.home.json_record import json_digest, require_known_format, stamped
from sessionizer.home.roots import uri_of
from sessionizer.lineage.fingerprint import Fingerprint
from sessionizer.migrations.pending import AppliedMigration
from sessionizer.state.lineages.standing import Position
from sessionizer.stream_spec.loading.spec_file import recorded_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sessionizer.home.savepoint_home import SavepointHome
    from sessionizer.stream_spec.decisions import Document
    from sessionizer.stream_spec.document.stream import StreamSpec

FORMAT: Final = 1
_LATER_FIELDS: Final = frozenset({"source_ids", "migrations"})
"""Fields that earlier releases did not write. An empty one is left out."""
CHECKSUM: Final = "sha256"
"""Field with the SHA-256 of the manifest's other fields."""

Part = TypeVar("Part")


class Kind(StrEnum):
    """Form in which the state is kept."""

    CANONICAL = "canonical"
    """Tables of typed rows, which any later release, any number of key groups and any Spark takes."""
    NATIVE = "native"
    """Files of the checkpoint, for the same line of Spark and the same key groups."""


@dataclass(frozen=True, slots=True)
class SinkTable:
    """A table of the stream.

    ``version`` is the newest without rows of later batches, None if the table was not there.
    """

    name: str
    location: str
    version: int | None


@dataclass(frozen=True, slots=True)
class FormerSink:
    """The table ``name`` in a ``folder`` that ``sink.path`` named before. ``version`` is that of ``SinkTable``."""

    folder: str | None
    name: str
    version: int | None


@dataclass(frozen=True, slots=True)
class Counts:
    """Figures of the state.

    ``events`` of ``keys`` in ``groups`` that are not empty. They make so many ``sessions``, without duplicates.
    ``timeouts``: clients whose timeout was changed. ``seen_files``: of a source of files.
    """

    events: int
    keys: int
    groups: int
    sessions: int
    timeouts: int = 0
    seen_files: int = 0


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of the savepoint: its path from the savepoint's directory, with slashes, its bytes and their SHA-256."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a savepoint's manifest. Times are epoch ms.

    ``batch_id`` is the last batch that is in it, begun at ``batch_at``. ``watermark_ms`` is the watermark that the next
    one would get (0 if the stream has none). ``earliest_due_ms``: when the first open session could end, None for
    never. A native savepoint was not counted: it has neither ``counts`` nor ``earliest_due_ms``.

    ``payload_types``: each column's types so far, oldest first, as Spark writes them in JSON. ``live``: made while the
    stream ran. ``source_ids``: of the topics that were read. ``migrations``: those that the open events have had. Both
    are empty in savepoints of earlier releases.
    """

    id: str
    kind: Kind
    stream: str
    owner: str
    lineage: str
    batch_id: int
    batch_at: int
    made_at: int
    live: bool
    checkpoint_format: int
    revision: str
    spec: Document
    time_mode: str
    payload_types: Mapping[str, list[Any]]
    position: Position
    watermark_ms: int
    sinks: tuple[SinkTable, ...]
    counts: Counts | None
    earliest_due_ms: int | None
    fingerprint: Fingerprint
    files: tuple[DataFile, ...] = field(default_factory=tuple)
    former_sinks: tuple[FormerSink, ...] = field(default_factory=tuple)
    source_ids: Mapping[str, str] = field(default_factory=dict)
    migrations: tuple[AppliedMigration, ...] = field(default_factory=tuple)

    @property
    def versions(self) -> Mapping[tuple[str | None, str], int | None]:
        """Version of each table by its folder, as ``sink.path`` has it, and its name."""
        folder = self.spec["sink"]["path"]
        here = {(folder, sink.name): sink.version for sink in self.sinks}
        return {**{(each.folder, each.name): each.version for each in self.former_sinks}, **here}

    @property
    def key_groups(self) -> int:
        """Number of groups that the state was divided into."""
        return int(self.spec["key_groups"])

    @property
    def bytes(self) -> int:
        """Size of all its files in bytes."""
        return sum(file.bytes for file in self.files)

    def to_json(self) -> dict[str, Any]:
        """Return its fields as JSON values."""
        told = {**asdict(self), "kind": str(self.kind), "files": [asdict(file) for file in self.files]}
        # as the manifests of earlier releases, whose digests were approved
        return {name: value for name, value in told.items() if value or name not in _LATER_FIELDS}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Manifest:
        """Read what ``to_json`` wrote, without what a newer release added. Raises ValueError.

        A field that came later has a default, which an older savepoint gets.
        """
        try:
            return cls(**{name: _READ.get(name, _keep_value)(part) for name, part in _fields_of(cls, value).items()})
        except (KeyError, TypeError) as error:
            raise ValueError(f"it lacks what every manifest has ({error})") from error


def write_manifest(home: SavepointHome, manifest: Manifest) -> None:
    """Complete the savepoint. Raises UnwritablePath, DiskFull."""
    content = stamped(manifest.to_json(), FORMAT)
    publish_json(home.manifest, {**content, CHECKSUM: checksum(content)})


def read_manifest(home: SavepointHome) -> Manifest | None:
    """Read the manifest, None if there is none. Raises DamagedFile if it was changed, or is too new."""
    reading = examine_data_json(home.manifest)
    if reading.damage is not None:
        raise DamagedFile(home.manifest, reading.damage)
    if reading.value is None:
        return None
    require_known_format(home.manifest, reading.value, FORMAT)
    if reading.value.get(CHECKSUM) != checksum(reading.value):
        raise DamagedFile(home.manifest, "its content does not match its checksum")
    try:
        return Manifest.from_json(reading.value)
    except ValueError as error:
        raise DamagedFile(home.manifest, str(error)) from error


def saved_spec(home: SavepointHome, manifest: Manifest) -> StreamSpec:
    """Read the spec that the savepoint's lineage ran by. Raises InvalidSpec if this release refuses it."""
    return recorded_spec(manifest.spec, Path(uri_of(home.manifest)))


def checksum(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a manifest, independent of the order of its fields and without its own field."""
    return json_digest({name: value for name, value in content.items() if name != CHECKSUM})


def _part(kind: type[Part], value: Mapping[str, Any]) -> Part:
    return kind(**_fields_of(kind, value))


def _parts(kind: type[Part], values: Iterable[Mapping[str, Any]]) -> tuple[Part, ...]:
    return tuple(_part(kind, value) for value in values)


def _fields_of(kind: type[Any], value: Mapping[str, Any]) -> dict[str, Any]:
    known = {each.name for each in fields(kind)}
    return {name: part for name, part in value.items() if name in known}


def _keep_value(part: Part) -> Part:
    return part


_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "kind": Kind,
    "position": partial(_part, Position),
    "sinks": partial(_parts, SinkTable),
    "counts": lambda counts: None if counts is None else _part(Counts, counts),
    "fingerprint": partial(_part, Fingerprint),
    "files": partial(_parts, DataFile),
    "former_sinks": partial(_parts, FormerSink),
    "migrations": partial(_parts, AppliedMigration),
}
"""Decoders of fields whose values are not plain JSON."""
