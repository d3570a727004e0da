"""Rows that lineages have written to a table, according to their records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.lineage.active import read_lineage
from sessionizer.lineage.batch_log import BatchLog, table_key
from sessionizer.state.lineages.origin import origins_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from sessionizer.home.stream_home import StreamHome


def read_recorded_rows(home: StreamHome, folder: str | None, table: str) -> dict[str, int]:
    """Return the newest batch with rows for ``table``, by lineage: the active one and its parent, if recorded.

    ``folder``: ``sink.path`` as the spec has it. Raises DamagedFile.
    """
    active = read_lineage(home)
    lineages = [] if active is None else [active.lineage, *([active.parent] if active.parent else [])]
    found = {lineage: _newest(home, lineage, folder, table) for lineage in lineages}
    return {lineage: batch for lineage, batch in found.items() if batch is not None}


def has_recorded_rows(home: StreamHome, folder: str | None, table: str) -> bool:
    """Whether any lineage of the stream wrote rows to ``table``. Raises DamagedFile, OSError."""
    return any(_newest(home, lineage, folder, table) is not None for lineage in origins_of(home))


def accept_rows(home: StreamHome, folder: str | None, tables: Collection[str], unknown: Collection[str]) -> None:
    """Forget the rows that ``tables`` lack, and accept those of the ``unknown`` lineages. Raises UnwritablePath."""
    keys = {table_key(folder, table) for table in tables}
    active = read_lineage(home)
    for lineage in origins_of(home):
        log = BatchLog(home.lineage(lineage).batches)
        if keys & log.written.keys() or (active is not None and lineage == active.lineage):
            log.accept(keys, unknown)


def _newest(home: StreamHome, lineage: str, folder: str | None, table: str) -> int | None:
    return BatchLog(home.lineage(lineage).batches).written.get(table_key(folder, table))
