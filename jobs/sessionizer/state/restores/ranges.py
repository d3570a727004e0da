"""Ranges of a source that a restore excludes, the part of it that is read again, and the events that it has lost. Pure.

A range is named by the source's own positions. It is closed: the events found at the time of the request are excluded,
later ones are not. Events that the savepoint has read are in its state already and cannot be excluded any more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote

from sessionizer.checkpoint.files import SeenFile
from sessionizer.counts import count_text, number_is
from sessionizer.errors import InvalidSpec
from sessionizer.home.clock import moment_of
from sessionizer.lineage.excluded_ranges import NOTHING_EXCLUDED, ExcludedRange, ExcludedRanges, Records, file_position

Offsets: TypeAlias = "Mapping[str, Mapping[str, int]]"
"""Offsets by topic and partition, as Spark writes them."""


@dataclass(frozen=True, slots=True)
class Replay:
    """Part of the source that comes again, ``items`` if known, and those ``missing``, which a restore would lose."""

    described: str
    items: int | None = None
    missing: tuple[str, ...] = ()


def replay_of_files(seen_then: Collection[str], seen_now: Iterable[str], is_there: Callable[[str], bool]) -> Replay:
    """Describe the replay of a source of files: those read since. ``is_there``: whether the file of a URI exists."""
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
_ALLOWED: Final = {"files": FILES_ALLOWED, "kafka": RECORDS_ALLOWED, "delta": VERSIONS_ALLOWED}
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
class RecordTimes:
    """Records of all partitions of ``topic`` from the moment ``since`` on, and before ``until`` (epoch ms).

    In each partition they begin with the first record at or after ``since``, and end before the first at or after
    ``until``. Kafka looks these up by the timestamps of records.
    """

    topic: str
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
    if source not in _ALLOWED:
        raise InvalidSpec(FLAG, typed, f"Omit it, because a {source} cannot be read again")
    found = _parse(typed, source)
    if found is None:
        raise InvalidSpec(FLAG, typed, _ALLOWED[source])
    return found


def _parse(typed: str, source: str) -> Wanted | None:
    match source:
        case "files" if typed.startswith(_MODIFIED):
            times = _moments(typed.removeprefix(_MODIFIED))
            return times and FileTimes(*times)
        case "files":
            pattern = typed.removeprefix("./")
            return FileNames(pattern) if pattern and not pattern.startswith("/") else None
        case "kafka" if found := _RECORD_TIMES.fullmatch(typed):
            times = _moments(found["times"])
            return times and RecordTimes(found["topic"], *times)
        case "kafka":
            found = _RECORDS.fullmatch(typed)
            numbers = found and _numbers(found)
            return Records(found["topic"], int(found["partition"]), *numbers) if found and numbers else None
        case _:
            found = _VERSIONS.fullmatch(typed)
            numbers = found and _numbers(found)
            return numbers and Versions(*numbers)


def _moments(times: str) -> tuple[int, int] | None:
    """Parse two moments (epoch ms), the first before the second. Raises InvalidSpec for one that is none."""
    first, slash, second = times.partition("/")
    if not slash:
        return None
    since, until = moment_of(first, FLAG), moment_of(second, FLAG)
    return (since, until) if since < until else None


def _numbers(found: re.Match[str]) -> tuple[int, int] | None:
    first = int(found["first"])
    end = first + 1 if found["end"] is None else int(found["end"])
    return (first, end) if first < end else None


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
    """Resolve a range in the ``known`` files: those that are there, and those that were read and are gone.

    Also returns how many more files the savepoint read, which stay in the state. ``folder``: the URI of the source's
    folder. ``read_before``: the URIs that the savepoint has read. Raises InvalidSpec if no file is excluded, or too
    many.
    """
    before, below = {file_position(uri) for uri in read_before}, f"{unquote(file_position(folder)).rstrip('/')}/"
    held = {file_position(file.uri) for file in known if _is_wanted(file, wanted, below)}
    if held <= before:
        why = f" (the savepoint has read {count_text(len(held), 'file')} of it)" if held else ""
        raise InvalidSpec(FLAG, typed, f"a range with a file that would be read again{why}: {FILES_ALLOWED}")
    return _range_of_files(typed, held - before), len(held & before)


def _is_wanted(file: SeenFile, wanted: FileNames | FileTimes, below: str) -> bool:
    """Whether a file is in the range. ``below``: the decoded beginning of the URIs in the source's folder."""
    if isinstance(wanted, FileTimes):
        return wanted.since <= file.changed_at < wanted.until
    name = unquote(file_position(file.uri)).removeprefix(below)
    return name == wanted.pattern or fnmatchcase(name, wanted.pattern)


def _range_of_files(typed: str, files: Collection[str]) -> ExcludedRange:
    if len(files) > MOST_FILES:
        raise InvalidSpec(FLAG, typed, f"a range of at most {MOST_FILES:,} files: this one has {len(files):,}")
    return ExcludedRange(typed, tuple(sorted(files)))


