"""Retention of a table's old files: the time for which VACUUM must leave them. Pure.

A table's file is old once no later version has it, because OPTIMIZE or a command rewrote it. A restore may bring rows
back from the version that a savepoint names, so all files of that version must still be there. They became old after
the savepoint's batch began. So the age of that batch is enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sessionizer.home.clock import HOUR
from sessionizer.home.json_record import JsonRecord, Moment
from sessionizer.stream_spec.document.names import MILLISECONDS_OF
from sessionizer.stream_spec.document.stream import WEEK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sessionizer.state.savepoints.listing import Savepoint

LOG_KEPT_MS: Final = 30 * MILLISECONDS_OF["day"]
"""Time for which Delta keeps a table's log by default. No reader can go to an older version, whatever files remain."""
CLOCKS_DIFFER_MS: Final = HOUR
"""Allowance for clocks of machines that differ, and for a batch that is written just now."""


@dataclass(frozen=True, slots=True)
class NeededVersion:
    """A savepoint ``id`` that needs the files which a table had at ``since`` (epoch ms)."""

    id: str
    since: Moment


@dataclass(frozen=True, slots=True)
class Retention(JsonRecord):
    """Time in ``hours`` for which old files stay, and the reason. ``is_short``: below the 7 days that Delta checks.

    ``out_of_reach``: savepoints that the log of a table no longer reaches back to.
    """

    hours: int
    because: str
    is_short: bool
    out_of_reach: tuple[str, ...] = ()


def find_needed_versions(savepoints: Iterable[Savepoint]) -> list[NeededVersion]:
    """Return what each savepoint needs that is complete or being made. The others bring nothing back."""
    found = []
    for each in savepoints:
        if each.is_complete and each.manifest is not None:
            found.append(NeededVersion(each.id, each.manifest.batch_at))
        elif each.manifest is None and each.begun is not None:
            found.append(NeededVersion(each.id, each.begun.at))
    return found


def decide_retention(keep_ms: int, needed: Iterable[NeededVersion], now: int) -> Retention:
    """Decide for how long old files stay: ``keep_ms``, or longer for the oldest savepoint within reach.

    ``now`` is epoch ms.
    """
    listed = sorted(needed, key=lambda each: (each.since, each.id))
    beyond = tuple(each.id for each in listed if now - each.since > LOG_KEPT_MS)
    within = next((each for each in listed if each.id not in beyond), None)
    needs_ms = 0 if within is None else now - within.since + CLOCKS_DIFFER_MS
    if within is not None and needs_ms > keep_ms:
        because, kept_ms = f"savepoint {within.id} may bring rows back from then", needs_ms
    else:
        because, kept_ms = "compaction.keep", keep_ms
    return Retention(-(-kept_ms // HOUR), because, kept_ms < WEEK, beyond)
