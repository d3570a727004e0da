"""Ranges of a source that a restore excludes, and the part of it that is read again.

Ranges of a source that are excluded, resolved in the source as it is.

A range is named by the source's own positions. It is closed: the events found at the time of the request are excluded,
later ones are not. Events that the savepoint has read are in its state already and cannot be excluded any more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from sessionizer.checkpoint.files import SeenFile
from sessionizer.counts import count_text, number_is
from sessionizer.errors import InvalidSpec
from sessionizer.home.clock import moment_of
from sessionizer.lineage.excluded_ranges import NOTHING_EXCLUDED, ExcludedRange, ExcludedRanges, Records, file_position


@dataclass(frozen=True, slots=True)
class Replay:
    """Part of the source that is read again. ``described``: its position in words.

    ``items``: number of files or versions that come again, None if the source does not tell. ``missing``: those that
    are no longer there. A restore would lose their events.
    """

    described: str
    items: int | None = None
    missing: tuple[str, ...] = ()


def replay_of_files(seen_then: Collection[str], seen_now: Iterable[str], is_there: Callable[[str], bool]) -> Replay:
    """Describe the replay of a source of files: those read since.

    ``is_there`` says whether the file of a URI exists.
    """
    known = set(seen_then)
    since = [uri for uri in seen_now if uri not in known]
    gone = tuple(uri for uri in since if not is_there(uri))
    return Replay(f"files: {number_is(len(known))} read already", len(since), gone)


def replay_of_delta(offset: Any, versions: Collection[int]) -> Replay:  # noqa: ANN401  JSON
    """Describe the replay of a Delta table whose log has the ``versions``.

    ``offset``: as Delta's source writes it, None for the beginning. Every version from the position on must be there,
    because the source reads one after the other.
    """
    if offset is None:
        return Replay("the Delta table from its beginning")
    first, newest = int(offset["reservoirVersion"]), max(versions, default=-1)
    gone = tuple(f"version {version}" for version in range(first, newest + 1) if version not in versions)
    return Replay(f"the Delta table from version {first} on", max(0, newest - first + 1), gone)


def replay_of_topic(offset: Any) -> Replay:  # noqa: ANN401  JSON
    """Describe ``offset``, by topic and partition. The brokers are asked elsewhere."""
    return Replay(f"Kafka from {json.dumps(offset, sort_keys=True)} on" if offset else "Kafka as the spec says")


Offsets: TypeAlias = "Mapping[str, Mapping[str, int]]"
"""Offsets by topic and partition."""


@dataclass(frozen=True, slots=True)
class RecordTimes:
    """Records of all partitions of ``topic`` from the moment ``since`` on, and before ``until`` (epoch ms).

    In each partition they begin with the first record at or after ``since``, and end before the first at or after
    ``until``. Kafka looks these up by the timestamps of records.
    """

    topic: str
    since: int
    until: int


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of the partitions of a topic: at ``since``, at ``until``, and where the savepoint ``begins`` to read."""

    since: Offsets
    until: Offsets
    begins: Offsets | None

    def ranges(self, typed: str, topic: str) -> list[ExcludedRange]:
        """Return a range for each partition that has a record in the span, of those that are read again."""
        return [ExcludedRange(typed, records=records) for records, _ in self._found(topic) if records is not None]

    def remarks(self, typed: str, topic: str) -> list[str]:
        """Tell how many records of the span the savepoint has read, so that they stay."""
        stay = sum(read for _, read in self._found(topic))
        if not stay:
            return []
        return [
            f"{count_text(stay, 'more record')} of {typed}, read before the savepoint: its state keeps what is open"
        ]

    def _found(self, topic: str) -> Iterator[tuple[Records | None, int]]:
        """Yield by partition the records that are read again and the number of those that were read before."""
        begins = (self.begins or {}).get(topic, {})
        stops = self.until.get(topic, {})
        for partition, since in sorted(self.since.get(topic, {}).items(), key=lambda each: int(each[0])):
            first, end = max(since, begins.get(partition, 0)), stops.get(partition, since)
            read = max(0, min(end, begins.get(partition, 0)) - since)
            yield (Records(topic, int(partition), first, end) if first < end else None), read


FLAG: Final = "--exclude"
FILES_ALLOWED: Final = (
    "the name of a file below the source's folder, or a pattern such as 2026-11-23/*.json, or modified:FROM/TO. "
    "FROM and TO are moments in ISO 8601, and TO is not in the range"
)
RECORDS_ALLOWED: Final = (
    "TOPIC:PARTITION:FROM-TO, such as clicks:0:1200-1300 (1300 is not in it), TOPIC:PARTITION:OFFSET, or "
    "TOPIC:FROM/TO. The last one is for all partitions: FROM and TO are moments in ISO 8601, and TO is not in the range"
)
VERSIONS_ALLOWED: Final = "version:FROM-TO, such as version:12-15 (15 is not in it), or version:12"
_NOT_OF: Final = "Omit it, because a {source} cannot be read again"

