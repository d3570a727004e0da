"""A sample: what the batches of one minute did. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Final

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
