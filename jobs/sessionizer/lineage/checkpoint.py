"""Reader of the files of Spark's checkpoint: the only module that knows them. Light, without Spark.

``offsets/N`` says what a batch reads, ``commits/N`` that it is over, ``sources/<source>`` which files a source of files
has listed. Spark has no public way to ask. Each file is complete before its name appears.

The log of offsets is in version 1 (docs/adr/0072): it has a line for each source by its place in the query, ``-`` for
one that was not read yet.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sessionizer.home.data_files import names_in
from sessionizer.home.data_root import uri_of
from sessionizer.home.lineage_home import commit_log, offset_log, source_log

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from sessionizer.home.data_root import DataPath

EVENTS: Final = "events"
PUNCTUATIONS: Final = "punctuations"
"""The sources of the query. A checkpoint knows them by their places, the events first: these never change."""

PARTITIONS: Final = "spark.sql.shuffle.partitions"
"""The setting that is pinned in a checkpoint from its first batch on: its number of state partitions."""

_SOURCES: Final = (EVENTS, PUNCTUATIONS)
_NOT_READ: Final = "-"
_PARTS: Final = 10
"""Each part with a number of this step in a list of files repeats the entries of all parts before it."""
_OF_NO_BATCH: Final = 2**62
"""The number under which a file is listed that counts as read, and that no batch reads. Spark takes none below 0."""


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """A batch whose input is settled: its clock and its watermark (epoch ms), and where its sources end.

    ``ends``: by the name of each source that was ever read, its offset in JSON.
    """

    batch_id: int
    at_ms: int
    watermark_ms: int
    ends: Mapping[str, Any]

    def last_file_offset(self, source: str) -> int:
        """Return the last offset in the list of ``source``'s files that the batch reads, -1 for none."""
        return int(self.ends[source]["logOffset"]) if source in self.ends else -1


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file that a source of files counts as read: its URI and when it was changed last (epoch ms)."""

    uri: str
    changed_at: int


def partitions_of(given: str | None, key_groups: int) -> int:
    """Return the number of state partitions of a new lineage.

    It is Spark's setting ``given``, at most one partition per key group, because more would be empty (ADR 0113).
    """
    return min(int(given or key_groups), key_groups)


def begun_batch(checkpoint: DataPath) -> int | None:
    """Return the newest batch whose input is settled, None if there was no batch."""
    return max(begun_batches(checkpoint), default=None)


def committed_batch(checkpoint: DataPath) -> int | None:
    """Return the newest batch that is over, None if none is."""
    return max(committed_batches(checkpoint), default=None)


def begun_batches(checkpoint: DataPath) -> set[int]:
    """Return the batches whose input Spark still has on record: about the last hundred."""
    return _numbers(offset_log(checkpoint))


def committed_batches(checkpoint: DataPath) -> set[int]:
    """Return the batches that are over, of the last hundred or so."""
    return _numbers(commit_log(checkpoint))


def planned_batch(checkpoint: DataPath, batch_id: int) -> PlannedBatch:
    """Read the input of a batch. Raises OSError, and ValueError for a file that is no such log."""
    file = offset_log(checkpoint) / str(batch_id)
    version, about, *sources = file.read_text(encoding="utf-8").splitlines()
    if version != "v1":
        message = f"{file} has version {version!r}, of which this release knows nothing"
        raise ValueError(message)
    known = json.loads(about)
    ends = {name: json.loads(end) for name, end in zip(_SOURCES, sources, strict=False) if end != _NOT_READ}
    return PlannedBatch(batch_id, int(known["batchTimestampMs"]), int(known["batchWatermarkMs"]), ends)


def next_watermark(checkpoint: DataPath, batch_id: int) -> int:
    """Read the watermark (epoch ms) of the batch after the committed ``batch_id``. Raises OSError, ValueError.

    The watermark of ``batch_id`` itself comes from the events before it. Its commit has the one that its events led to.
    """
    version, told = (commit_log(checkpoint) / str(batch_id)).read_text(encoding="utf-8").splitlines()
    if version != "v2":
        message = f"commit {batch_id} has version {version!r}, of which this release knows nothing"
        raise ValueError(message)
    return int(json.loads(told)["nextBatchWatermarkMs"])


def proof_of_batch(checkpoint: DataPath, batch_id: int) -> str:
    """Return Spark's two log entries of a committed batch. They change only if the batch is replaced.

    Raises OSError if one is gone.
    """
    logs = (offset_log(checkpoint), commit_log(checkpoint))
    return "\n".join((log / str(batch_id)).read_text(encoding="utf-8") for log in logs)


def state_ids(checkpoint: DataPath, batch_id: int) -> list[str]:
    """Return one id a partition: it tells the state files of a committed batch from those of a failed attempt.

    Raises OSError, KeyError.
    """
    _, told = (commit_log(checkpoint) / str(batch_id)).read_text(encoding="utf-8").splitlines()
    return [str(ids[0]) for ids in json.loads(told)["stateUniqueIds"]["0"]]


def copy_list_of_files(checkpoint: DataPath, source: str, until: int, target: DataPath) -> None:
    """Write the list of ``source``'s files up to the offset ``until`` into the copy of the checkpoint at ``target``.

    Raises OSError.
    """
    if until < 0:
        return
    folder = _list_of_files(target, source)
    folder.mkdir(parents=True)
    entries = _entries(checkpoint, source, -1, until, {_OF_NO_BATCH})
    whole = until - (until + 1) % _PARTS  # the last part that holds those before it, too
    first = max(whole, 0)
    for offset in range(first, until + 1):
        name, after = (f"{offset}.compact", -1) if offset == whole else (str(offset), offset - 1)
        held = [
            entry
            for entry in entries
            if after < entry["batchId"] <= offset or (offset == first and entry["batchId"] == _OF_NO_BATCH)
        ]
        told = [json.dumps(entry, separators=(",", ":")) for entry in held]
        (folder / name).write_text("\n".join(["v1", *told]), encoding="utf-8")


def settings_of_batch(checkpoint: DataPath, batch_id: int) -> dict[str, str]:
    """Read Spark's settings that are pinned in the checkpoint. Raises OSError, ValueError."""
    _, about, *_ = (offset_log(checkpoint) / str(batch_id)).read_text(encoding="utf-8").splitlines()
    return {name: str(value) for name, value in json.loads(about)["conf"].items()}


