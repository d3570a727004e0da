"""Figures of batches for the judgement of a canary: pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from sessionizer.home.json_record import JsonRecord

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchFacts(JsonRecord):
    """A batch: the rows ``read`` of the source, how they were sorted, the ``sessions`` that it emitted.

    ``open_before`` and ``open_after`` are upper bounds of open sessions. ``held_bytes`` is the size of open events.
    ``lag_ms`` is the distance of the newest events behind the clock, None without a watermark yet (``lag_behind``).
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
    """Return the lag (ms) of the newest events behind the clock. The watermark is ``delay_ms`` behind these events.

    The delay is subtracted because a new one in the spec would make a lineage look slower, or faster, than the one
    before.
    """
    return None if watermark_ms is None else now_ms - watermark_ms - delay_ms


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchFigures(JsonRecord):
    """Figures of consecutive batches: counts are sums, ``batches`` counts those that read something.

    ``open_before`` is of the first, ``open_after`` and ``held_bytes`` are of the last. Lags (ms) are of batches that
    read something: the first lag, the last, and the longest.
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
        """Sum up ``batches``, the oldest first."""
        return cls().and_those_of(batches)

    def and_those_of(self, batches: Iterable[BatchFacts]) -> Self:
        """Add ``batches`` that followed."""
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
        """Lower bound of the sessions that began in these batches: the emitted ones minus those perhaps open before.

        Their time of emission does not matter: a backlog that closes much at once begins no more sessions than it
        brings.
        """
        return max(0, self.sessions - (self.open_before or 0))

    @property
    def most_begun(self) -> int:
        """Upper bound of the sessions that began in these batches: all emitted ones, and all that may be open."""
        return self.sessions + self.open_after
