"""Whether the lineage before can go on from where it was left: its checkpoint is there, and nobody took its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.errors import NoWayBack
from sessionizer.lineage.checkpoint import committed_batch
from sessionizer.state.lineages.origin import read_origin

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.state.lineages.origin import Origin


def way_back(home: StreamHome, lineage: str) -> tuple[Origin, str]:
    """How ``lineage`` came to be, and the lineage before it, which can go on. Raises NoWayBack, DamagedFile."""
    origin = read_origin(home, lineage)
    if origin is None or origin.parent is None:
        raise NoWayBack(home.name, lineage, "it began without the state of another")
    newest = committed_batch(home.checkpoint(origin.parent))
    if newest is None:
        raise NoWayBack(home.name, lineage, f"the checkpoint of lineage {origin.parent} is gone")
    if newest != origin.batch_id:
        cause = f"lineage {origin.parent} had come to batch {newest}, and what it wrote after {origin.batch_id} is gone"
        raise NoWayBack(home.name, lineage, cause)
    return origin, origin.parent


def lineage_before(home: StreamHome, lineage: str) -> str | None:
    """The lineage that ``way_back`` leads to; None where there is none."""
    try:
        return way_back(home, lineage)[1]
    except NoWayBack:
        return None