def exclude_records(typed: str, wanted: Records, begins: Offsets | None, ends: Offsets) -> ExcludedRange:
    """Resolve a range of records. Raises InvalidSpec unless it is whole between ``begins`` and ``ends``."""
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


class Span(NamedTuple):
    """Offsets of the partitions of a topic: at ``since``, at ``until``, and where the savepoint ``begins`` to read."""

    since: Offsets
    until: Offsets
    begins: Offsets | None


def records_in_span(
    typed: str, wanted: RecordTimes, span: Span, ends: Offsets
) -> tuple[list[ExcludedRange], list[str]]:
    """Resolve a time to a range by partition, with remarks. Raises InvalidSpec if no record is read again."""
    topic = wanted.topic
    if topic not in ends:
        raise InvalidSpec(FLAG, typed, f"a topic of the source: {', '.join(sorted(ends))}")
    begins, stops = (span.begins or {}).get(topic, {}), span.until.get(topic, {})
    found, stay = list[ExcludedRange](), 0
    for partition, since in sorted(span.since.get(topic, {}).items(), key=lambda each: int(each[0])):
        begin, end = begins.get(partition, 0), stops.get(partition, since)
        first = max(since, begin)
        stay += max(0, min(end, begin) - since)
        if first < end:
            found.append(ExcludedRange(typed, records=Records(topic, int(partition), first, end)))
    more = f"{count_text(stay, 'more record')} of {typed}, read before the savepoint: its state keeps what is open"
    if not found:
        raise InvalidSpec(FLAG, typed, f"a time with a record that would be read again{f' ({more})' if stay else ''}")
    return found, [more] if stay else []


def exclude_versions(typed: str, wanted: Versions, first: int, added: Mapping[int, Sequence[str]]) -> ExcludedRange:
    """Resolve a range of versions. ``added``: the files by version. They are read one by one from ``first`` on."""
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
    """List remarks on a range. ``stay``: more files of it that the savepoint read. ``there``: files that exist."""
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


@dataclass(frozen=True, slots=True)
class Continuation:
    """The first position without a gap, as Spark writes it, and the ``lost`` events as texts (docs/adr/0128)."""

    offset: Any | None
    lost: tuple[str, ...] = ()


def going_on_in_topics(
    offset: Offsets, earliest: Offsets, latest: Offsets, replaced: Collection[str], known: Collection[str] = ()
) -> Continuation:
    """Compare ``offset`` with topics that begin at ``earliest`` and end at ``latest`` now.

    ``replaced``: topics that were made anew. ``known``: topics whose ids prove them to be the same. Any other topic
    counts as made anew if the position is behind its end.
    """
    found: dict[str, dict[str, int]] = {}
    lost: list[str] = []
    for topic in sorted(earliest):
        before = offset.get(topic, {})
        is_beyond = any(position > latest[topic].get(name, position) for name, position in before.items())
        anew = topic in replaced or (topic not in known and is_beyond)
        found[topic] = {}
        for partition, begin in sorted(earliest[topic].items(), key=lambda item: int(item[0])):
            position = before.get(partition, 0 if before else begin)
            found[topic][partition] = begin if anew else max(position, begin)
            if not anew and position < begin:
                lost.append(str(Records(topic, int(partition), position, begin)))
        gone = before if anew else {name: end for name, end in before.items() if name not in earliest[topic]}
        lost += [
            f"all records from offset {end} of partition {partition} of {topic}, before it was replaced"
            for partition, end in sorted(gone.items(), key=lambda item: int(item[0]))
        ]
    return Continuation(found, tuple(lost))


def going_on_in_table(
    offset: Mapping[str, Any], versions: Collection[int], holes: Mapping[int, int], *, replaced: bool, oldest: int = 0
) -> Continuation:
    """Compare ``offset``, as Delta's source writes it, with a table whose log has ``versions``.

    ``holes``: number of missing files by version, from the position on. ``oldest``: the first version whose state can
    still be read. Delta's source needs the state before the version that it begins with.
    """
    first = int(offset["reservoirVersion"])
    if replaced:
        return Continuation(None, (f"all versions from {first} of the table, before it was replaced",))
    newest = max(versions, default=-1)
    gone = [version for version in range(first, newest + 1) if version not in versions or version in holes]
    if not gone:
        return Continuation(dict(offset))
    lost, after = list[str](), max(*gone, oldest) + 1
    for version in range(first, after):
        if version not in versions:
            why = "it is no longer in the table's log"
        elif version in holes:
            why = f"{holes[version]} of its files are gone, and the others are skipped"
        else:
            why = "it is skipped, because a later one, or the table's state before it, is gone"
        lost.append(f"version {version}: {why}")
    return Continuation({**offset, "reservoirVersion": after, "index": -1, "isStartingVersion": False}, tuple(lost))


def continuation_in_folder(offset: Any, begun: Collection[str], there: Collection[str]) -> Continuation:  # noqa: ANN401  JSON
    """Compare the files that a ``begun`` batch reads with those that are there."""
    return Continuation(offset, tuple(f"file {uri}" for uri in sorted(set(begun) - set(there))))
