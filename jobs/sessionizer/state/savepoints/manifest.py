"""``manifest.json`` of a savepoint: its origin, its content, and the proof of both.

It is written last. Its own content is covered by a SHA-256, and each file of the savepoint by another. So a reader can
tell years later whether it is unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from sessionizer.errors import DamagedFile
from sessionizer.home.clock import HOUR
from sessionizer.home.data_files import examine_data_json, publish_json
from sessionizer.home.json_record import JsonRecord, Moment, add_stamp, json_digest, require_known_format
from sessionizer.home.roots import uri_of
from sessionizer.home.stream_home import CHECKPOINT, SavepointHome
from sessionizer.lineage.fingerprint import CheckpointRecord, Fingerprint
from sessionizer.lineage.kept_spec import KeptTypes
from sessionizer.migrations.declared import AppliedMigration
from sessionizer.state.lineages.committed_batch import CommittedBatch, Position
from sessionizer.state.lineages.origin import Segment
from sessionizer.stream_spec.decisions import Change, Document, changes_between, leaves, list_decisions
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import parse_recorded_spec

UNSEEN_FOR_MS: Final = 6 * HOUR
"""A process of another machine counts as at work for this long, because it cannot be checked from here."""


class SavepointState(StrEnum):
    """State of a savepoint. A stream can resume only from a complete one."""

    COMPLETE = "complete"
    MAKING = "being made"
    FAILED = "failed"
    ABANDONED = "abandoned"
    """The process that made it was killed."""
    DAMAGED = "damaged"
    """Its manifest cannot be read, or is not as it was written."""
    REMOVING = "being removed"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Facts about a savepoint: a sound manifest (None: none), marks beside it, and its maker (None: unknown)."""

    manifest: bool | None
    failed: bool
    condemned: bool
    begun_at: int | None
    maker_lives: bool | None


def judge_state(evidence: Evidence, now: int) -> SavepointState:
    """Return the state of the savepoint at ``now`` (epoch ms)."""
    if evidence.condemned:
        return SavepointState.REMOVING
    if evidence.manifest is not None:
        return SavepointState.COMPLETE if evidence.manifest else SavepointState.DAMAGED
    if evidence.failed:
        return SavepointState.FAILED
    at_work = is_at_work(evidence.maker_lives, evidence.begun_at, now)
    return SavepointState.MAKING if at_work else SavepointState.ABANDONED


def is_at_work(lives: bool | None, since: int | None, now: int) -> bool:  # noqa: FBT001  an answer of is_alive
    """Whether a process that ``lives`` (None: unknown) and began at ``since`` must be taken to be at work still."""
    if lives is None:
        return since is not None and now - since < UNSEEN_FOR_MS
    return lives


FORMAT: Final = 1
CHECKSUM: Final = "sha256"
"""Field with the SHA-256 of the manifest's other fields."""
_OF_EACH_ONE: Final = ("id", "files", "made_at", "live", "format", "writer", "sha256", "spec")
"""Fields that differ between any two savepoints."""


class SavepointKind(StrEnum):
    """Form in which the state is kept."""

    CANONICAL = "canonical"
    """Tables of typed rows, which any later release, any number of key groups and any Spark takes."""
    NATIVE = "native"
    """Files of the checkpoint, for the same line of Spark and the same key groups."""


@dataclass(frozen=True, slots=True)
class SinkTable(JsonRecord):
    """A table of the stream. ``version``: the newest without rows of later batches, None if it was not there."""

    name: str
    location: str
    version: int | None


@dataclass(frozen=True, slots=True)
class FormerSink(JsonRecord):
    """The table ``name`` in a ``folder`` that ``sink.path`` named before. ``version`` is that of ``SinkTable``."""

    folder: str | None
    name: str
    version: int | None


@dataclass(frozen=True, slots=True)
class Counts(JsonRecord):
    """Figures of the state: ``events`` of ``keys`` in ``groups`` that are not empty.

    They make so many ``sessions``, without duplicates. ``timeouts``: clients whose timeout was changed. ``seen_files``:
    of a source of files.
    """

    events: int
    keys: int
    groups: int
    sessions: int
    timeouts: int = 0
    seen_files: int = 0


