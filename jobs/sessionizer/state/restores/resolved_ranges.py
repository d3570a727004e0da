"""Ranges of a source that are excluded, resolved in the source as it is.

A range is named by the source's own positions. It is closed: the events found at the time of the request are excluded,
later ones are not. Events that the savepoint has read are in its state already and cannot be excluded any more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from sessionizer.counts import count_text
from sessionizer.errors import InvalidSpec
from sessionizer.lineage.excluded_ranges import (
    NOTHING_EXCLUDED,
    ExcludedRange,
    ExcludedRanges,
    Records,
    file_position,
)
from sessionizer.state.restores.typed_range import FILES_ALLOWED, FLAG, FileNames, FileTimes, Versions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sessionizer.checkpoint.file_lists import SeenFile
    from sessionizer.state.restores.record_times import RecordTimes, Span
    from sessionizer.state.restores.restore_plan import Replay

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
