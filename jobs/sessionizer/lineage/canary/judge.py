"""The verdict on a lineage compared with the one before it: pure, from figures of batches and the ends of its drivers.

No figure depends on how much a batch brings, or how late, so a backlog is judged like a live source (docs/adr/0106).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sessionizer.counts import count_text
from sessionizer.home.clock import DAY, MINUTE
from sessionizer.home.json_record import JsonRecord
from sessionizer.lineage.active import Lineage
from sessionizer.lineage.batch_log import BatchFigures

BATCHES: Final = 5
PATIENCE: Final = 10
"""A canary waits this many times its batches, for enough events and for a backlog to be read."""
LAG_SLACK_MS: Final = MINUTE
SMALL_STATE_BYTES: Final = 2**26
"""A state that is larger by at most this passes."""

MOST_LATE: Final = 0.1
"""Largest accepted share of late rows in the first batches. Above it their order is to blame, not a few stragglers."""
FEWEST_LATE: Final = 10
"""Fewest late rows that allow a judgement."""
TOLD_FOR_MS: Final = 7 * DAY
"""Time (ms) after the lineage's beginning in which ``status`` shows the warning."""


class CanaryOutcome(StrEnum):
    """The result of a canary."""

    PASSED = "passed"
    FAILED = "failed"
    PROMOTED = "accepted"
    """Promoted by a user, whatever was found."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CanaryTerms(JsonRecord):
    """The terms that a lineage must meet in its first ``batches`` that read something.

    A share of rows may be ``rise`` higher than before, or ``factor`` times as high, other figures ``factor`` times.
    ``drivers``: so many failed ones fail it. ``least_rows``: fewer rows are not judged. ``goes_back``: a failure rolls
    back without asking, as the user approved. ``judges_sessions``: it should begin as many sessions, and hold as much,
    as before. ``judges_refused``: no rows of its source were excluded, which are quarantined as well.
    """

    batches: int = BATCHES
    goes_back: bool = False
    judges_late: bool = True
    judges_refused: bool = True
    judges_sessions: bool = True
    rise: float = 0.10
    factor: float = 4.0
    drivers: int = 3
    least_rows: int = 100


USUAL: Final = CanaryTerms()


def digest_terms(terms: CanaryTerms | None) -> dict[str, object]:
    """Return the non-default ``terms`` that the user chose, for the digest of a plan. None means no canary."""
    chosen = (terms.batches, terms.goes_back) if terms else (0, False)
    return {} if chosen == (USUAL.batches, USUAL.goes_back) else {"canary": chosen}


@dataclass(frozen=True, slots=True)
class Baseline(JsonRecord):
    """Figures of the lineage before: of its whole ``life``, and of its newest batches. The milder of both counts."""

    life: BatchFigures
    recent: BatchFigures

    def fit(self, terms: CanaryTerms) -> tuple[BatchFigures, ...]:
        """Return the figures with enough rows to judge by."""
        return tuple(figures for figures in (self.life, self.recent) if figures.read >= terms.least_rows)


@dataclass(frozen=True, slots=True)
class End:
    """The end of a driver that a canary counts, and ``what`` it was. ``fatal``: its query would end so again."""

    uid: str
    what: str
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class CanaryVerdict:
    """The decision of a canary. ``outcome`` is None while it is open, ``reason`` says why the lineage failed."""

    outcome: CanaryOutcome | None = None
    reason: str | None = None


WATCHING: Final = CanaryVerdict()


def judge_figures(
    terms: CanaryTerms, baseline: Baseline, figures: BatchFigures, ends: Sequence[End] = ()
) -> CanaryVerdict:
    """Judge a lineage by its ``figures`` so far and the ``ends`` of its drivers. Never raises."""
    ended = _judge_ends(terms, ends)
    if ended is not None:
        return CanaryVerdict(CanaryOutcome.FAILED, ended)
    if describe_wait(terms, baseline, figures) is not None:
        return WATCHING
    usual = baseline.fit(terms)
    reason = next((found for check in _CHECKS if (found := check(terms, usual, figures)) is not None), None)
    return CanaryVerdict(CanaryOutcome.PASSED) if reason is None else CanaryVerdict(CanaryOutcome.FAILED, reason)


def describe_wait(terms: CanaryTerms, baseline: Baseline, figures: BatchFigures) -> str | None:
    """Say what a canary has done, if that is not enough to judge it."""
    latest = terms.batches * PATIENCE
    if figures.batches >= latest:
        return None
    if figures.batches < terms.batches:
        return f"{figures.batches} of {terms.batches} batches"
    done, at_most = count_text(figures.batches, "batch"), count_text(latest, "batch")
    judged = f"It is judged after {at_most} at the latest"
    if figures.read < terms.least_rows:
        return f"{done} with {figures.read} of {terms.least_rows} rows. {judged}"
    if not _has_caught_up(baseline.fit(terms), figures):
        return f"{done}, and it has not caught up yet. {judged}"
    return None


def _judge_ends(terms: CanaryTerms, ends: Sequence[End]) -> str | None:
    fatal = next((end for end in ends if end.fatal), None)
    if fatal is not None:
        return f"its driver {fatal.uid} ended, and a restart cannot help: {fatal.what}"
    if len(ends) < terms.drivers:
        return None
    return f"{len(ends)} of its drivers ended before the canary was over, the last: {ends[-1].what}"


def _has_caught_up(usual: Sequence[BatchFigures], figures: BatchFigures) -> bool:
    """Whether its lag is as small as the lineage's before. True also if a lag is unknown."""
    known = [before.most_lag_ms for before in usual if before.most_lag_ms is not None]
    if figures.last_lag_ms is None or not known:
        return True
    return figures.last_lag_ms <= 2 * max(known) + LAG_SLACK_MS


