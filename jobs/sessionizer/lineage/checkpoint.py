"""What Spark's checkpoint tells, read from its files: the only place that knows them. Light, without Spark.

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
"""The setting that is pinned in a checkpoint from its first batch on: of how many partitions its state is."""

_SOURCES: Final = (EVENTS, PUNCTUATIONS)
_NOT_READ: Final = "-"
_PARTS: Final = 10
"""Every so manieth part of a list of files holds those before it, too."""
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
        """How far it reads the list of a source of files, -1 for nothing."""
        return int(self.ends[source]["logOffset"]) if source in self.ends else -1


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file that a source of files takes for read: its URI and when it was changed last (epoch ms)."""

    uri: str
    changed_at: int


def partitions_of(given: str | None, key_groups: int) -> int:
    """Of how many the state of a new lineage is, where Spark is ``given`` so many: more would be empty (ADR 0113)."""
    return min(int(given or key_groups), key_groups)


def begun_batch(checkpoint: DataPath) -> int | None:
    """The newest batch whose input is settled; None if there was no batch."""
    return max(begun_batches(checkpoint), default=None)


def committed_batch(checkpoint: DataPath) -> int | None:
    """The newest batch that is over; None if none is."""
    return max(committed_batches(checkpoint), default=None)


def begun_batches(checkpoint: DataPath) -> set[int]:
    """The batches of which Spark keeps what they read: about the last hundred."""
    return _numbers(offset_log(checkpoint))


def committed_batches(checkpoint: DataPath) -> set[int]:
    """Those that are over, of the last hundred or so."""
    return _numbers(commit_log(checkpoint))


def planned_batch(checkpoint: DataPath, batch_id: int) -> PlannedBatch:
    """What the batch reads. Raises OSError, and ValueError for a file that is no such log."""
    file = offset_log(checkpoint) / str(batch_id)
    version, about, *sources = file.read_text(encoding="utf-8").splitlines()
    if version != "v1":
        message = f"{file} has version {version!r}, of which this release knows nothing"
        raise ValueError(message)
    known = json.loads(about)
    ends = {name: json.loads(end) for name, end in zip(_SOURCES, sources, strict=False) if end != _NOT_READ}
    return PlannedBatch(batch_id, int(known["batchTimestampMs"]), int(known["batchWatermarkMs"]), ends)


def next_watermark(checkpoint: DataPath, batch_id: int) -> int:
    """The watermark (epoch ms) that the batch after the committed ``batch_id`` gets. Raises as ``planned_batch``.

    Its own is that of the events before it: what they themselves moved it to is in its commit.
    """
    version, told = (commit_log(checkpoint) / str(batch_id)).read_text(encoding="utf-8").splitlines()
    if version != "v2":
        message = f"commit {batch_id} has version {version!r}, of which this release knows nothing"
        raise ValueError(message)
    return int(json.loads(told)["nextBatchWatermarkMs"])


def proof_of_batch(checkpoint: DataPath, batch_id: int) -> str:
    """What Spark wrote of a committed batch: the same as long as nobody replaces it. Raises OSError if it is gone."""
    logs = (offset_log(checkpoint), commit_log(checkpoint))
    return "\n".join((log / str(batch_id)).read_text(encoding="utf-8") for log in logs)


def state_ids(checkpoint: DataPath, batch_id: int) -> list[str]:
    """By what the state's files of a committed batch are told from those of a try that failed: one id a partition.

    Raises OSError, KeyError.
    """
    _, told = (commit_log(checkpoint) / str(batch_id)).read_text(encoding="utf-8").splitlines()
    return [str(ids[0]) for ids in json.loads(told)["stateUniqueIds"]["0"]]


def copy_list_of_files(checkpoint: DataPath, source: str, until: int, target: DataPath) -> None:
    """Have a copy of the checkpoint at ``target`` know the files of ``source`` up to an offset, and no later ones.

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
    """Spark's settings that are pinned in the checkpoint. Raises as ``planned_batch``."""
    _, about, *_ = (offset_log(checkpoint) / str(batch_id)).read_text(encoding="utf-8").splitlines()
    return {name: str(value) for name, value in json.loads(about)["conf"].items()}


