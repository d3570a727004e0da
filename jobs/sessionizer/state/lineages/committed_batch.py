"""Stream after a committed batch, the content of a savepoint: read from files, also while the stream runs.

Also a batch that a lineage still keeps, and the state, without open events, that a lineage transfers to the next. A
lineage is never changed in place. A command that gives a stream another state, or another home for it, makes a lineage
that begins with this (docs/adr/0084).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self, TypeAlias

from sessionizer.checkpoint.files import SeenFile, list_files_until, read_seen_files
from sessionizer.checkpoint.log_entries import (
    EVENTS,
    PUNCTUATIONS,
    list_committed_batches,
    next_watermark,
    proof_of_batch,
    read_last_commit,
    read_planned_batch,
)
from sessionizer.counts import count_text
from sessionizer.errors import BatchOutrun, DamagedFile, NothingToSave, NothingToShow, StreamDrained
from sessionizer.home.control_store import Store
from sessionizer.home.data_files import examine_data_json, list_names, publish_json
from sessionizer.home.json_record import JsonObject, JsonRecord, Moment
from sessionizer.home.record_file import examine_json, write_json
from sessionizer.home.roots import DataPath, uri_of
from sessionizer.home.stream_home import TIMEOUTS, StreamHome
from sessionizer.lineage.active import DRAINED_FILE, active_lineage, require_lineage
from sessionizer.lineage.excluded_ranges import EXCLUDED_RANGES_FILE, NOTHING_EXCLUDED, read_excluded_ranges
from sessionizer.lineage.fingerprint import (
    CHECKPOINT_FILE,
    CheckpointRecord,
    require_checkpoint,
    require_readable_lineage,
    require_same_engine,
)
from sessionizer.lineage.kept_spec import SOURCE_IDS_FILE, SPEC_FILE, TYPES_FILE, KeptTypes, LineageSpec
from sessionizer.state.lineages.origin import Origin
from sessionizer.stream_spec.decisions import Document

FILES: Final = "files"
"""The format of a source of files."""


Offset: TypeAlias = Any
"""Position in a source, as Spark writes it in JSON. None if nothing was read yet."""


@dataclass(frozen=True, slots=True)
class Position(JsonRecord):
    """Position of the source of events."""

    format: str
    offset: Offset


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """A committed batch that is kept at ``checkpoint``, and the records to resume from it.

    ``watermark_ms``: of the next batch. Times are epoch ms. ``proof``: Spark's log entries of the batch.
    """

    stream: str
    lineage: str
    checkpoint: DataPath
    batch_id: int
    batch_at: Moment
    watermark_ms: int
    position: Position
    settings: Mapping[str, str]
    spec: Document
    kept: KeptTypes
    record: CheckpointRecord
    proof: str
    seen_files: tuple[SeenFile, ...] = ()

    def require_unchanged(self) -> None:
        """Raise BatchOutrun if the batch is no longer kept or was replaced. Asked after the state was read."""
        require_same_batch(self.stream, self.checkpoint, self.batch_id, self.proof)


def read_committed_batch(home: StreamHome, batch_id: int | None = None, *, to_upgrade: bool = False) -> CommittedBatch:
    """Read the stream of ``home`` as it is after ``batch_id``, by default after the newest batch that is over.

    ``to_upgrade``: also if another line of Spark or Delta made its checkpoint, or an earlier release its state. Raises
    NothingToSave, StreamDrained, UnreadableLineage, EngineChanged, DamagedFile, DataAway if the checkpoint is gone, and
    BatchOutrun if Spark removes a file of the batch meanwhile.
    """
    lineage = require_lineage(home)
    require_readable_lineage(home, lineage, to_upgrade=to_upgrade)
    if not to_upgrade:
        require_same_engine(home, lineage)
    drain = DRAINED_FILE.of(home, lineage).require()
    if drain is not None:
        raise StreamDrained(home.name, lineage, drain.batch_id, drain.moment)
    require_checkpoint(home, lineage)
    checkpoint, newest = home.checkpoint(lineage), None
    while True:
        records = _read_records(home, lineage)
        newest = read_last_commit(checkpoint)
        if newest is None:
            raise NothingToSave(home.name, f"no batch of its lineage {lineage} is over")
        if batch_id is not None and batch_id not in list_committed_batches(checkpoint):
            raise NothingToSave(home.name, f"batch {batch_id} is not among those kept, of which the newest is {newest}")
        # a driver writes its spec before its first batch: unchanged, it is the spec of this batch
        if records == _read_records(home, lineage):
            break
    found = _read_batch(home, lineage, newest if batch_id is None else batch_id, records)
    if found.position.format != FILES:
        return found
    with require_kept(home.name, found.batch_id):
        return replace(found, seen_files=tuple(read_seen_files(checkpoint, found.batch_id)))


def find_retained_batch(home: StreamHome, batch_id: int | None = None, lineage: str | None = None) -> CommittedBatch:
    """Return a batch, by default the newest of the active lineage, without the files that it had seen.

    Raises NothingToShow, BatchOutrun, DataAway.
    """
    active = active_lineage(home)
    chosen = lineage or active
    if chosen is None:
        raise NothingToShow(home.name, "it never ran")
    if not Store(home.lineage(chosen).records).exists():
        raise NothingToShow(home.name, f"it has no lineage {chosen}")
    require_readable_lineage(home, chosen)
    if chosen == active:  # a compaction removes those of earlier lineages
        require_checkpoint(home, chosen)
    committed = list_committed_batches(home.checkpoint(chosen))
    if not committed:
        raise NothingToShow(home.name, f"its lineage {chosen} has no committed batch")
    if batch_id is not None and batch_id not in committed:
        known = f"Its lineage {chosen} keeps {min(committed)} to {max(committed)}"
        raise NothingToShow(home.name, f"batch {batch_id} is not there. {known}")
    try:
        return _read_batch(home, chosen, max(committed) if batch_id is None else batch_id, _read_records(home, chosen))
    except BatchOutrun as error:
        if chosen == active:
            raise
        # no driver has removed it meanwhile, so a second try ends the same
        raise NothingToShow(home.name, f"files of its lineage {chosen} are gone: {error.cause}") from error


_Records: TypeAlias = tuple[LineageSpec | None, KeptTypes | None]


def _read_records(home: StreamHome, lineage: str) -> _Records:
    return SPEC_FILE.of(home, lineage).require(), TYPES_FILE.of(home, lineage).require()


def _read_batch(home: StreamHome, lineage: str, batch_id: int, records: _Records) -> CommittedBatch:
    """Read a batch of ``lineage`` but for the files that it had seen. Raises BatchOutrun if Spark removes it."""
    (spec, kept), record = records, CHECKPOINT_FILE.of(home, lineage).require()
    if spec is None or kept is None or record is None:
        raise DamagedFile(uri_of(home.lineage(lineage).records), "it lacks spec.json or types.json")
    checkpoint = home.checkpoint(lineage)
    with require_kept(home.name, batch_id):
        planned, proof = read_planned_batch(checkpoint, batch_id), proof_of_batch(checkpoint, batch_id)
        return CommittedBatch(
            stream=home.name,
            lineage=lineage,
            checkpoint=checkpoint,
            batch_id=batch_id,
            batch_at=planned.at_ms,
            watermark_ms=next_watermark(checkpoint, batch_id),
            position=Position(str(spec.document["source"]["format"]), planned.ends.get(EVENTS)),
            settings=dict(planned.settings),
            spec=spec.document,
            kept=kept,
            record=record,
            proof=proof,
        )


@contextmanager
def require_kept(stream: str, batch_id: int) -> Iterator[None]:
    """Raise BatchOutrun if a file of the batch is gone when the block reads it."""
    try:
        yield
    except FileNotFoundError as error:
        raise BatchOutrun(stream, batch_id, f"{error.filename or error} is gone") from error


def require_same_batch(stream: str, checkpoint: DataPath, batch_id: int, proof: str) -> None:
    """Raise BatchOutrun if the batch is no longer kept, or is not that of the ``proof``."""
    with require_kept(stream, batch_id):
        now = proof_of_batch(checkpoint, batch_id)
    if now != proof:
        raise BatchOutrun(stream, batch_id, "another batch took its place")


Blobs: TypeAlias = tuple[str, ...]
"""The SHA-256 of each blob of a key group's log, oldest first."""