def _judge_refused(terms: CanaryTerms, usual: Sequence[BatchFigures], figures: BatchFigures) -> str | None:
    found = _judge_share(terms, usual, figures, lambda of: of.quarantined, "were refused")
    return found if terms.judges_refused else None


def _late(terms: CanaryTerms, usual: Sequence[BatchFigures], figures: BatchFigures) -> str | None:
    return _judge_share(terms, usual, figures, lambda of: of.late, "were late") if terms.judges_late else None


def _judge_share(
    terms: CanaryTerms,
    usual: Sequence[BatchFigures],
    figures: BatchFigures,
    count: Callable[[BatchFigures], int],
    what: str,
) -> str | None:
    if not usual or figures.read < terms.least_rows:
        return None
    share, before = count(figures) / figures.read, max(count(of) / of.read for of in usual)
    if share <= max(before + terms.rise, before * terms.factor):
        return None
    return f"{share:.0%} of the {figures.read:,} rows that it read {what}, {before:.0%} before"


def _judge_sessions(terms: CanaryTerms, usual: Sequence[BatchFigures], figures: BatchFigures) -> str | None:
    """Judge sessions per event. The number that begin has a lower and an upper bound: only what both say counts."""
    known = [of for of in usual if of.admitted >= terms.least_rows]
    if not terms.judges_sessions or not known or figures.admitted < terms.least_rows:
        return None
    least, most = figures.fewest_begun / figures.admitted, figures.most_begun / figures.admitted
    most_before = max(of.most_begun / of.admitted for of in known)
    least_before = min(of.fewest_begun / of.admitted for of in known)
    if least > terms.factor * most_before:
        return f"it begins at least {least:.3g} sessions per event, and at most {most_before:.3g} began before"
    if most * terms.factor < least_before:
        return f"it begins at most {most:.3g} sessions per event, and at least {least_before:.3g} began before"
    return None


def _judge_state(terms: CanaryTerms, usual: Sequence[BatchFigures], figures: BatchFigures) -> str | None:
    """Judge the size of the state. While a backlog is read it may well be larger."""
    if not terms.judges_sessions or not usual or not _has_caught_up(usual, figures):
        return None
    before = max(of.held_bytes for of in usual)
    if figures.held_bytes <= terms.factor * before + SMALL_STATE_BYTES:
        return None
    return f"its open events take {figures.held_bytes / 2**20:,.0f} MiB, {before / 2**20:,.0f} MiB before"


def _judge_lag(_: CanaryTerms, usual: Sequence[BatchFigures], figures: BatchFigures) -> str | None:
    if _has_caught_up(usual, figures) or figures.last_lag_ms is None or figures.first_lag_ms is None:
        return None
    if figures.last_lag_ms < figures.first_lag_ms:
        return None
    behind, at_first = (lag // 1000 for lag in (figures.last_lag_ms, figures.first_lag_ms))
    after = count_text(figures.batches, "batch")
    return f"after {after} it is {behind:,} s behind, {at_first:,} s at first, so it does not catch up"


_CHECKS: Final = (_judge_refused, _late, _judge_sessions, _judge_state, _judge_lag)


def backfill_command(stream: str) -> str:
    """Return the command that reads the source of a stream anew, in the order of time."""
    return f"sessionizer seed {stream} --history source --backfill --start-over"


def describe_late_backlog(lineage: Lineage, first: BatchFigures, now_ms: int) -> str | None:
    """Say that too many rows of a new lineage's ``first`` batches came late, None if they did not."""
    if lineage.parent is not None or now_ms - lineage.created_at > TOLD_FOR_MS:
        return None
    if first.late < FEWEST_LATE or first.late <= MOST_LATE * first.read:
        return None
    return (
        f"{first.late:,} of the first {first.read:,} events ({first.late / first.read:.0%}) came late and are in no "
        "session, because the backlog is not in the order of time"
    )