def pinned_settings(checkpoint: DataPath) -> dict[str, str]:
    """Read the settings that the newest committed batch pins, ``{}`` before it or if its files are damaged."""
    try:
        batch_id = committed_batch(checkpoint)
        return {} if batch_id is None else settings_of_batch(checkpoint, batch_id)
    except (OSError, ValueError, KeyError):  # the query itself reports it
        return {}


def seen_files(checkpoint: DataPath, batch_id: int) -> list[SeenFile]:
    """Return every file of the events' source up to ``batch_id``, read or gone by now. Raises OSError, ValueError."""
    until = planned_batch(checkpoint, batch_id).last_file_offset(EVENTS)
    entries = _entries(checkpoint, EVENTS, -1, until, {_OF_NO_BATCH})
    return [SeenFile(str(entry["path"]), int(entry["timestamp"])) for entry in entries]


def seen_since(checkpoint: DataPath, after: int) -> tuple[list[SeenFile], int]:
    """Return the files that a source of files listed after one of its offsets, and its newest offset.

    Raises OSError.
    """
    until = listed_until(checkpoint, EVENTS)
    entries = _entries(checkpoint, EVENTS, after, until, {_OF_NO_BATCH}) if until > after else []
    return [SeenFile(str(entry["path"]), int(entry["timestamp"])) for entry in entries], until


def initial_offset(checkpoint: DataPath) -> Any:  # noqa: ANN401  JSON
    """Return the offsets by topic and partition that a Kafka source began at. Raises OSError if it has not begun."""
    told = (source_log(checkpoint, str(_SOURCES.index(EVENTS))) / "0").read_text(encoding="utf-8")
    return json.loads(told.partition("\n")[2])


def files_of_batch(checkpoint: DataPath, batch_id: int, source: str = EVENTS) -> list[str]:
    """Return the URIs of ``source``'s files in a planned batch. Raises OSError, ValueError."""
    after = planned_batch(checkpoint, batch_id - 1).last_file_offset(source) if batch_id else -1
    return files_between(checkpoint, source, after, planned_batch(checkpoint, batch_id).last_file_offset(source))