class LineageStep(StrEnum):
    """Steps of making a lineage that are done. A kill after any but the last leaves the stream as it was."""

    MADE = "made"
    SEEDED = "seeded"
    COMPARED = "compared"
    POSITIONED = "positioned"
    RECORDED = "recorded"
    ACTIVATED = "activated"


@dataclass(frozen=True, slots=True)
class StateTransfer:
    """The state that a new lineage begins with, without open events.

    ``offset``: where the source of events goes on, as Spark writes it, or the files ``seen``. None means its beginning.
    ``watermark_ms``: what the first batch with events gets (epoch ms). ``timeouts``: of clients, changed so far (ms).
    ``spec``: what the lineage runs by. ``kept``: the types that its open events may have. ``records``: other files of
    the lineage, by their names. ``punctuations``: those that no batch has read yet, by their names.
    """

    origin: Origin
    spec: LineageSpec
    kept: KeptTypes
    watermark_ms: int
    offset: Any | None
    seen: tuple[SeenFile, ...] = ()
    timeouts: Mapping[str, int] = field(default_factory=dict)
    records: Mapping[str, JsonObject] = field(default_factory=dict)
    punctuations: Mapping[str, JsonObject] = field(default_factory=dict)

    def forget_clients(self, is_erased: Callable[[str], bool]) -> Self:
        """Return it without the timeouts of erased clients, also in records and punctuations."""

        def kept(value: JsonObject) -> JsonObject:
            match value.get(TIMEOUTS):
                case dict(told):
                    return {**value, TIMEOUTS: {client: ms for client, ms in told.items() if not is_erased(client)}}
                case list(told):
                    return {**value, TIMEOUTS: [each for each in told if not is_erased(each["client"])]}
            return value

        return replace(
            self,
            timeouts={client: ms for client, ms in self.timeouts.items() if not is_erased(client)},
            records={name: kept(value) for name, value in self.records.items()},
            punctuations={name: kept(value) for name, value in self.punctuations.items()},
        )


