"""Writing of a savepoint, canonical or native: its folder, its files, then its manifest.

A native savepoint has the files of one committed batch, for the same line of Spark and the same key groups. No Spark
runs: it is quick to make and to start from, and of no use to another release. One for long keeping is canonical.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from sessionizer.checkpoint.files import copy_batch, copy_files
from sessionizer.checkpoint.log_entries import list_committed_batches
from sessionizer.checkpoint.state_files import move_schema
from sessionizer.control.history.files import Mark, MarkKind, add_mark
from sessionizer.control.records.operation_record import require_no_operation
from sessionizer.errors import BatchOutrun, SessionizerError, StreamChanged, UnusableSavepoint
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import (
    data_exists,
    files_below,
    is_folder,
    make_data_folder,
    relative_name,
    remove_tree,
)
from sessionizer.home.local_files import first_line, unwritable
from sessionizer.home.names import mint_id
from sessionizer.home.roots import DataPath, add_scheme, folder_at, uri_of
from sessionizer.home.stream_home import CHECKPOINT, SavepointHome, StreamHome
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.excluded_ranges import read_excluded_ranges
from sessionizer.lineage.fingerprint import present_fingerprint
from sessionizer.lineage.kept_spec import read_applied, read_source_ids, sink_folders
from sessionizer.state.lineages.committed_batch import FILES, CommittedBatch
from sessionizer.state.lineages.origin import origins_of, path_to
from sessionizer.state.lineages.table_changes import StreamState, require_known_operations, version_with_batch
from sessionizer.state.savepoints.listing import SavepointFailure, UseMark, examine_savepoint, write_data_record
from sessionizer.state.savepoints.manifest import (
    Counts,
    FormerSink,
    Manifest,
    SavepointKind,
    SavepointState,
    SinkTable,
    read_manifest,
    write_manifest,
)
from sessionizer.state.savepoints.verification import data_files


@dataclass(frozen=True, slots=True)
class SavepointRequest:
    """A user's request: a savepoint ``id`` (None: generated) in ``folder``. ``live``: the stream may run meanwhile.

    ``with_rows``: whether a canonical one has its open events as typed rows too, which other programs read. ``within``:
    id of the operation that makes it, which has the lease.
    """

    folder: DataPath
    why: str
    id: str | None = None
    live: bool = True
    with_rows: bool = True
    within: str = ""


@dataclass(slots=True)
class SavepointWriter:
    """A savepoint of ``stream`` that is being made at ``home``. ``after`` is called with each finished step.

    The versions of the tables are taken together with the batch, when it begins: a command that runs meanwhile deletes
    rows, and would leave a version without those of the batch.
    """

    stream: StreamHome
    committed: CommittedBatch
    asked: SavepointRequest
    after: Callable[[str], None]
    home: SavepointHome = field(init=False)
    _sinks: tuple[SinkTable, ...] = field(default=(), init=False)
    _former_sinks: tuple[FormerSink, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        """Choose the place. Nothing is written."""
        self.home = SavepointHome.of(self.asked.folder, self.asked.id or mint_id(epoch_ms()))

    def begin(self) -> Manifest | None:
        """Mark the savepoint as being made and remove the remains of a killed process, or return its whole manifest.

        Raises OperationPending while a command has the stream, StateBehindTables, UnusableSavepoint if another process
        makes or removes it, UnwritablePath, DiskFull.
        """
        home = self.home
        if is_folder(home.root):
            found = examine_savepoint(home, epoch_ms())
            if found.state is SavepointState.COMPLETE:
                return read_manifest(home)
            if found.state in (SavepointState.MAKING, SavepointState.REMOVING):
                by = f" by process {found.begun.pid} on {found.begun.host}" if found.begun else ""
                raise UnusableSavepoint(home.id, f"it is {found.state}{by}")
            try:
                remove_tree(home.root)
            except OSError as error:
                raise unwritable(uri_of(home.root), "a savepoint", error) from error
        self._require_settled()
        self._read_sinks()
        self._require_settled()
        if not write_data_record(home.begun, UseMark.now(self.asked.why), once=True):
            raise UnusableSavepoint(home.id, f"it is {SavepointState.MAKING}")
        if data_exists(home.condemned):  # looked for after: a removal looks for our mark after it has written its own
            raise UnusableSavepoint(home.id, "it is being removed")
        self.after("begun")
        return None

    @contextmanager
    def noting_failure(self) -> Iterator[None]:
        """Record a failure of the block in the savepoint. It becomes BatchOutrun if the batch is no longer kept."""
        try:
            yield
        except Exception as error:
            batch, cause = self.committed.batch_id, error
            is_ours = isinstance(error, SessionizerError)
            if not is_ours and batch not in list_committed_batches(self.committed.checkpoint):
                cause = BatchOutrun(self.stream.name, batch, first_line(error))
            write_data_record(self.home.failed, SavepointFailure(epoch_ms(), first_line(cause)))
            raise cause from error

    def _require_settled(self) -> None:
        """Raise OperationPending or StreamChanged if a command changes, or has changed, what the savepoint is of."""
        require_no_operation(self.stream, self.asked.within)
        active = active_lineage(self.stream)
        if not self.asked.within and active != self.committed.lineage:
            raise StreamChanged(self.stream.name, self.committed.lineage, active or "none")

    def complete(
        self, kind: SavepointKind, counts: Counts | None, earliest_due_ms: int | None, versions: Mapping[str, str]
    ) -> Manifest:
        """Write the manifest. ``versions``: of programs beside this one. Raises OperationPending, StreamChanged."""
        self._require_settled()
        committed = self.committed
        excluded = read_excluded_ranges(self.stream, committed.lineage)
        manifest = Manifest(
            id=self.home.id,
            kind=kind,
            stream=self.stream.name,
            owner=committed.record.owner,
            lineage=committed.lineage,
            batch_id=committed.batch_id,
            batch_at=committed.batch_at,
            made_at=epoch_ms(),
            live=self.asked.live,
            checkpoint_format=committed.record.checkpoint_format,
            revision=committed.record.revision,
            spec=committed.spec,
            time_mode=committed.kept.time_mode,
            payload_types=committed.kept.payload,
            position=committed.position,
            watermark_ms=committed.watermark_ms,
            sinks=self._sinks,
            counts=counts,
            earliest_due_ms=earliest_due_ms,
            fingerprint=replace(present_fingerprint(versions), configuration=committed.settings),
            files=tuple(data_files(self.home)),
            former_sinks=self._former_sinks,
            source_ids=read_source_ids(self.stream, committed.lineage),
            migrations=read_applied(self.stream, committed.lineage),
            path=path_to(committed.lineage, committed.batch_id, origins_of(self.stream)),
            excluded_ranges=excluded.to_json() if excluded else {},
        )
        write_manifest(self.home, manifest)
        mark = Mark(
            kind=MarkKind.SAVEPOINT,
            at=manifest.batch_at,  # the time that a restore goes back to, and by which `restore --time` chooses
            what=str(manifest.kind),
            text=self.asked.why,
            lineage=manifest.lineage,
            batch_id=manifest.batch_id,
            savepoint=manifest.id,
            bytes=manifest.bytes,
        )
        add_mark(self.stream, mark)
        self.after("manifest")
        return manifest

    def _read_sinks(self) -> None:
        """Read the versions of the tables, also in folders that ``sink.path`` named before."""
        now, places = self.committed.spec["sink"]["path"], self.stream.streamed_locations
        self._sinks = tuple(SinkTable(name, place, self._version(place)) for name, place in places(now).items())
        self._former_sinks = tuple(
            FormerSink(folder, name, self._version(place))
            for folder in sink_folders(self.stream, origins_of(self.stream))
            if folder != now
            for name, place in places(folder).items()
        )

    def _version(self, location: str) -> int | None:
        require_known_operations(StreamState.read(self.stream, self.committed.lineage), location)
        return version_with_batch(folder_at(location), self.committed.lineage, self.committed.batch_id)


def make_native_savepoint(
    stream: StreamHome, committed: CommittedBatch, asked: SavepointRequest, after: Callable[[str], None]
) -> Manifest:
    """Make the savepoint, or return the complete one of its id. Raises BatchOutrun, UnusableSavepoint, ValueError."""
    writer = SavepointWriter(stream, committed, asked, after)
    done = writer.begin()
    if done is not None:
        return done
    with writer.noting_failure():
        target, are_files = writer.home.part(CHECKPOINT), committed.position.format == FILES
        make_data_folder(target)
        copy_batch(committed.checkpoint, committed.batch_id, target, events_are_files=are_files)
        committed.require_unchanged()
        writer.after("checkpoint")
        return writer.complete(SavepointKind.NATIVE, None, None, {})


def require_same_line(manifest: Manifest, running: str) -> None:
    """Raise UnusableSavepoint if the ``running`` Spark may read the state in another way than it was written."""
    wrote = manifest.fingerprint.versions["spark"]
    if wrote.split(".")[:2] != running.split(".")[:2]:
        why = f"it is native, of Spark {wrote}, and this is Spark {running}: another line may read its files otherwise"
        raise UnusableSavepoint(manifest.id, why)


def install(home: SavepointHome, manifest: Manifest, checkpoint: DataPath) -> None:
    """Copy a native savepoint as the checkpoint of a new lineage. Raises UnusableSavepoint, UnwritablePath."""
    if manifest.kind is not SavepointKind.NATIVE:
        raise UnusableSavepoint(home.id, f"it is {manifest.kind}: its tables are seeded, not copied")
    try:
        remove_tree(checkpoint)
        kept = home.part(CHECKPOINT)
        copy_files(kept, (relative_name(file, kept) for file in files_below(kept)), checkpoint)
        move_schema(checkpoint, add_scheme(checkpoint))
    except OSError as error:
        raise unwritable(uri_of(checkpoint), "the checkpoint of a new lineage", error) from error
