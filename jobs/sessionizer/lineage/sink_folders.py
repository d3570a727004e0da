"""The folders in which a stream's batches write or wrote their tables: ``sink.path`` may change in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from sessionizer.lineage.kept_spec import read_lineage_spec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sessionizer.home.stream_home import StreamHome

SinkFolder: TypeAlias = str | None
"""``sink.path`` of a spec. None is the stream's own data."""


def sink_folders(home: StreamHome, lineages: Iterable[str]) -> tuple[SinkFolder, ...]:
    """Return each folder that one of ``lineages`` used, once. Raises DamagedFile."""
    found: dict[SinkFolder, None] = {}
    for lineage in lineages:
        record = read_lineage_spec(home, lineage)
        if record is not None:
            found.update(dict.fromkeys((*record.former_sinks, record.sink)))
    return tuple(found)
