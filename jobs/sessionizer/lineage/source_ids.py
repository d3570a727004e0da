"""``source.json`` of a lineage: the identity of each topic or table that it has positions in (docs/adr/0127).

A topic that is deleted and made again keeps its name and gets another id. Offsets of the old one mean nothing in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sessionizer.errors import SourceReplaced
from sessionizer.home.json_record import JsonRecord
from sessionizer.home.record_file import LineageFile

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


@dataclass(frozen=True, slots=True)
class SourceIds(JsonRecord):
    """The ``ids`` by the names of topics, or of the table."""

    ids: Mapping[str, str]


SOURCE_IDS_FILE: Final = LineageFile("source.json", SourceIds)


def read_source_ids(home: StreamHome, lineage: str) -> dict[str, str]:
    """Read the ids, none in a lineage of an earlier release. Raises DamagedFile."""
    kept = SOURCE_IDS_FILE.of(home, lineage).require()
    return {} if kept is None else dict(kept.ids)


def note_source_ids(home: StreamHome, lineage: str, ids: Mapping[str, str]) -> None:
    """Keep ``ids`` beside those of topics that are known already. Raises UnwritablePath, DiskFull, DamagedFile.

    Only the holder of the lease may, before its query starts.
    """
    known = read_source_ids(home, lineage)
    if ids and known != {**known, **ids}:
        SOURCE_IDS_FILE.of(home, lineage).write(SourceIds({**known, **ids}))


def choose_known_ids(noted: Mapping[str, str], source: Mapping[str, Any], offset: Any) -> dict[str, str]:  # noqa: ANN401  JSON
    """Choose the ids of the topics, or of the table, in a spec's ``source`` that ``offset`` is a position in.

    Delta's source writes the id of its table into each offset. In a topic without a record that was read no position
    can be wrong.
    """
    if not offset:
        return {}
    if source["format"] == "delta":
        return {str(source["path"]): str(offset["reservoirId"])}
    read = topics_read(offset) if source["format"] == "kafka" else ()
    return {name: found for name, found in noted.items() if name in read}


def topics_read(offset: Mapping[str, Mapping[str, int]]) -> set[str]:
    """Return the topics that something was read of."""
    return {topic for topic, partitions in offset.items() if any(partitions.values())}


def replaced_names(known: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names whose id ``now`` differs from the ``known`` one. An unknown id counts as the same."""
    return [name for name, found in known.items() if now.get(name, found) != found]


def require_same_source(stream: str, known: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raise SourceReplaced for a topic or table that was made anew."""
    for name in replaced_names(known, now):
        raise SourceReplaced(stream, name, known[name], now[name])
