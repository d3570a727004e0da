"""Logs of the batches of our own checkpoints: ``offsets/N`` says what a batch reads, ``commits/N`` that it is over.

Spark has no public way to ask. Each file is complete before its name appears. The offsets are in version 1 and the
commits in version 2 (docs/adr/0004, 0072).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from sessionizer.checkpoint.log_entries import CommitEntry, OffsetEntry, commit_entry, offset_entry
from sessionizer.checkpoint.names import EVENTS, commit_log, list_numbers, offset_log, source_log
from sessionizer.errors import DamagedFile
from sessionizer.home.data_files import read_data_text
from sessionizer.home.json_record import parse_json
from sessionizer.home.roots import uri_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.home.roots import DataPath

_Entry = TypeVar("_Entry", OffsetEntry, CommitEntry)


def read_begun_batch(checkpoint: DataPath) -> int | None:
    """Return the newest batch whose input is settled, None if there was no batch."""
    return max(list_begun_batches(checkpoint), default=None)


def read_last_commit(checkpoint: DataPath) -> int | None:
    """Return the newest batch that is over, None if none is."""
    return max(list_committed_batches(checkpoint), default=None)


def list_begun_batches(checkpoint: DataPath) -> set[int]:
    """Return the batches whose input Spark still has on record: about the last hundred."""
    return list_numbers(offset_log(checkpoint))


def list_committed_batches(checkpoint: DataPath) -> set[int]:
    """Return the batches that are over, of the last hundred or so."""
    return list_numbers(commit_log(checkpoint))


def read_planned_batch(checkpoint: DataPath, batch_id: int) -> OffsetEntry:
    """Read the input of a batch. Raises OSError, and ValueError for a file that is no such log."""
    return _read(offset_log(checkpoint), batch_id, offset_entry, "v1")


def read_commit(checkpoint: DataPath, batch_id: int) -> CommitEntry:
    """Read the commit of a batch. Raises OSError, and ValueError for a file that is no such log."""
    return _read(commit_log(checkpoint), batch_id, commit_entry, "v2")


def next_watermark(checkpoint: DataPath, batch_id: int) -> int:
    """Read the watermark (epoch ms) of the batch after the committed ``batch_id``. Raises OSError, ValueError.

    The watermark of ``batch_id`` itself comes from the events before it. Its commit has the one that its events led to.
    """
    return read_commit(checkpoint, batch_id).next_watermark_ms


def _read(log: DataPath, batch_id: int, parse: Callable[[int, str], _Entry], version: str) -> _Entry:
    file = log / str(batch_id)
    try:
        entry = parse(batch_id, read_data_text(file))
    except ValueError as error:
        raise DamagedFile(uri_of(file), str(error)) from None
    if entry.version != version:
        raise DamagedFile(uri_of(file), f"it has version {entry.version!r}, of which this release knows nothing")
    return entry


def proof_of_batch(checkpoint: DataPath, batch_id: int) -> str:
    """Return Spark's two log entries of a committed batch. They change only if the batch is replaced.

    Raises OSError if one is gone.
    """
    logs = (offset_log(checkpoint), commit_log(checkpoint))
    return "\n".join(read_data_text(log / str(batch_id)) for log in logs)


def read_pinned_settings(checkpoint: DataPath) -> dict[str, str]:
    """Read the settings that the newest committed batch pins, ``{}`` before it or if its files are damaged."""
    try:
        batch_id = read_last_commit(checkpoint)
        return {} if batch_id is None else dict(read_planned_batch(checkpoint, batch_id).settings)
    except (OSError, ValueError):  # the query itself reports it
        return {}


def initial_offset(checkpoint: DataPath) -> Any:  # noqa: ANN401  JSON
    """Return the offsets by topic and partition that a Kafka source began at. Raises OSError if it has not begun."""
    told = read_data_text(source_log(checkpoint, EVENTS) / "0")
    return parse_json(told.partition("\n")[2])


def partitions_of(given: str | None, key_groups: int) -> int:
    """Return the number of state partitions of a new lineage.

    It is Spark's setting ``given``, at most one partition per key group, because more would be empty
    (docs/develop/tuning.md).
    """
    return min(int(given or key_groups), key_groups)