def seen_files(checkpoint: DataPath, batch_id: int) -> list[SeenFile]:
    """Every file of a source of files up to ``batch_id``, read or not there any more. Raises as ``planned_batch``."""
    until = planned_batch(checkpoint, batch_id).last_file_offset(EVENTS)
    entries = _entries(checkpoint, EVENTS, -1, until, {_OF_NO_BATCH})
    return [SeenFile(str(entry["path"]), int(entry["timestamp"])) for entry in entries]


def seen_since(checkpoint: DataPath, after: int) -> tuple[list[SeenFile], int]:
    """Files that a source of files listed after one of its offsets, and its newest offset. Raises OSError."""
    until = listed_until(checkpoint, EVENTS)
    entries = _entries(checkpoint, EVENTS, after, until, {_OF_NO_BATCH}) if until > after else []
    return [SeenFile(str(entry["path"]), int(entry["timestamp"])) for entry in entries], until


def initial_offset(checkpoint: DataPath) -> Any:  # noqa: ANN401  JSON
    """Where a source of Kafka began: offsets by topic and partition. Raises OSError where it has not begun."""
    told = (source_log(checkpoint, str(_SOURCES.index(EVENTS))) / "0").read_text(encoding="utf-8")
    return json.loads(told.partition("\n")[2])


def files_of_batch(checkpoint: DataPath, batch_id: int, source: str = EVENTS) -> list[str]:
    """URIs of the files of ``source`` in a batch that is planned. Raises as ``planned_batch``."""
    after = planned_batch(checkpoint, batch_id - 1).last_file_offset(source) if batch_id else -1
    return files_between(checkpoint, source, after, planned_batch(checkpoint, batch_id).last_file_offset(source))


def files_until(checkpoint: DataPath, batch_id: int, source: str) -> list[str]:
    """URIs of the files of ``source`` in all batches up to ``batch_id``. Raises as ``planned_batch``."""
    return files_between(checkpoint, source, -1, planned_batch(checkpoint, batch_id).last_file_offset(source))


def files_between(checkpoint: DataPath, source: str, after: int, until: int) -> list[str]:
    """URIs of the files that ``source`` listed after one of its offsets and up to another. Raises OSError."""
    return [str(entry["path"]) for entry in _entries(checkpoint, source, after, until)]


def _entries(
    checkpoint: DataPath, source: str, after: int, until: int, others: Container[int] = ()
) -> list[dict[str, Any]]:
    """What ``source`` notes of the files that it listed between two of its offsets, in that order. Raises OSError.

    ``others``: numbers outside of these that count as well.
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

    A source of files has a list of its own instead, of the files that it has ``seen``. Only where no driver has run
    yet: nothing of it is atomic. Raises ValueError where another batch was begun, and OSError.
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
    """Entry 0 of a list of files. Spark reads those of an entry's own number, and passes over all that are listed."""
    entries = [{"path": file.uri, "timestamp": file.changed_at, "batchId": _OF_NO_BATCH} for file in seen]
    log.mkdir(parents=True, exist_ok=True)
    (log / "0").write_text("\n".join(["v1", *map(json.dumps, entries)]), encoding="utf-8")
    (log / ".0.crc").unlink(missing_ok=True)


def listed_until(checkpoint: DataPath, source: str) -> int:
    """The last offset in the list of a source of files, which no batch may have read yet; -1 for none."""
    return max(_numbers(_list_of_files(checkpoint, source)), default=-1)


def _list_of_files(checkpoint: DataPath, source: str) -> DataPath:
    """By the place of the source."""
    return source_log(checkpoint, str(_SOURCES.index(source)))


def _numbers(log: DataPath) -> set[int]:
    """The numbers that name the parts of a log of Spark's."""
    names = (name.removesuffix(".compact") for name in names_in(log))
    return {int(name) for name in names if name.isdecimal()}
