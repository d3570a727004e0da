"""What batches did, in the figures that a trial is judged by: pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from sessionizer.home.json_record import JsonRecord

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchFacts(JsonRecord):
    """One batch: the rows ``read`` of the source, what became of them, the ``sessions`` that it emitted.

    ``open_before`` and ``open_after``: no more sessions were open; ``held_bytes``: of open events. ``lag_ms``: how far
    the newest events were behind the clock, None where there is no watermark yet (``lag_behind``).
    """

    batch_id: int
    read: int
    admitted: int
    late: int
    quarantined: int
    sessions: int
    open_before: int
    open_after: int
    held_bytes: int
    lag_ms: int | None = None


def lag_behind(now_ms: int, watermark_ms: int | None, delay_ms: int) -> int | None:
    """How far the newest events are behind the clock, by a watermark that is ``delay_ms`` behind them.

    The delay is the spec's: a new one would else make a lineage look slower, or faster, than the one before.
    """
    return None if watermark_ms is None else now_ms - watermark_ms - delay_ms


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures(JsonRecord):
    """Batches one after the other: counts are sums, ``batches`` of those that read something.

    ``open_before`` is of the first, ``open_after`` and ``held_bytes`` of the last; lags (ms) are of those that read
    something: of the first, of the last, and the longest.
    """

    batches: int = 0
    read: int = 0
    admitted: int = 0
    late: int = 0
    quarantined: int = 0
    sessions: int = 0
    open_before: int | None = None
    open_after: int = 0
    held_bytes: int = 0
    first_lag_ms: int | None = None
    last_lag_ms: int | None = None
    most_lag_ms: int | None = None

    @classmethod
    def of(cls, batches: Iterable[BatchFacts]) -> Self:
        """Those of ``batches``, the oldest first."""
        return cls().and_those_of(batches)

    def and_those_of(self, batches: Iterable[BatchFacts]) -> Self:
        """These, and those of ``batches`` that followed."""
        found = self
        for batch in batches:
            found = found._and(batch)
        return found

    def _and(self, batch: BatchFacts) -> Self:
        lag = batch.lag_ms if batch.read else None
        lags = [known for known in (self.most_lag_ms, lag) if known is not None]
        return type(self)(
            batches=self.batches + bool(batch.read),
            read=self.read + batch.read,
            admitted=self.admitted + batch.admitted,
            late=self.late + batch.late,
            quarantined=self.quarantined + batch.quarantined,
            sessions=self.sessions + batch.sessions,
            open_before=batch.open_before if self.open_before is None else self.open_before,
            open_after=batch.open_after,
            held_bytes=batch.held_bytes,
            first_lag_ms=lag if self.first_lag_ms is None else self.first_lag_ms,
            last_lag_ms=self.last_lag_ms if lag is None else lag,
            most_lag_ms=max(lags, default=None),
        )

    @property
    def fewest_begun(self) -> int:
        """Sessions that began in these batches, at least: those that came out, but for what may have been open before.

        Whenever they came out: a backlog that closes much at once begins no more sessions than it brings.
        """
        return max(0, self.sessions - (self.open_before or 0))

    @property
    def most_begun(self) -> int:
        """Sessions that began in these batches, at most: all that came out, and all that may be open."""
        return self.sessions + self.open_after
