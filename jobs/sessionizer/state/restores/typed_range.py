"""Ranges of a source as users type them, parsed: names or times of files, records, versions of a table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from sessionizer.errors import InvalidSpec
from sessionizer.home.clock import moment_of
from sessionizer.lineage.excluded_ranges import Records
from sessionizer.state.restores.record_times import RecordTimes

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
