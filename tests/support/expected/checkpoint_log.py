"""What a query really did, as its checkpoint tells: which files made up each micro-batch, and when it was.

A test of a streaming query cannot dictate the micro-batches; it can read them afterwards from where Spark itself reads
them in a replay.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One micro-batch: ``at_ms`` is its wall clock, ``files`` the names of the files it brought, of all sources."""

    batch_id: int
    at_ms: int
    files: frozenset[str]


@dataclass(frozen=True, slots=True)
class CheckpointLog:
    """The offset, commit and file-source logs of one checkpoint location; nothing is there before its query starts."""

    location: Path

    def begun(self) -> list[MicroBatch]:
        """The micro-batches whose offsets are written down, oldest first."""
        offsets = sorted(self._numbers("offsets"))
        ends = [_Ends.read(self.location / "offsets" / str(batch_id)) for batch_id in offsets]
        file_logs = [self._file_log(source) for source in range(len(ends[-1].last_of_source) if ends else 0)]
        return [
            MicroBatch(batch_id, now.at_ms, _between(before, now, file_logs))
            for batch_id, (before, now) in zip(offsets, pairwise([_Ends(0, ()), *ends]), strict=True)
        ]

    def committed(self) -> list[MicroBatch]:
        """Those that are over."""
        commits = self._numbers("commits")
        return [batch for batch in self.begun() if batch.batch_id in commits]

    def forget_last_commit(self) -> None:
        """Make the last batch one that was killed before its commit. Only while no query runs."""
        last = max(self._numbers("commits"))
        (self.location / "commits" / str(last)).unlink()
        (self.location / "commits" / f".{last}.crc").unlink(missing_ok=True)

    def set_clock(self, batch_id: int, at_ms: int) -> None:
        """Make the batch one that began at ``at_ms``. Only while no query runs."""
        file = self.location / "offsets" / str(batch_id)
        version, metadata, *offsets = file.read_text().splitlines()
        told = json.dumps({**json.loads(metadata), "batchTimestampMs": at_ms})
        file.write_text("\n".join([version, told, *offsets]))
        file.with_name(f".{batch_id}.crc").unlink(missing_ok=True)

    def _numbers(self, log: str) -> set[int]:
        folder = self.location / log
        return {int(file.name) for file in folder.iterdir() if file.name.isdecimal()} if folder.is_dir() else set()

    def _file_log(self, source: int) -> dict[str, int]:
        """Name of each file of a source to the offset that brought it; every tenth part holds those before it."""
        folder = self.location / "sources" / str(source)
        parts = [part for part in folder.iterdir() if part.name.removesuffix(".compact").isdecimal()]
        lines = [line for part in parts for line in part.read_text().splitlines()[1:]]
        return {entry["path"].rpartition("/")[2]: entry["batchId"] for entry in map(json.loads, lines)}


@dataclass(frozen=True, slots=True)
class _Ends:
    """How far each source had been read at the end of a batch: its last offset, -1 for none."""

    at_ms: int
    last_of_source: tuple[int, ...]

    @classmethod
    def read(cls, file: Path) -> _Ends:
        _version, metadata, *sources = file.read_text().splitlines()
        last = tuple(-1 if source == "-" else int(json.loads(source)["logOffset"]) for source in sources)
        return cls(int(json.loads(metadata)["batchTimestampMs"]), last)


def _between(before: _Ends, now: _Ends, file_logs: list[dict[str, int]]) -> frozenset[str]:
    starts = before.last_of_source or (-1,) * len(now.last_of_source)
    spans = zip(starts, now.last_of_source, file_logs, strict=True)
    return frozenset(name for start, end, log in spans for name, offset in log.items() if start < offset <= end)