@dataclass(frozen=True, slots=True)
class SavepointFile(JsonRecord):
    """A file of the savepoint: its path from the savepoint's directory, with slashes, its bytes and their SHA-256."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest(JsonRecord):
    """The content of a savepoint's manifest. Times are epoch ms.

    ``batch_id`` is the last batch that is in it, begun at ``batch_at``. ``watermark_ms`` is the watermark that the next
    one would get (0 if the stream has none). ``earliest_due_ms``: when the first open session could end, None for
    never. A native savepoint was not counted: it has neither ``counts`` nor ``earliest_due_ms``.

    ``payload_types``: each column's types so far, oldest first, as Spark writes them in JSON. ``live``: made while the
    stream ran. ``source_ids``: of the topics that were read. ``migrations``: those that the open events have had.
    ``path``: the batches whose rows the tables hold for this state, which a home without records of its lineages
    needs. ``excluded_ranges``: of the source, as ``excluded_ranges.json`` of the lineage has them. These four may be
    empty.
    """

    id: str
    kind: SavepointKind
    stream: str
    owner: str
    lineage: str
    batch_id: int
    batch_at: Moment
    made_at: Moment
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
    files: tuple[SavepointFile, ...] = field(default_factory=tuple)
    former_sinks: tuple[FormerSink, ...] = field(default_factory=tuple)
    source_ids: Mapping[str, str] = field(default_factory=dict)
    migrations: tuple[AppliedMigration, ...] = field(default_factory=tuple)
    path: tuple[Segment, ...] = ()
    excluded_ranges: Mapping[str, Any] = field(default_factory=dict)

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
    def kept(self) -> KeptTypes:
        """Types that the open events may have."""
        return KeptTypes(self.time_mode, self.payload_types)

    def committed_in(self, home: SavepointHome) -> CommittedBatch:
        """Return the batch that the savepoint at ``home`` was made of, without the files that it had read, or a proof.

        Only a native savepoint has its checkpoint.
        """
        return CommittedBatch(
            stream=self.stream,
            lineage=self.lineage,
            checkpoint=home.part(CHECKPOINT),
            batch_id=self.batch_id,
            batch_at=self.batch_at,
            watermark_ms=self.watermark_ms,
            position=self.position,
            settings=self.fingerprint.configuration,
            spec=self.spec,
            kept=self.kept,
            record=CheckpointRecord(self.checkpoint_format, self.revision, self.owner),
            proof="",
        )

    @property
    def bytes(self) -> int:
        """Size of all its files in bytes."""
        return sum(file.bytes for file in self.files)


def write_manifest(home: SavepointHome, manifest: Manifest) -> None:
    """Complete the savepoint. Raises UnwritablePath, DiskFull."""
    content = add_stamp(manifest.to_json(), FORMAT)
    publish_json(home.manifest, {**content, CHECKSUM: checksum(content)})


def read_manifest(home: SavepointHome) -> Manifest | None:
    """Read the manifest, None if there is none. Raises DamagedFile if it was changed, or is too new."""
    reading = examine_data_json(home.manifest)
    if reading.error is not None:
        raise reading.error
    if reading.value is None:
        return None
    require_known_format(home.manifest, reading.value, FORMAT)
    if reading.value.get(CHECKSUM) != checksum(reading.value):
        raise DamagedFile(uri_of(home.manifest), "its content does not match its checksum")
    try:
        return Manifest.from_json(reading.value)
    except ValueError as error:
        raise DamagedFile(uri_of(home.manifest), f"it lacks what every manifest has ({error})") from error


def read_saved_spec(home: SavepointHome, manifest: Manifest) -> StreamSpec:
    """Read the spec that the savepoint's lineage ran by. Raises InvalidSpec if this release refuses it."""
    return parse_recorded_spec(manifest.spec, Path(uri_of(home.manifest)))


def checksum(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a manifest, independent of the order of its fields and without its own field."""
    return json_digest({name: value for name, value in content.items() if name != CHECKSUM})


def differences(before: Manifest, now: Manifest) -> tuple[Change, ...]:
    """List the differences, without fields that always differ. The spec is compared by the fields that decide."""
    sides = []
    for manifest in (before, now):
        content = {name: value for name, value in manifest.to_json().items() if name not in _OF_EACH_ONE}
        content["sinks"] = {sink.pop("name"): sink for sink in content["sinks"]}
        spec = {f"spec.{field}": value for field, value in list_decisions(manifest.spec).items()}
        sides.append({**dict(leaves(content)), **spec})
    return changes_between(*sides)
