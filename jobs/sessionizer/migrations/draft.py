"""Migrations before they are declared: a draft of one for a changed spec, and a preview of its effect on open events.

A draft follows from the difference between the spec that a stream runs by and its file. It is a proposal to edit,
because only the user knows what a new column is computed from.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from sessionizer.stream_spec.column_types import (
    DeclaredColumn,
    carry_over,
    changed_parts,
    declared_columns,
    expression_type,
    is_path,
    read_recorded_type,
    reads_other_type,
)
from sessionizer.stream_spec.decisions import Document
from sessionizer.stream_spec.sql_guard import normal_sql


def draft_migration(
    name: str, before: Document, now: Document, recorded: Mapping[str, Sequence[Any]] | None = None
) -> str:
    """Return a block for the list ``migrations`` as YAML text. ``recorded``: types of the payload of open events.

    A new payload column takes the value of a dropped one with the same SQL, and a column of another type its own value,
    carried over field by field. Any other new column, the key and the client take their new SQL where it uses only
    columns that open events have, which the user must check.
    """
    was, is_ = before["mapping"], now["mapping"]
    sources = tuple(declared_columns(each["source"]) for each in (before, now))
    block: dict[str, Any] = {"id": name}
    for field in ("key", "client"):
        sql = is_[field]
        if sql is not None and normal_sql(was[field] or "") != normal_sql(sql):
            block[field] = f"coalesce({sql}, {field})"
        elif sql is not None and is_path(sql) and reads_other_type(sql, *sources):
            cast = field
            for kind in filter(None, (expression_type(sql, each) for each in sources)):
                cast = f"try_cast({cast} as {kind})"
            block[field] = f"coalesce(cast({cast} as string), {field})"
    if columns := dict(_columns(was["payload"], is_["payload"], sources, recorded or {})):
        block["columns"] = columns
    if dropped := [column for column in was["payload"] if column not in is_["payload"]]:
        block["drop"] = dropped
    if len(block) == 1:
        block["where"] = "true"
    return yaml.safe_dump({"migrations": [block]}, sort_keys=False, width=120)


def _columns(
    was: Mapping[str, str],
    is_: Mapping[str, str],
    sources: Sequence[Mapping[str, DeclaredColumn]],
    recorded: Mapping[str, Sequence[Any]],
) -> Iterator[tuple[str, str]]:
    """Yield the SQL of each column that is new, computed otherwise, or of another type."""
    named = {normal_sql(sql): column for column, sql in was.items() if column not in is_}
    for column, sql in is_.items():
        if column not in was:
            yield column, named.get(normal_sql(sql), sql)
            continue
        known = recorded.get(column)
        before = read_recorded_type(known[-1]) if known else expression_type(was[column], sources[0])
        now = expression_type(sql, sources[1])
        if before and now and any(changed_parts(before.kept, now.kept)):
            yield column, carry_over(column, before.kept, now.kept)
        elif normal_sql(was[column]) != normal_sql(sql):
            yield column, sql


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

    def lines(self) -> Iterator[str]:
        """Return the preview as lines for users."""
        yield f"stream {self.stream}, lineage {self.lineage}, after batch {self.batch_id}: {', '.join(self.ids)}"
        yield f"  open events: {self.events:,}, of which {self.leave:,} leave"
        yield f"  keys: {self.keys_before:,} before, {self.keys_after:,} after"
        yield f"  keys that merge: {self.merged_keys:,}, keys that split: {self.split_keys:,}"
        yield f"  events that become duplicates: {self.duplicates:,}"
        yield f"  sessions that are over, and are written as they are: {self.finished:,}"
        collisions = [f"{each.key} ← {', '.join(each.before)}" for each in self.collisions]
        samples = [line for sample in self.samples for line in sample.lines()]
        for title, lines in (("keys that collide", collisions), ("events", samples)):
            if lines:
                yield f"  {title}, at most {SAMPLES}:"
                yield from (f"    {line}" for line in lines)


def _value(event: Mapping[str, Any], name: str) -> str:
    return json.dumps(event[name], ensure_ascii=False) if name in event else "none"
