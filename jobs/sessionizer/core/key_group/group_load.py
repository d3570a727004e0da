"""A key group's report on its load in a batch: its time, its closed sessions, the open ones by size and age.

The report is for users only. It is neither in the state nor in the tables.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from sessionizer.core.key_group.cutting import REASONS
from sessionizer.core.key_group.ordering import int64s, whole_column
from sessionizer.core.wire import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sessionizer.core.key_group.cutting import Bools, Cuts, Int64s
    from sessionizer.core.key_group.ordering import Positions

AGE_LIMITS: Final = {"1m": 60_000, "10m": 600_000, "1h": 3_600_000, "6h": 21_600_000, "1d": 86_400_000}
"""Milliseconds below which an open session has each age. All others have the age ``OLDER``."""
OLDER: Final = "older"
AGES: Final = (*AGE_LIMITS, OLDER)
HEAVIEST: Final = 3
"""Number of keys that a group reports."""
SHOWN_OF_A_KEY: Final = 64
"""Characters of a key that are shown."""
HEAVIEST_SHOWN: Final = 10
"""Number of keys that are shown of all groups."""
_LIMITS: Final = np.array([*AGE_LIMITS.values()], np.int64)


@dataclass(frozen=True, slots=True)
class GroupLoad:
    """The load of a key group. ``took_ms`` is the time that the group took in the batch.

    ``closed`` counts its closed sessions by reason. The others describe the open sessions, if the group merged: their
    number by ``AGES``, the keys with the largest ones, each with its events, and the size that 99 of 100 do not exceed.
    """

    took_ms: int = 0
    closed: Mapping[str, int] = field(default_factory=dict)
    ages: tuple[int, ...] = ()
    heaviest: tuple[tuple[str, int], ...] = ()
    p99_events: int | None = None

    @classmethod
    def parse(cls, told: Mapping[str, Any]) -> GroupLoad:
        """Parse the fields of ``asdict``, as JSON has them."""
        heaviest = tuple((key, events) for key, events in told["heaviest"])
        return cls(**{**told, "ages": tuple(told["ages"]), "heaviest": heaviest})


NO_LOAD: Final = GroupLoad()


def load_of(cuts: Cuts, final: Bools, first: Positions, events: pa.Table, now_ms: int) -> GroupLoad:
    """Return the load of a group whose log makes the sessions of ``cuts``, of which the ``final`` ones close.

    ``first`` are the positions of their first events in ``events``. Ages are at ``now_ms`` (epoch ms).
    """
    counts = np.bincount(cuts.reason[final], minlength=len(REASONS)).tolist()
    closed = {str(reason): count for reason, count in zip(REASONS, counts, strict=True) if count}
    length, rows = cuts.length[~final], first[~final]
    if not len(length):
        return GroupLoad(closed=closed, ages=(0,) * len(AGES))
    started = int64s(events, schema.CLOCK)[rows]
    of_age = np.searchsorted(_LIMITS, now_ms - started, side="right")
    largest = _largest(length)
    keys = whole_column(events, schema.KEY).take(pa.array(rows[largest])).to_pylist()
    return GroupLoad(
        closed=closed,
        ages=tuple(np.bincount(of_age, minlength=len(AGES)).tolist()),
        heaviest=tuple(
            (str(key)[:SHOWN_OF_A_KEY], count) for key, count in zip(keys, length[largest].tolist(), strict=True)
        ),
        p99_events=p99(length),
    )


def _largest(length: Int64s) -> Positions:
    """Return the positions of the largest ones, largest first."""
    candidates = np.argpartition(length, -HEAVIEST)[-HEAVIEST:] if len(length) > HEAVIEST else np.arange(len(length))
    return candidates[np.argsort(-length[candidates], kind="stable")]


@dataclass(frozen=True, slots=True)
class OpenLoad:
    """The open sessions of all key groups.

    99 of 100 groups hold at most ``group_p99_bytes``, and 99 of 100 sessions have at most ``p99_events``. ``heaviest``
    are the keys with the largest sessions: key, group, events.
    """

    group_p99_bytes: int | None
    p99_events: int | None
    heaviest: tuple[tuple[str, int, int], ...]
    ages: Mapping[str, int]


def sum_loads(held: Iterable[int], loads: Mapping[int, GroupLoad]) -> OpenLoad:
    """Sum the loads of groups, given the bytes that each one has ``held``.

    The p99 of all sessions is that of the worst group: if 99 of 100 are within it in each group, so they are in all.
    """
    sizes = np.array([*held], np.int64)
    keys = [(key, group, events) for group, load in loads.items() for key, events in load.heaviest]
    columns = zip(*(load.ages for load in loads.values() if load.ages), strict=True)
    return OpenLoad(
        group_p99_bytes=p99(sizes) if len(sizes) else None,
        p99_events=max((load.p99_events for load in loads.values() if load.p99_events is not None), default=None),
        heaviest=tuple(sorted(keys, key=lambda each: -each[2])[:HEAVIEST_SHOWN]),
        ages=dict(zip(AGES, map(sum, columns), strict=False)),
    )


def p99(sizes: Int64s) -> int:
    """Return the size that 99 of 100 do not exceed. There is at least one."""
    place = -(-len(sizes) * 99 // 100) - 1
    return int(np.partition(sizes, place)[place])
