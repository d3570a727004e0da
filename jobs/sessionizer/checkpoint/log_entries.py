"""Logs of a checkpoint as Spark writes them: the input of a batch, its commit, the files that a source has listed.

A function that parses takes the text of one file, and raises ValueError with the problem. Spark has no public way to
ask. Each file is complete before its name appears. Ours are offsets of version 1 and commits of 2 (docs/adr/0004,
0072).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from sessionizer.errors import DamagedFile
from sessionizer.home.data_files import list_names, read_data_text
from sessionizer.home.json_record import parse_json
from sessionizer.home.roots import DataPath, uri_of

NOT_READ: Final = "-"
"""The line of a source in the offsets that was not read yet."""
_OF_FILES: Final = "logOffset"
FILES: Final = "files"
_UUID: Final = re.compile(r"[0-9a-fA-F]{1,8}(?:-[0-9a-fA-F]{1,4}){3}-[0-9a-fA-F]{1,12}")
_KNOWN: Final = {"offsets": ("v1", "v2"), "commits": ("v1", "v2"), "sources": ("v1",)}


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """Input of a batch. ``watermark_ms``, and ``at_ms``, its clock, are epoch ms. ``settings``: Spark's pinned ones.

    ``ends``: the end of each source, by its place or its name. None for a source that was not read yet.
    """

    batch_id: int
    version: str
    watermark_ms: int
    at_ms: int
    settings: Mapping[str, str]
    ends: Mapping[str, Any]

    def last_file_offset(self, source: str) -> int:
        """Return the last offset in the list of ``source``'s files that the batch reads, -1 for none."""
        end = self.ends.get(source)
        return -1 if end is None else int(end[_OF_FILES])


@dataclass(frozen=True, slots=True)
class CommitEntry:
    """Record that a batch is over. ``state_ids``: of stores' files, by operator and partition, from format 2."""

    batch_id: int
    version: str
    next_watermark_ms: int
    state_ids: Mapping[int, list[list[str]]] = field(default_factory=dict)


def offset_entry(batch_id: int, text: str) -> OffsetEntry:
    """Parse a file of ``offsets``."""
    version, about, *sources = _lines(text, "offsets", at_least=2)
    known = _object(about)
    try:
        settings = {name: str(value) for name, value in known.get("conf", {}).items()}
        watermark, at = int(known["batchWatermarkMs"]), int(known["batchTimestampMs"])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ValueError(f"it lacks the clock or the watermark of the batch ({error})") from None
    if not sources:
        raise ValueError("it names no source")
    ends = dict(_end(place, line, named=version == "v2") for place, line in enumerate(sources))
    return OffsetEntry(batch_id, version, watermark, at, settings, ends)


def _end(place: int, line: str, *, named: bool) -> tuple[str, Any]:
    """Return a source's name and its end. In version 2 the name stands before the end."""
    name, end = str(place), line
    if named and not line.startswith(("{", NOT_READ)):
        name, _, end = line.partition(":")
    if end == NOT_READ:
        return name, None
    try:
        found = parse_json(end)
    except ValueError:
        raise ValueError(f"the offset of source {name} is no JSON") from None
    if isinstance(found, dict) and type(found.get(_OF_FILES, 0)) is not int:
        raise ValueError(f"the offset of source {name} is no number")
    return name, found


def commit_entry(batch_id: int, text: str) -> CommitEntry:
    """Parse a file of ``commits``."""
    version, about = _lines(text, "commits", at_least=2)[:2]
    known = _object(about)
    try:
        ids = {
            int(operator): [[str(store) for store in stores] for stores in partitions]
            for operator, partitions in (known.get("stateUniqueIds") or {}).items()
        }
        return CommitEntry(batch_id, version, int(known.get("nextBatchWatermarkMs") or 0), ids)
    except (TypeError, ValueError, AttributeError, OverflowError):
        raise ValueError("the ids of the state in it make no sense") from None


def source_entries(text: str) -> list[dict[str, Any]]:
    """Parse a part of the list that a source of files keeps: ``path``, ``timestamp``, ``batchId`` of each file."""
    _, *entries = _lines(text, "sources", at_least=1)
    found = [_object(entry) for entry in entries]
    if any(not isinstance(entry.get("path"), str) or not isinstance(entry.get("batchId"), int) for entry in found):
        raise ValueError("an entry of it names no file or no batch")
    return found


def query_id(text: str) -> str:
    """Return the id in ``metadata``. Without a UUID the query does not start."""
    found = _object(text).get("id")
    if not isinstance(found, str) or not _UUID.fullmatch(found):
        raise ValueError("it has no id of a query")
    return found


def text_of(content: bytes) -> str:
    """Decode the text of a file."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ValueError("it is no text") from None


def _lines(text: str, log: str, *, at_least: int) -> list[str]:
    if not text:
        raise ValueError("it is empty")
    lines = text.splitlines()
    if lines[0] not in _KNOWN[log]:
        raise ValueError(f"its version is {lines[0][:20]!r}, and known are {' and '.join(_KNOWN[log])}")
    if len(lines) < at_least:
        raise ValueError("it ends after its version")
    return lines


def _object(text: str) -> dict[str, Any]:
    if not text:
        raise ValueError("it is empty")
    try:
        value = parse_json(text)
    except ValueError:
        raise ValueError("it is no JSON: cut, or changed") from None
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004  of the text, not of an argument
    return value


def source_kind(end: Any) -> str:  # noqa: ANN401  JSON
    """Return the kind of source that writes such an offset."""
    if end is None:
        return "not read yet"
    if not isinstance(end, dict):
        return "rate, socket or memory"
    if set(end) == {_OF_FILES}:
        return FILES
    if "reservoirId" in end or "reservoirVersion" in end:
        return "Delta"
    if end and all(isinstance(of_topic, dict) for of_topic in end.values()):
        return "Kafka"
    return "another source"


METADATA: Final = "metadata"
OFFSETS: Final = "offsets"
COMMITS: Final = "commits"
SOURCES: Final = "sources"
STATE: Final = "state"

EVENTS: Final = "0"
PUNCTUATIONS: Final = "1"
"""The sources of our query. A checkpoint knows them by their places (docs/adr/0072), the events first."""
OPERATOR: Final = 0
"""The number of the only stateful operator of our query."""
PARTITIONS: Final = "spark.sql.shuffle.partitions"
"""The setting that is pinned in a checkpoint from its first batch on: its number of state partitions."""


def offset_log(checkpoint: DataPath) -> DataPath:
    """Return Spark's log of the batches whose input is settled: a file for each, named by its number."""
    return checkpoint / OFFSETS


def commit_log(checkpoint: DataPath) -> DataPath:
    """Return Spark's log of the committed batches."""
    return checkpoint / COMMITS


def source_log(checkpoint: DataPath, source: str) -> DataPath:
    """Return Spark's log of the ``source``, given by its place in the query or its name: a file source's files."""
    return checkpoint / SOURCES / source


def list_numbers(log: DataPath) -> set[int]:
    """Return the numbers that name the parts of one of Spark's logs."""
    names = (name.removesuffix(".compact") for name in list_names(log))
    return {int(name) for name in names if name.isdecimal()}


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
    """Read the watermark (epoch ms) that the events of a committed batch led to. Raises OSError, ValueError."""
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
    """Return both log entries of a batch, which change only if it is replaced. Raises OSError if one is gone."""
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
    """Return the state partitions of a new lineage: Spark's ``given`` setting, at most one per key group."""
    return min(int(given or key_groups), key_groups)
