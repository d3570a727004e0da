"""Load of key groups in a batch: their times, their closed sessions, the open ones by size and age.

It is for users only. It is neither in the state nor in the tables. Nothing heavy is imported here, because DAG files
read records that have loads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

AGE_LIMITS: Final = {"1m": 60_000, "10m": 600_000, "1h": 3_600_000, "6h": 21_600_000, "1d": 86_400_000}
"""Milliseconds below which an open session has each age. All others have the age ``OLDER``."""
OLDER: Final = "older"
AGES: Final = (*AGE_LIMITS, OLDER)
HEAVIEST_SHOWN: Final = 10
"""Number of keys that are shown of all groups."""


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
    sizes = sorted(held)
    keys = [(key, group, events) for group, load in loads.items() for key, events in load.heaviest]
    columns = zip(*(load.ages for load in loads.values() if load.ages), strict=True)
    return OpenLoad(
        group_p99_bytes=p99(sizes) if sizes else None,
        p99_events=max((load.p99_events for load in loads.values() if load.p99_events is not None), default=None),
        heaviest=tuple(sorted(keys, key=lambda each: -each[2])[:HEAVIEST_SHOWN]),
        ages=dict(zip(AGES, map(sum, columns), strict=False)),
    )


def p99(sizes: Sequence[int]) -> int:
    """Return the size that 99 of 100 do not exceed. The ``sizes`` are sorted, and there is at least one."""
    return sizes[place_of_p99(len(sizes))]


def place_of_p99(count: int) -> int:
    """Return the position, among so many sorted sizes, of the one that 99 of 100 do not exceed."""
    return -(-count * 99 // 100) - 1