_MODIFIED: Final = "modified:"
_NUMBERS: Final = r"(?P<first>\d{1,18})(-(?P<end>\d{1,18}))?"
_RECORDS: Final = re.compile(rf"(?P<topic>[A-Za-z0-9._-]+):(?P<partition>\d{{1,9}}):{_NUMBERS}")
_RECORD_TIMES: Final = re.compile(r"(?P<topic>[A-Za-z0-9._-]+):(?P<times>[^/]+/[^/]+)")
_VERSIONS: Final = re.compile(rf"version:{_NUMBERS}")


@dataclass(frozen=True, slots=True)
class FileNames:
    """The files whose names below the source's folder match the ``pattern``. ``*`` matches folders as well."""

    pattern: str


@dataclass(frozen=True, slots=True)
class FileTimes:
    """The files that were changed last at ``since`` or later, and before ``until`` (epoch ms)."""

    since: int
    until: int


@dataclass(frozen=True, slots=True)
class Versions:
    """The rows that a Delta table got by its versions from ``first`` up to ``end``, which is excluded."""

    first: int
    end: int


Wanted: TypeAlias = FileNames | FileTimes | Records | RecordTimes | Versions


def parse_range(typed: str, source: str) -> Wanted:
    """Parse ``typed`` for a source of that format. Raises InvalidSpec."""
    match source:
        case "files":
            return _wanted_files(typed)
        case "kafka":
            return _wanted_records(typed)
        case "delta":
            found = _VERSIONS.fullmatch(typed)
            if found is None:
                raise InvalidSpec(FLAG, typed, VERSIONS_ALLOWED)
            return Versions(*_numbers(typed, found, VERSIONS_ALLOWED))
        case _:
            raise InvalidSpec(FLAG, typed, _NOT_OF.format(source=source))


def _wanted_files(typed: str) -> FileNames | FileTimes:
    if not typed.startswith(_MODIFIED):
        pattern = typed.removeprefix("./")
        if not pattern or pattern.startswith("/"):
            raise InvalidSpec(FLAG, typed, FILES_ALLOWED)
        return FileNames(pattern)
    return FileTimes(*_moments(typed, typed.removeprefix(_MODIFIED), FILES_ALLOWED))


def _wanted_records(typed: str) -> Records | RecordTimes:
    times = _RECORD_TIMES.fullmatch(typed)
    if times is not None:
        return RecordTimes(times["topic"], *_moments(typed, times["times"], RECORDS_ALLOWED))
    found = _RECORDS.fullmatch(typed)
    if found is None:
        raise InvalidSpec(FLAG, typed, RECORDS_ALLOWED)
    return Records(found["topic"], int(found["partition"]), *_numbers(typed, found, RECORDS_ALLOWED))


def _moments(typed: str, times: str, allowed: str) -> tuple[int, int]:
    """Parse two moments (epoch ms), the first before the second."""
    first, slash, second = times.partition("/")
    if not slash:
        raise InvalidSpec(FLAG, typed, allowed)
    since, until = moment_of(first, FLAG), moment_of(second, FLAG)
    if until <= since:
        raise InvalidSpec(FLAG, typed, allowed)
    return since, until


def _numbers(typed: str, found: re.Match[str], allowed: str) -> tuple[int, int]:
    first = int(found["first"])
    end = first + 1 if found["end"] is None else int(found["end"])
    if end <= first:
        raise InvalidSpec(FLAG, typed, allowed)
    return first, end


MOST_FILES: Final = 10_000
"""Largest number of names that are given to the query."""


@dataclass(frozen=True, slots=True)
class ResolvedRanges:
    """Ranges that a new lineage excludes, with ``remarks`` for the user."""

    excluded_ranges: ExcludedRanges = NOTHING_EXCLUDED
    remarks: tuple[str, ...] = ()


def exclude_files(
    typed: str, wanted: FileNames | FileTimes, folder: str, known: Sequence[SeenFile], read_before: Collection[str]
) -> tuple[ExcludedRange, int]:
    """Resolve a range in the ``known`` files.

    Also returns how many more files the savepoint read, which stay in the state.

    ``known``: those that are there, and those that were read and are gone. ``folder``: the URI of the source's folder.
    ``read_before``: the URIs that the savepoint has read. Raises InvalidSpec if no file is excluded, or too many.
    """
    before = {file_position(uri) for uri in read_before}
    held = {file_position(file.uri) for file in known if _is_wanted(file, wanted, file_position(folder))}
    if held <= before:
        why = f" (the savepoint has read {count_text(len(held), 'file')} of it)" if held else ""
        raise InvalidSpec(FLAG, typed, f"a range with a file that would be read again{why}: {FILES_ALLOWED}")
    return _range_of_files(typed, held - before), len(held & before)


