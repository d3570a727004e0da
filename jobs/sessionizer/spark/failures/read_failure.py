"""Cause that kept a file from being read, as one line out of Spark's hundreds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAMED_CAUSE: Final = re.compile(r"\[FAILED_READ_FILE.*")
_OTHER_HEADER: Final = re.compile(r"CSV header does not conform to the schema\.\s+Header: (.*)\n\s*Schema: (.*)\n")
_HEADER_LENGTH: Final = re.compile(r"Header length: (\d+), schema size: (\d+)")


def cause_in_one_line(said: str) -> str | None:
    """Find the cause in the text of an error about a file, None if it names none."""
    if other := _OTHER_HEADER.search(said):
        return other_header(other[1].split(", "), other[2].split(", "))
    if length := _HEADER_LENGTH.search(said):
        return other_length(int(length[1]), int(length[2]))
    named = _NAMED_CAUSE.search(said)
    return named[0].strip() if named else None


def other_length(header: int, columns: int) -> str:
    """Say that a header has another number of columns."""
    return f"the header has {header} columns where source.columns has {columns}"


def other_header(header: Sequence[str], columns: Sequence[str]) -> str:
    """Say which columns of a header differ. The first that differ are those Spark failed at.

    Spark compares name by name, ignoring case.
    """
    pairs = enumerate(zip(header, columns, strict=False), start=1)
    number, (found, wanted) = next(pair for pair in pairs if pair[1][0].lower() != pair[1][1].lower())
    place = f"(column {number})"
    return f"the header has {found} where source.columns has {wanted} {place}. Columns of CSV are matched by position"