def files_until(checkpoint: DataPath, batch_id: int, source: str) -> list[str]:
    """Return the URIs of ``source``'s files in all batches up to ``batch_id``. Raises OSError, ValueError."""
    return files_between(checkpoint, source, -1, planned_batch(checkpoint, batch_id).last_file_offset(source))


def files_between(checkpoint: DataPath, source: str, after: int, until: int) -> list[str]:
    """Return the URIs of the files that ``source`` listed after one of its offsets and up to another.

    Raises OSError.
    """
    return [str(entry["path"]) for entry in _entries(checkpoint, source, after, until)]


def _entries(
    checkpoint: DataPath, source: str, after: int, until: int, others: Container[int] = ()
) -> list[dict[str, Any]]:
    """Return ``source``'s entries of the files that it listed between two of its offsets, in that order.

    Raises OSError. ``others``: numbers outside of these that count as well.
    """
    log = _list_of_files(checkpoint, source)
    wanted, found = set(range(after + 1, until + 1)), dict[str, dict[str, Any]]()
    for offset in sorted(_numbers(log)):
        if offset <= after or not wanted:
            continue
        # every tenth part holds those before it, too, which are removed some time later
        part, is_whole = log / str(offset), False
        if not part.exists():
            part, is_whole = log / f"{offset}.compact", True
        entries = map(json.loads, part.read_text(encoding="utf-8").splitlines()[1:])
        found |= {
            str(entry["path"]): entry
            for entry in entries
            if after < entry["batchId"] <= until or entry["batchId"] in others
        }
        wanted -= set(range(offset + 1)) if is_whole else {offset}
    if wanted:
        raise FileNotFoundError(log / str(min(wanted)))
    return sorted(found.values(), key=lambda entry: int(entry["batchId"]))


def go_on_from(checkpoint: DataPath, offset: Any | None, seen: Sequence[SeenFile]) -> None:  # noqa: ANN401  JSON
    """Have the events be read from ``offset`` on, after batch 0 of a checkpoint in which that batch read none.

    A source of files has a list of its own instead, of the files that it has ``seen``. Only before any driver has run,
    because nothing of it is atomic. Raises ValueError if another batch was begun, and OSError.
    """
    file = offset_log(checkpoint) / "0"
    version, about, events, *others = file.read_text(encoding="utf-8").splitlines()
    if begun_batches(checkpoint) != {0} or version != "v1" or events != _NOT_READ:
        message = f"{uri_of(checkpoint)} is not that of a lineage that has only begun"
        raise ValueError(message)
    if seen:
        _take_for_seen(_list_of_files(checkpoint, EVENTS), seen)
        offset = {"logOffset": 0}
    if offset is not None:
        file.write_text("\n".join([version, about, json.dumps(offset), *others]), encoding="utf-8")
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def _take_for_seen(log: DataPath, seen: Sequence[SeenFile]) -> None:
    """Write entry 0 of a list of files.

    Spark reads the files with the entry's own number, and skips all that are listed.
    """
    entries = [{"path": file.uri, "timestamp": file.changed_at, "batchId": _OF_NO_BATCH} for file in seen]
    log.mkdir(parents=True, exist_ok=True)
    (log / "0").write_text("\n".join(["v1", *map(json.dumps, entries)]), encoding="utf-8")
    (log / ".0.crc").unlink(missing_ok=True)


def listed_until(checkpoint: DataPath, source: str) -> int:
    """Return the last offset in the list of a source of files, -1 for none. Perhaps no batch has read it yet."""
    return max(_numbers(_list_of_files(checkpoint, source)), default=-1)


def _list_of_files(checkpoint: DataPath, source: str) -> DataPath:
    """Return the folder of ``source``'s list of files, which is named by the place of the source in the query."""
    return source_log(checkpoint, str(_SOURCES.index(source)))


def _numbers(log: DataPath) -> set[int]:
    """Return the numbers that name the parts of one of Spark's logs."""
    names = (name.removesuffix(".compact") for name in names_in(log))
    return {int(name) for name in names if name.isdecimal()}
