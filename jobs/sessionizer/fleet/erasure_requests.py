"""Streams that a table of requests asks to erase people from, read without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from sessionizer.core.definition.erasure import PERSONAL
from sessionizer.errors import DamagedFile, InvalidSpec, LookupNotInstalled
from sessionizer.home.local_files import first_line
from sessionizer.state.commands.erasure_requests import DONE, OPTIONAL, find_requests

REQUESTS: Final = "SESSIONIZER_ERASE_REQUESTS"
"""Variable with the place of the table, an absolute path or a URI."""


def count_requests(place: str, streams: Iterable[str], until_ms: int) -> Iterator[tuple[str, str, int]]:
    """Yield each stream that has people to erase, by which column, and how many, as asked up to ``until_ms``.

    Raises LookupNotInstalled, InvalidSpec if there is no such table, DamagedFile, OSError.
    """
    try:
        from deltalake import DeltaTable  # noqa: PLC0415  an extra
        from deltalake.exceptions import DeltaError, TableNotFoundError  # noqa: PLC0415
    except ImportError as error:
        raise LookupNotInstalled from error
    try:
        dataset = DeltaTable(place).to_pyarrow_dataset()
        names = dataset.schema.names
        by = [each for each in PERSONAL if each in names]
        if not by or DONE not in names:
            missing = DONE if by else " or ".join(PERSONAL)
            raise InvalidSpec(REQUESTS, place, f"a Delta table with the column {missing}")
        rows = dataset.to_table(columns=[*by, *(each for each in OPTIONAL if each in names)])
    except TableNotFoundError as error:
        raise InvalidSpec(REQUESTS, place, "the place of a Delta table") from error
    except DeltaError as error:
        raise DamagedFile(place, first_line(error)[:300]) from error
    for stream in streams:
        for column in by:
            people = find_requests(rows, column, stream, until_ms)
            if people:
                yield stream, column, len(people)
                break  # the others are due as soon as these are done
