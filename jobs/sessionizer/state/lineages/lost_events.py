"""Position from which a source has no gap, and the events that are lost before it: pure (docs/adr/0128)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sessionizer.lineage.excluded_ranges import Records

Offsets: TypeAlias = "Mapping[str, Mapping[str, int]]"
"""Offsets by topic and partition, as Spark writes them."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """The first position after which nothing is missing. ``offset``: as Spark writes it. ``lost``: texts, in order."""

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
    after = max(*gone, oldest) + 1
    lost = [_describe_skipped(version, versions, holes) for version in range(first, after)]
    on = {"reservoirVersion": after, "index": -1, "isStartingVersion": False}
    return Continuation({**offset, **on}, tuple(lost))


def _describe_skipped(version: int, versions: Collection[int], holes: Mapping[int, int]) -> str:
    if version not in versions:
        return f"version {version}: it is no longer in the table's log"
    if version in holes:
        return f"version {version}: {holes[version]} of its files are gone, and the others are skipped"
    return f"version {version}: it is skipped, because a later one, or the table's state before it, is gone"


def continuation_in_folder(offset: Any, begun: Collection[str], there: Collection[str]) -> Continuation:  # noqa: ANN401  JSON
    """Compare the files that a ``begun`` batch reads with those that are there."""
    gone = sorted(set(begun) - set(there))
    return Continuation(offset, tuple(f"file {uri}" for uri in gone))
