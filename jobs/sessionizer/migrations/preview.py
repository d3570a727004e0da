"""Preview of pending migrations, as data: what they would do to the open events of a stream."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SAMPLES = 10
"""Number of events, and of colliding keys, that a preview shows."""


@dataclass(frozen=True, slots=True)
class MergedKey:
    """A ``key`` that open events of several keys get: ``before`` are some of these, ``count`` is how many."""

    key: str
    count: int
    before: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MigratedSample:
    """An open event ``before`` and ``after`` the migrations, as JSON. ``after`` is None if it leaves."""

    before: Mapping[str, Any]
    after: Mapping[str, Any] | None

    def lines(self) -> Iterator[str]:
        """Describe the event: its key and id, then each column that changes."""
        name = f"{self.before['key']} {self.before['event_id']}"
        if self.after is None:
            yield f"{name}: leaves"
            return
        names = dict.fromkeys([*self.before, *self.after])
        changed = [each for each in names if self.before.get(each) != self.after.get(each)]
        told = [f"{each} {_value(self.before, each)} → {_value(self.after, each)}" for each in changed]
        yield f"{name}: {', '.join(told) or 'unchanged'}"


@dataclass(frozen=True, slots=True)
class Preview:
    """Effects of the migrations ``ids`` on the open events after ``batch_id`` of ``lineage``.

    ``finished`` sessions are over and keep their form. ``merged_keys`` counts the keys that get events of several keys,
    and ``split_keys`` those whose events get several. ``duplicates`` are events that get the key and id of another one.
    """

    stream: str
    lineage: str
    batch_id: int
    ids: tuple[str, ...]
    finished: int
    events: int
    leave: int
    keys_before: int
    keys_after: int
    merged_keys: int
    split_keys: int
    duplicates: int
    collisions: tuple[MergedKey, ...]
    samples: tuple[MigratedSample, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the preview as JSON."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """Return the preview as lines for users."""
        yield f"stream {self.stream}, lineage {self.lineage}, after batch {self.batch_id}: {', '.join(self.ids)}"
        yield f"  open events: {self.events:,}, of which {self.leave:,} leave"
        yield f"  keys: {self.keys_before:,} before, {self.keys_after:,} after"
        yield f"  keys that merge: {self.merged_keys:,}; keys that split: {self.split_keys:,}"
        yield f"  events that become duplicates: {self.duplicates:,}"
        yield f"  sessions that are over, and are written as they are: {self.finished:,}"
        yield from _title_lines(
            "keys that collide", [f"{each.key} ← {', '.join(each.before)}" for each in self.collisions]
        )
        yield from _title_lines("events", [line for sample in self.samples for line in sample.lines()])


def _title_lines(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"  {title}, at most {SAMPLES}:"
        yield from (f"    {line}" for line in lines)


def _value(event: Mapping[str, Any], name: str) -> str:
    return json.dumps(event[name], ensure_ascii=False) if name in event else "none"
