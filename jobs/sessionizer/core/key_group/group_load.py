"""Load of a key group: its times, sizes and heavy keys, and its open sessions, as the driver is told of them.

It is for users only. It is neither in the state nor in the tables. Nothing heavy is imported here, because DAG files
read records that have loads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

AGE_LIMITS: Final = {"1m": 60_000, "10m": 600_000, "1h": 3_600_000, "6h": 21_600_000, "1d": 86_400_000}
"""Milliseconds below which an open session has each age. All others have the age ``OLDER``."""
OLDER: Final = "older"
AGES: Final = (*AGE_LIMITS, OLDER)


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
        heaviest=tuple(sorted(keys, key=lambda each: -each[2])[:10]),
        ages=dict(zip(AGES, map(sum, columns), strict=False)),
    )


def p99(sizes: Sequence[int]) -> int:
    """Return the size that 99 of 100 do not exceed. The ``sizes`` are sorted, and there is at least one."""
    return sizes[place_of_p99(len(sizes))]


def place_of_p99(count: int) -> int:
    """Return the position, among so many sorted sizes, of the one that 99 of 100 do not exceed."""
    return -(-count * 99 // 100) - 1


@dataclass(frozen=True, slots=True)
class OpenInGroup:
    """The open ``sessions`` of a key group, and the clock ``latest_due_ms`` at which the last is emitted.

    ``latest_due_ms`` is in epoch ms, None for never. ``admitted`` counts the events of the batch. ``held_bytes`` is the
    size of the stored events, with finished ones that no merge has removed yet. A group that merged reports all open
    sessions. A group that did not (``merged`` false) has not read its state: it reports only the new events, and
    ``sessions`` is the number of their keys. ``load`` is for users only, and no record keeps it.
    """

    sessions: int
    latest_due_ms: int | None
    held_bytes: int
    admitted: int
    merged: bool
    load: GroupLoad = field(default=NO_LOAD, compare=False)

    def as_dict(self) -> dict[str, int | bool | None]:
        """Return the fields by name, without ``load``."""
        return {name: value for name, value in asdict(self).items() if name != "load"}

    def to_json(self) -> bytes:
        """Encode the fields for the row that is emitted."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, text: bytes) -> OpenInGroup:
        """Decode the text that ``to_json`` wrote."""
        told = json.loads(text)
        return cls(**{**told, "load": GroupLoad.parse(told["load"])})

    def taking(self, ms: int) -> OpenInGroup:
        """Return the report of a group that took ``ms`` in the batch."""
        return replace(self, load=replace(self.load, took_ms=ms))

    def combine(self, before: OpenInGroup) -> OpenInGroup:
        """Return the report on all open sessions of a group, given its report ``before``.

        If the group did not merge, the numbers are upper bounds.
        """
        if self.merged:
            return self
        return OpenInGroup(
            sessions=before.sessions + self.sessions,
            latest_due_ms=latest(before.latest_due_ms, self.latest_due_ms),
            held_bytes=before.held_bytes + self.held_bytes,
            admitted=self.admitted,
            merged=False,
            load=before.load,
        )


NOTHING_OPEN = OpenInGroup(sessions=0, latest_due_ms=None, held_bytes=0, admitted=0, merged=True)


def latest(*instants: int | None) -> int | None:
    """Return the latest of ``instants``, where None means never, or None if there is none."""
    return max((at for at in instants if at is not None), default=None)
