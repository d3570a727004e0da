"""The figures of batches: what those of one minute did (a sample), and what holds up several (a straggler). Pure.

A straggler is a key group, a key or a Kafka partition, named after two batches. Between them its key group may only
store its new events, in a quick batch that says nothing. No partition holds up the watermark, which follows the newest
event of all: one that falls behind makes its own events late.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from statistics import median
from typing import Final

from sessionizer.counts import count_text
from sessionizer.home.clock import MINUTE
from sessionizer.home.json_record import JsonObject, JsonRecord, Moment

SAMPLE_MS: Final = MINUTE
"""A shorter sample would not fit a week of a stream into 5 MB."""
PHASES: Final = ("plan", "evaluate", "write", "commit")
"""The phases of a batch, in order: planning, the whole query, the tables, Spark's own logs."""
_SUMS: Final = ("batches", "rows", "batch_ms", "waited_ms", "sessions", "late", "refused")
_COUNTS: Final = ("phases", "closed")
_HEAVIEST: Final = {"group_bytes": "group", "key_events": "key"}
"""Figures of which the largest one of a minute counts, and the field that names its owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(JsonRecord):
    """The batches that were committed in the minute from ``at`` on. Times are epoch ms, durations ms, sizes bytes.

    Counts, ``batch_ms`` and ``waited_ms`` (for the source or the trigger) are sums over the batches. ``phases`` splits
    ``batch_ms``, ``closed`` splits ``sessions`` by reason. All other figures are those after the last batch, which is
    ``batch_id`` of ``lineage``. ``lag_ms`` is the distance of the watermark behind the clock, ``source_lag`` the number
    of events behind.

    ``group`` is the key group with the most open bytes, and 99 of 100 groups hold at most ``group_p99_bytes``. ``key``
    has the session with the most open events, and 99 of 100 open sessions have at most ``key_p99_events``.
    """

    at: Moment
    lineage: str | None = None
    batch_id: int | None = None
    batches: int = 0
    rows: int = 0
    batch_ms: int = 0
    longest_ms: int = 0
    phases: Mapping[str, int] = field(default_factory=dict)
    lag_ms: int | None = None
    source_lag: int | None = None
    watermark_ms: int | None = None
    open: int | None = None
    state_bytes: int | None = None
    sessions: int = 0
    late: int = 0
    refused: int = 0
    group: int | None = None
    group_bytes: int | None = None
    group_p99_bytes: int | None = None
    waited_ms: int = 0
    closed: Mapping[str, int] = field(default_factory=dict)
    key: str | None = None
    key_events: int | None = None
    key_p99_events: int | None = None
    straggler: str | None = None

    @property
    def rate(self) -> float:
        """Rows per second of the minute."""
        return self.rows * 1000 / SAMPLE_MS

    def to_json(self) -> JsonObject:
        """Return the fields that differ from those of a sample without batches."""
        told = JsonRecord.to_json(self)
        return {name: value for name, value in told.items() if name == "at" or value != getattr(_NOTHING, name)}


_NOTHING: Final = Sample(at=0)


def minute_of(at_ms: int) -> int:
    """Return the begin of the sample that ``at_ms`` falls into."""
    return at_ms - at_ms % SAMPLE_MS


def bucket_ms(span: int, count: int) -> int:
    """Return the ms of one part of ``span`` ms: whole minutes, so that about ``count`` parts come of it."""
    return max(1, round(span / count / SAMPLE_MS)) * SAMPLE_MS


def combine(before: Sample, later: Sample, at: int | None = None) -> Sample:
    """Return one sample for both: sums, the longest batch, and the figures that were known last."""
    known = {
        each.name: getattr(before if getattr(later, each.name) is None else later, each.name)
        for each in fields(Sample)
        if each.name not in {*_SUMS, *_COUNTS, "at", "longest_ms"}
    }
    for figure, owner in _HEAVIEST.items():
        heavier = before if (getattr(before, figure) or 0) > (getattr(later, figure) or 0) else later
        known |= {name: getattr(heavier, name) for name in (figure, owner)}
    counts = {name: dict(Counter(getattr(before, name)) + Counter(getattr(later, name))) for name in _COUNTS}
    sums = {name: getattr(before, name) + getattr(later, name) for name in _SUMS}
    own = {"at": before.at if at is None else at, "longest_ms": max(before.longest_ms, later.longest_ms)}
    return replace(later, **{**known, **counts, **sums, **own})


def condense(samples: Iterable[Sample], every_ms: int) -> list[Sample]:
    """Combine the samples of each ``every_ms`` into one, for a chart over a longer time. The oldest comes first."""
    found: dict[int, Sample] = {}
    for sample in sorted(samples, key=lambda each: each.at):
        at = sample.at - sample.at % every_ms
        found[at] = combine(found[at], sample, at) if at in found else replace(sample, at=at)
    return list(found.values())


NAMED_AFTER: Final = 2
TOLD_AFTER_MS: Final = 5 * MINUTE
"""After that users are told of a straggler."""
SLOW_MS: Final = 2_000
LEAST_SHARE: Final = 0.5
"""Share of the batch, or of all unread events, from which on one holds up the others."""
TIMES_OTHERS: Final = 4
"""Factor by which a straggler is beyond the median of the others."""
TIMES_OTHER_KEYS: Final = 10
"""Factor by which a key's session is beyond 99 of 100 others in its group, so that the key is named instead."""
LEAST_BEHIND: Final = 1_000
"""Unread events below which no partition counts as far behind."""


