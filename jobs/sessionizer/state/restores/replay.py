"""Part of a source that is read again after a restore, and the missing part: known before anything is stopped."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sessionizer.counts import number_is
from sessionizer.state.restores.restore_plan import Replay

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable


def replay_of_files(seen_then: Collection[str], seen_now: Iterable[str], is_there: Callable[[str], bool]) -> Replay:
    """Describe the replay of a source of files: those read since.

    ``is_there`` says whether the file of a URI exists.
    """
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