def exclude_records(
    typed: str,
    wanted: Records,
    begins: Mapping[str, Mapping[str, int]] | None,
    ends: Mapping[str, Mapping[str, int]],
) -> ExcludedRange:
    """Resolve a range of records of a partition that is read again from ``begins`` on and ends at ``ends`` now.

    Both: offset by topic and partition. Raises InvalidSpec for a range that is not whole between them.
    """
    partition = str(wanted.partition)
    end = ends.get(wanted.topic, {}).get(partition)
    if end is None:
        known = ", ".join(f"{topic}:{each}" for topic in sorted(ends) for each in sorted(ends[topic], key=int))
        raise InvalidSpec(FLAG, typed, f"a partition of the source: {known}")
    begin = (begins or {}).get(wanted.topic, {}).get(partition, 0)
    if wanted.first < begin or wanted.end > end:
        allowed = f"{wanted.topic}:{partition}:{begin}-{end} or a part of it: only these are read again"
        raise InvalidSpec(FLAG, typed, allowed)
    return ExcludedRange(typed, records=wanted)


def records_in_span(
    typed: str, wanted: RecordTimes, span: Span, ends: Mapping[str, Mapping[str, int]]
) -> tuple[list[ExcludedRange], list[str]]:
    """Resolve a span of time to ranges of all partitions, with remarks.

    Raises InvalidSpec if no record is read again.
    """
    if wanted.topic not in ends:
        raise InvalidSpec(FLAG, typed, f"a topic of the source: {', '.join(sorted(ends))}")
    found, remarks = span.ranges(typed, wanted.topic), span.remarks(typed, wanted.topic)
    if not found:
        told = "".join(f" ({remark})" for remark in remarks)
        raise InvalidSpec(FLAG, typed, f"a time with a record that would be read again{told}")
    return found, remarks


def exclude_versions(typed: str, wanted: Versions, first: int, added: Mapping[int, Sequence[str]]) -> ExcludedRange:
    """Resolve a range of a Delta table whose versions are read one by one from ``first`` on.

    ``added``: the URIs of the files of rows that each of its versions brought. Raises InvalidSpec.
    """
    newest = max(added, default=-1)
    if wanted.first < first or wanted.end > newest + 1:
        allowed = f"version:{first}-{newest + 1} or a part of it: only these are read again"
        raise InvalidSpec(FLAG, typed, allowed)
    files = {file_position(uri) for version in range(wanted.first, wanted.end) for uri in added.get(version, ())}
    if not files:
        raise InvalidSpec(FLAG, typed, "a range with a version that added rows")
    return _range_of_files(typed, files)


def combine_ranges(carried: ExcludedRanges, added: Sequence[ExcludedRange], remarks: Sequence[str]) -> ResolvedRanges:
    """Combine the ranges ``carried`` over from the savepoint's lineage with those that are ``added``."""
    kept = [f"{each.typed} is excluded by the lineage of the savepoint, and stays so" for each in carried.ranges]
    return ResolvedRanges(carried.and_also(added), (*kept, *remarks))


def remarks_on_files(found: ExcludedRange, stay: int, there: Iterable[SeenFile]) -> list[str]:
    """List remarks on a range. ``stay``: more files of it that the savepoint read.

    ``there``: files that still exist.
    """
    gone = len(set(found.files) - {file_position(file.uri) for file in there})
    read = f"{count_text(stay, 'more file')} of {found.typed}, read before the savepoint: its state keeps what is open"
    lost = f"{count_text(gone, 'file')} of {found.typed}, no longer there: no row of that can go to quarantine"
    return [remark for remark, count in ((read, stay), (lost, gone)) if count]


def drop_excluded_files(replay: Replay, excluded_ranges: ExcludedRanges) -> Replay:
    """Drop excluded files from the missing ones, because the stream does not need them."""
    return replace(replay, missing=tuple(uri for uri in replay.missing if not excluded_ranges.holds(uri)))


def coming_back_remarks(leaves: str, before: ExcludedRanges, now: ExcludedRanges) -> list[str]:
    """Warn of ranges that lineage ``leaves`` excluded ``before`` and that the next one would not exclude."""
    back = [each for each in before.ranges if not now.covers(each)]
    return [f"{each} is read again: lineage {leaves} leaves it out, and this one would not" for each in back]


def first_whole_version(offset: Mapping[str, object] | None) -> int | None:
    """Return the first version that a Delta source reads by itself from ``offset`` on, None if unknown.

    The rows of the table as it was when the stream began came at once, from any of its versions. Of a version that a
    batch was cut within, part is read already.
    """
    if offset is None:
        return None
    version = int(str(offset["reservoirVersion"]))
    begun = bool(offset["isStartingVersion"]) or int(str(offset["index"])) >= 0
    return version + 1 if begun else version


def _range_of_files(typed: str, files: Collection[str]) -> ExcludedRange:
    if len(files) > MOST_FILES:
        raise InvalidSpec(FLAG, typed, f"a range of at most {MOST_FILES:,} files: this one has {len(files):,}")
    return ExcludedRange(typed, tuple(sorted(files)))


def _is_wanted(file: SeenFile, wanted: FileNames | FileTimes, folder: str) -> bool:
    if isinstance(wanted, FileTimes):
        return wanted.since <= file.changed_at < wanted.until
    name = name_below(folder, file_position(file.uri))
    return name == wanted.pattern or fnmatchcase(name, wanted.pattern)


def name_below(folder: str, position: str) -> str:
    """Return the name of a file relative to the source's folder. Both are URIs, and either may be encoded."""
    return unquote(position).removeprefix(f"{unquote(folder).rstrip('/')}/")
