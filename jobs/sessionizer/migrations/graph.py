"""Released revisions of the layout of open events, as one line from the oldest to the newest, which is the head.

Each is a module in ``versions``, which never changes: ``revision``, ``down_revision`` (None for the oldest), and
``upgrade`` from the revision before.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from sessionizer.migrations import versions

if TYPE_CHECKING:
    import pyarrow as pa

    Change = Callable[[pa.Table], pa.Table]


class BrokenRevisions(ValueError):
    """Revisions that make no line. Only a developer sees it, before a release."""


class UnknownRevision(ValueError):
    """A revision that this release does not know."""


@dataclass(frozen=True, slots=True)
class Revision:
    """Revision of the layout: how canonical open events come to it from the one before (``upgrade``)."""

    revision: str
    down_revision: str | None
    upgrade: Change


def line_of_revisions(revisions: Iterable[Revision]) -> tuple[Revision, ...]:
    """Return the revisions in order. Raises BrokenRevisions unless they make one line."""
    known = {each.revision: each for each in revisions}
    after: dict[str | None, list[str]] = {}
    for each in known.values():
        after.setdefault(each.down_revision, []).append(each.revision)
    for before, following in after.items():
        if before is not None and before not in known:
            raise BrokenRevisions(f"{following[0]} follows {before}, which is not there. Add {before}")
        if len(following) > 1:
            heads = " and ".join(sorted(following))
            raise BrokenRevisions(f"{heads} follow {before}. Let the newer one follow the other one")
    line: list[Revision] = []
    while (then := after.get(line[-1].revision if line else None)) is not None:
        line.append(known[then[0]])
    if len(line) != len(known):
        raise BrokenRevisions("the revisions make no line from an oldest one. Correct down_revision")
    return tuple(line)


@cache
def order_revisions() -> tuple[Revision, ...]:
    """Return the released revisions in order. Raises BrokenRevisions."""
    names = [found.name for found in pkgutil.iter_modules(versions.__path__)]
    modules = [importlib.import_module(f"{versions.__name__}.{name}") for name in sorted(names)]
    return line_of_revisions(Revision(each.revision, each.down_revision, each.upgrade) for each in modules)


def revisions_before_head() -> tuple[str, ...]:
    """Return the revisions whose open events can be brought to the head, oldest first, without the head itself."""
    return tuple(each.revision for each in order_revisions()[:-1])


def bring_to(open_events: pa.Table, found: str) -> pa.Table:
    """Bring canonical open events of the revision ``found`` to the head. Raises UnknownRevision."""
    line = order_revisions()
    names = [each.revision for each in line]
    if found not in names:
        raise UnknownRevision(f"revision {found} is unknown to this release, which knows {', '.join(names)}")
    for each in line[names.index(found) + 1 :]:
        open_events = each.upgrade(open_events)
    return open_events