class StragglerKind(StrEnum):
    """The part of a stream that may hold up a batch."""

    KEY_GROUP = "key_group"
    KEY = "key"
    PARTITION = "partition"


STRAGGLER_REMEDIES: Final = {
    StragglerKind.KEY_GROUP: "raise key_groups (`sessionizer rescale …`), if no key of the group is the cause",
    StragglerKind.KEY: "see whether the key is one user: a bot or a default id needs a cap (rules.max_events)",
    StragglerKind.PARTITION: "see why the producer writes most events to it: its key, or a partition that came back",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler(JsonRecord):
    """A straggler ``since`` then (epoch ms). It took ``took_ms`` of the ``batch_ms`` of the newest batch.

    ``behind`` is a partition's number of unread events. ``group`` is the key group of a key.
    """

    kind: StragglerKind
    name: str
    since: Moment
    batches: int = 1
    took_ms: int | None = None
    batch_ms: int | None = None
    behind: int | None = None
    group: int | None = None

    @property
    def is_named(self) -> bool:
        """Whether it has held up enough batches."""
        return self.batches >= NAMED_AFTER

    @property
    def label(self) -> str:
        """The text of a sample."""
        return f"{self.kind}:{self.name}"

    @property
    def line(self) -> str:
        """The straggler in words."""
        if self.kind is StragglerKind.PARTITION:
            events = count_text(self.behind or 0, "event")
            return f"partition {self.name} is {events} behind, more than all others together"
        what = f"key group {self.name}" if self.kind is StragglerKind.KEY_GROUP else f"key {self.name!r}"
        return f"{what} takes {(self.took_ms or 0) / 1000:.1f} s of a batch of {(self.batch_ms or 0) / 1000:.1f} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTime:
    """The time of a key group in a batch (ms), whether it ``merged``, its largest session's events and others' p99."""

    group: int
    took_ms: int
    key: str | None = None
    key_events: int = 0
    others_events: int = 0
    merged: bool = True


def slow_group(groups: Sequence[GroupTime], batch_ms: int, at: int) -> Straggler | None:
    """Return the key group, or its heaviest key, that holds up a batch which ended ``at`` (epoch ms)."""
    if len(groups) < 2:  # noqa: PLR2004  a group alone holds up no other
        return None
    slowest = max(groups, key=lambda each: each.took_ms)
    others = median(each.took_ms for each in groups if each is not slowest)
    if slowest.took_ms < max(SLOW_MS, LEAST_SHARE * batch_ms, TIMES_OTHERS * others):
        return None
    found = Straggler(
        kind=StragglerKind.KEY_GROUP,
        name=str(slowest.group),
        since=at,
        took_ms=slowest.took_ms,
        batch_ms=batch_ms,
        group=slowest.group,
    )
    if slowest.key is not None and slowest.key_events > TIMES_OTHER_KEYS * max(slowest.others_events, 1):
        return replace(found, kind=StragglerKind.KEY, name=slowest.key)
    return found


def partition_behind(behind: Mapping[str, int], at: int) -> Straggler | None:
    """Return the partition with most of the unread events after a batch that ended ``at`` (epoch ms)."""
    if len(behind) < 2:  # noqa: PLR2004  as above
        return None
    last = max(behind, key=lambda name: behind[name])
    others = median(unread for name, unread in behind.items() if name != last)
    if behind[last] < max(LEAST_BEHIND, LEAST_SHARE * sum(behind.values()), TIMES_OTHERS * others):
        return None
    return Straggler(kind=StragglerKind.PARTITION, name=last, since=at, behind=behind[last])


def follow(before: Straggler | None, seen: Straggler | None, groups: Sequence[GroupTime] = ()) -> Straggler | None:
    """Return the straggler after one was ``seen``. If the group of ``before`` did not merge, ``before`` stays."""
    if before is None:
        return seen
    if seen is not None and (before.kind, before.name) == (seen.kind, seen.name):
        return replace(seen, since=before.since, batches=before.batches + 1)
    is_known = before.group is None or any(each.group == before.group and each.merged for each in groups)
    is_other_group = seen is not None and seen.group is not None
    return seen if is_known or is_other_group else before
