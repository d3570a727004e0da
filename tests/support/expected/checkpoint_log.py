"""What a query really did, as its checkpoint tells: which files made up each micro-batch, and when it was.

A test of a streaming query cannot dictate the micro-batches; it can read them afterwards from where Spark itself reads
them in a replay.
"""

import json
from dataclasses import dataclass

from sessionizer.checkpoint.files import files_between
from sessionizer.checkpoint.log_entries import (
    OffsetEntry,
    commit_log,
    list_begun_batches,
    list_committed_batches,
    offset_log,
    read_planned_batch,
)
from sessionizer.home.roots import DataPath
from support.places import opened


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One micro-batch: ``at_ms`` is its wall clock, ``files`` the names of the files it brought, of all sources."""

    batch_id: int
    at_ms: int
    files: frozenset[str]


@dataclass(frozen=True, slots=True)
class CheckpointLog:
    """The offset, commit and file-source logs of one checkpoint location; nothing is there before its query starts."""

    location: DataPath

    def begun(self) -> list[MicroBatch]:
        """The micro-batches whose offsets are written down, oldest first."""
        ids = sorted(list_begun_batches(self.location))
        planned = [read_planned_batch(self.location, batch_id) for batch_id in ids]
        steps = zip([None, *planned], planned, strict=False)
        return [MicroBatch(now.batch_id, now.at_ms, self._files(before, now)) for before, now in steps]

    def committed(self) -> list[MicroBatch]:
        commits = list_committed_batches(self.location)
        return [batch for batch in self.begun() if batch.batch_id in commits]

    def forget_last_commit(self) -> None:
        """Make the last batch one that was killed before its commit. Only while no query runs."""
        _forget(commit_log(self.location), max(list_committed_batches(self.location)))

    def forget_last_offsets(self) -> None:
        """Make the last batch, whose commit is forgotten, one that never began. Only while no query runs."""
        _forget(offset_log(self.location), max(list_begun_batches(self.location)))

    def set_clock(self, batch_id: int, at_ms: int) -> None:
        """Make the batch one that began at ``at_ms``. Only while no query runs."""
        file = offset_log(self.location) / str(batch_id)
        version, metadata, *offsets = opened(file).read_text().splitlines()
        told = json.dumps({**json.loads(metadata), "batchTimestampMs": at_ms})
        opened(file).write_text("\n".join([version, told, *offsets]))
        opened(file.parent / f".{batch_id}.crc").unlink(missing_ok=True)

    def _files(self, before: OffsetEntry | None, now: OffsetEntry) -> frozenset[str]:
        uris: set[str] = set()
        for source in now.ends:
            after = -1 if before is None else before.last_file_offset(source)
            uris.update(files_between(self.location, source, after, now.last_file_offset(source)))
        return frozenset(uri.rpartition("/")[2] for uri in uris)


def _forget(log: DataPath, batch_id: int) -> None:
    """With the checksum of Hadoop's: Spark's own way to name a file refuses one whose checksum is there."""
    opened(log / str(batch_id)).unlink()
    opened(log / f".{batch_id}.crc").unlink(missing_ok=True)