def records_beside(home: StreamHome, lineage: str, *, same_source: bool = True) -> dict[str, JsonObject]:
    """Collect the records that its successor needs: timeouts, excluded files and ranges, ids of topics.

    Positions of one source mean nothing in another. Raises DamagedFile if the exclusions cannot be read, because the
    excluded rows would come in.
    """
    root = home.lineage(lineage)
    kept = [root.announced_timeouts, root.unreadable_files, root.schema_ids]
    kept += [SOURCE_IDS_FILE.of(home, lineage).path] if same_source else []
    found = {file.name: examine_json(file).value for file in kept}
    excluded_ranges = read_excluded_ranges(home, lineage) if same_source else NOTHING_EXCLUDED
    return {
        **{name: value for name, value in found.items() if value is not None},
        **(EXCLUDED_RANGES_FILE.content(excluded_ranges) if excluded_ranges else {}),
    }


def unread_punctuations(home: StreamHome, committed: CommittedBatch) -> dict[str, JsonObject]:
    """Return the punctuations of a stream that no batch up to that of ``committed`` has read. Raises OSError."""
    folder = home.punctuations(committed.lineage)
    listed = list_files_until(committed.checkpoint, committed.batch_id, PUNCTUATIONS)
    read = {uri.rpartition("/")[2] for uri in listed}
    unread = [name for name in list_names(folder) if name.endswith(".json") and name not in read and name[0] != "."]
    found = {name: examine_data_json(folder / name).value for name in unread}
    return {name: value for name, value in found.items() if value is not None}


def write_records(home: StreamHome, lineage: str, transfer: StateTransfer) -> None:
    """Write the files of a lineage that Spark does not write, but for what ``settle`` writes. Raises DiskFull."""
    for name, value in transfer.records.items():
        write_json(home.lineage(lineage).records / name, value)
    for name, value in transfer.punctuations.items():
        publish_json(home.punctuations(lineage) / name, value)
    if transfer.origin.parent is not None:
        TYPES_FILE.of(home, lineage).write(transfer.kept)


def settle(home: StreamHome, lineage: str, kept: KeptTypes) -> None:
    """Write the types of its state into ``lineage``, which is active by now. Raises UnwritablePath."""
    if TYPES_FILE.of(home, lineage).require() is None:
        TYPES_FILE.of(home, lineage).write(kept)


class PackedGroup(NamedTuple):
    """Packed open events of a key group: their number, and whether each came back unchanged."""

    events: int
    whole: bool
    blobs: Blobs


def check_packing(events: Mapping[int, int], packed: Mapping[int, PackedGroup]) -> str | None:
    """Say which key group was packed wrongly, None if all are right. ``events``: open events by key group."""
    for group in sorted({*events, *packed}):
        given, found = events.get(group, 0), packed.get(group, PackedGroup(0, whole=True, blobs=()))
        if given != found.events:
            return f"key group {group} should hold {count_text(given, 'open event')} and holds {found.events}"
        if not found.whole:
            return f"of {count_text(given, 'open event')} of key group {group} some did not come back as they were"
    return None


def disagreement(handed_over: Mapping[int, Blobs], found: Mapping[int, Blobs]) -> str | None:
    """Say which key group of a new lineage differs from the transferred blobs, None if none does."""
    for group in sorted({*handed_over, *found}):
        before, now = handed_over.get(group, ()), found.get(group, ())
        if len(before) != len(now):
            return f"key group {group} should hold {len(before)} blobs of open events and holds {len(now)}"
        if before != now:
            return f"the open events of key group {group} are others than were handed over"
    return None
