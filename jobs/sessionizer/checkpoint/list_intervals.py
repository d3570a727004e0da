"""Interval in which Spark compacts a checkpoint's lists of files: the one with which it finds the parts that are there.

Spark computes the names of the parts from it. Drivers of an earlier release took it from the defaults of their Spark.
With another one Spark does not find a part, and the query ends.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sessionizer.checkpoint.file_lists import PARTS
from sessionizer.checkpoint.names import EVENTS, PUNCTUATIONS, source_log
from sessionizer.home.data_files import list_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer.home.roots import DataPath

_PART: Final = re.compile(r"(\d+)(\.compact)?")


def fitting_interval(checkpoint: DataPath) -> int:
    """Return the least multiple of ``PARTS`` that fits the lists of both sources.

    ``PARTS`` if none does, because then a part is gone and Spark names it. Raises OSError.
    """
    lists = [_read_parts(source_log(checkpoint, source)) for source in (EVENTS, PUNCTUATIONS)]
    # with an interval beyond all numbers, Spark looks for no other compact part than the one that is there
    beyond = max((max(parts) + 2 for parts in lists if parts), default=0)
    candidates = range(PARTS, beyond + PARTS, PARTS)
    return next((each for each in candidates if all(_is_found(parts, each) for parts in lists)), PARTS)


def _read_parts(log: DataPath) -> dict[int, bool]:
    """Return the numbers of the parts of a list, and whether each is a compact one."""
    found = [match for name in list_names(log) if (match := _PART.fullmatch(name))]
    return {int(match[1]): match[2] is not None for match in found}


def _is_found(parts: Mapping[int, bool], setting: int) -> bool:
    """Whether Spark with this ``setting`` looks for each of the last ``parts`` under the name that it has."""
    if not parts:
        return True
    interval, newest = _interval_of(parts, setting), max(parts)
    first = (newest + 1) // interval * interval - 1
    return all(is_compact == ((part + 1) % interval == 0) for part, is_compact in parts.items() if part >= first)


def _interval_of(parts: Mapping[int, bool], setting: int) -> int:
    """Return the interval that Spark takes instead of its ``setting`` if some of the ``parts`` are compact.

    It is the distance of the last two of them. It divides the number of parts up to the only one.
    """
    compact = sorted(part for part, is_compact in parts.items() if is_compact)
    if not compact:
        return setting
    if len(compact) > 1:
        return compact[-1] - compact[-2]
    held = compact[0] + 1
    if setting >= held // 2:
        return held
    return next((each for each in range(setting, held // 2 + 1) if held % each == 0), held)
