"""A sample: what the batches of one minute did. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Final

from sessionizer.home.json_record import JsonRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sessionizer.home.json_record import JsonObject

SAMPLE_MS: Final = 60_000
"""Milliseconds of a sample. A shorter one would not fit a week of a stream into 5 MB."""

PHASES: Final = ("plan", "evaluate", "write", "commit")
"""The phases of a batch, in order: planning, the whole query, the tables, Spark's own logs."""

_SUMS: Final = ("batches", "rows", "batch_ms", "sessions", "late", "refused")
_HEAVIEST: Final = ("group", "group_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(JsonRecord):
    """The batches that were committed in the minute from ``at`` on. Times are epoch ms, durations ms, sizes bytes.

    Counts and ``batch_ms`` are sums over the batches, ``phases`` splits ``batch_ms``. ``longest_ms`` is the longest
    batch. All other figures are those after the last batch, which is ``batch_id`` of ``lineage``. ``lag_ms`` is the
    distance of the watermark behind the clock, ``source_lag`` the number of events behind, if the source tells it.
    ``group`` is the key group with the most open bytes.
    """

    at: int
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


def combine(before: Sample, later: Sample, at: int | None = None) -> Sample:
    """Return one sample for both: sums, the longest batch, and the figures that were known last."""
    known = {
        each.name: getattr(before if getattr(later, each.name) is None else later, each.name)
        for each in fields(Sample)
        if each.name not in {*_SUMS, *_HEAVIEST, "at", "longest_ms", "phases"}
    }
    heavier = max(before, later, key=lambda sample: sample.group_bytes or 0)
    return replace(
        later,
        at=before.at if at is None else at,
        longest_ms=max(before.longest_ms, later.longest_ms),
        phases=_add(before.phases, later.phases),
        group=heavier.group,
        group_bytes=heavier.group_bytes,
        **{name: getattr(before, name) + getattr(later, name) for name in _SUMS},
        **known,
    )


def condense(samples: Iterable[Sample], every_ms: int) -> list[Sample]:
    """Combine the samples of each ``every_ms`` into one, for a chart over a longer time. The oldest comes first."""
    found: dict[int, Sample] = {}
    for sample in sorted(samples, key=lambda each: each.at):
        at = sample.at - sample.at % every_ms
        found[at] = combine(found[at], sample, at) if at in found else replace(sample, at=at)
    return list(found.values())


def _add(before: Mapping[str, int], later: Mapping[str, int]) -> dict[str, int]:
    return dict(Counter(before) + Counter(later))
