"""Rules on what flows: progress, watermark, source. They tell old data from slow processing. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionizer.causes.cause import name_stream
from sessionizer.control.history.straggler import STRAGGLER_REMEDIES, TOLD_AFTER_MS
from sessionizer.control.records.desired_state import DesiredState
from sessionizer.control.records.driver_records import Phase
from sessionizer.control.status.driver_status import Stall, State
from sessionizer.counts import count_text
from sessionizer.fleet.health.verdict import HealthWord, Part, UnhealthyPart
from sessionizer.home.clock import MINUTE, describe_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessionizer.control.history.sample import Sample
    from sessionizer.fleet.health.facts import HealthFacts

WORKING: Final = frozenset({Phase.RUNNING, Phase.IDLE, Phase.STOPPING})
"""Phases in which a heartbeat is a sign of work."""
BUSY: Final = 0.8
"""Share of the time in batches from which on processing has no time left."""
AT_REST: Final = 0.5
"""Share of the time in batches below which processing is not what holds the stream up."""
TREND_MS: Final = 5 * MINUTE
"""Milliseconds that a trend lasts at least."""
GROWN: Final = 1.2
"""Factor by which the events behind grow until the stream counts as falling behind."""
REFUSED_SHARE: Final = 0.1
LATE_SHARE: Final = 0.5
JUDGED_ROWS: Final = 100
"""Rows below which no share of them is judged."""
_MORE: Final = "give it more cores, or raise the limit of a batch (source.options); see the phases of a batch"
_HALT: Final = "see whether a producer repeats old events, or its clock is behind: no event is newer than those before"


def judge_progress(facts: HealthFacts) -> UnhealthyPart | None:
    """Judge whether batches get on, and keep up with the source."""
    seen = facts.seen
    if seen is None or seen.desired.state is not DesiredState.RUNNING:
        return None
    if seen.state is State.STALLED and seen.stall is Stall.NO_PROGRESS:
        age = seen.progress_age_ms or 0
        what = f"its batch has made no progress for {describe_duration(age)}"
        return _progress(HealthWord.DEGRADED, "no_progress", what, facts.now - age, facts.advice or "")
    if seen.state is not State.RUNNING:
        return None
    return _judge_backlog(facts) or _judge_lag(facts)


def _judge_backlog(facts: HealthFacts) -> UnhealthyPart | None:
    """Judge the events behind, which a source such as Kafka tells."""
    known = [sample for sample in facts.samples if sample.source_lag is not None]
    if not _is_trend(known) or _busy(known) < BUSY:
        return None
    first, last = known[0], known[-1]
    before, behind = first.source_lag or 0, last.source_lag or 0
    if behind <= GROWN * before or behind <= last.rows:
        return None
    ago = describe_duration(last.at - first.at)
    what = f"it falls behind: {count_text(before, 'event')} behind {ago} ago, {behind:,} now"
    return _progress(HealthWord.DEGRADED, "falling_behind", what, first.at, _MORE)


def _judge_lag(facts: HealthFacts) -> UnhealthyPart | None:
    """Judge a watermark that is too far behind the clock, if processing is what holds it up."""
    lag = _lag_beyond_limit(facts)
    if lag is None or _is_old_data(facts):
        return None
    behind = f"its watermark is {describe_duration(lag)} behind the clock"
    first = facts.samples[0] if facts.samples else None
    if first is not None and _is_trend(facts.samples) and first.lag_ms is not None:
        span = facts.samples[-1].at - first.at
        if lag < first.lag_ms:
            what = f"it catches up: {behind}, {describe_duration(first.lag_ms - lag)} less than before"
            return _progress(HealthWord.WARNING, "catching_up", what, first.at)
        if lag - first.lag_ms > span // 2:
            return _progress(HealthWord.DEGRADED, "falling_behind", f"it falls behind: {behind}", first.at, _MORE)
    return _progress(HealthWord.DEGRADED, "lagging", behind, None, _MORE)


def judge_silence(facts: HealthFacts) -> UnhealthyPart | None:
    """Judge whether a stream that should run has worked lately, whatever keeps it from that.

    Users know already why it does not if it was given up, or waits for a cause that they were told of.
    """
    seen, record = facts.seen, facts.supervision
    if seen is None or facts.worked_at is None or seen.desired.state is not DesiredState.RUNNING or facts.is_drained:
        return None
    if facts.unfinished is not None or (record is not None and (record.waiting_told or record.given_up)):
        return None
    beat = seen.heartbeat
    worked_at = (beat.progress_at or beat.at) if beat is not None and beat.phase in WORKING else 0
    since = max(facts.worked_at, worked_at, seen.desired.at)
    if facts.now - since <= facts.limits.idle_limit_ms:
        return None
    how = facts.advice or f"run `sessionizer status {facts.name}` to see what it is doing"
    return _progress(
        HealthWord.DEGRADED, "stale", f"no progress for {describe_duration(facts.now - since)}", since, how
    )


def judge_straggler(facts: HealthFacts) -> UnhealthyPart | None:
    """Judge a key group, key or partition that holds up the batches. It may be over with the next ones."""
    seen = facts.seen
    straggler = seen.heartbeat.straggler if seen is not None and seen.heartbeat is not None else None
    if seen is None or straggler is None or seen.state is not State.RUNNING:
        return None
    lasts = facts.now - straggler.since > TOLD_AFTER_MS
    word = HealthWord.DEGRADED if lasts else HealthWord.WARNING
    what = f"{straggler.line}, for {count_text(straggler.batches, 'batch')}"
    remedy = name_stream(STRAGGLER_REMEDIES[straggler.kind], facts.name) if lasts else ""
    return _progress(word, "straggler", what, straggler.since, remedy)


def judge_source(facts: HealthFacts) -> UnhealthyPart | None:
    """Judge what the source brings: old events, refused rows, late rows. A quiet source is healthy."""
    seen = facts.seen
    if seen is None or seen.state not in {State.RUNNING, State.IDLE}:
        return None
    rows = sum(sample.rows for sample in facts.samples)
    refused, late = sum(sample.refused for sample in facts.samples), sum(sample.late for sample in facts.samples)
    if rows >= JUDGED_ROWS and refused >= REFUSED_SHARE * rows:
        what = f"{refused:,} of {rows:,} rows were refused in the last {_span(facts.samples)}"
        how = f"`sessionizer tables {facts.name}` shows the table quarantine, which has each reason"
        return _source(HealthWord.DEGRADED, "rows_refused", what, how)
    if rows >= JUDGED_ROWS and late >= LATE_SHARE * rows:
        what = f"{late:,} of {rows:,} rows came late in the last {_span(facts.samples)}"
        return _source(
            HealthWord.DEGRADED, "rows_late", what, "see rules.watermark_delay, and whether a producer sends old data"
        )
    lag = _lag_beyond_limit(facts)
    if seen.state is State.RUNNING and lag is not None and _is_old_data(facts):
        what = f"the source delivers old events: its watermark is {describe_duration(lag)} behind, and processing waits"
        return _source(HealthWord.WARNING, "old_events", what, "")
    return None


def judge_watermark(facts: HealthFacts) -> UnhealthyPart | None:
    """Judge whether the watermark moves while rows come."""
    seen, samples = facts.seen, [sample for sample in facts.samples if sample.rows]
    if seen is None or seen.state is not State.RUNNING or facts.is_drained:
        return None
    if len(samples) < 3 or samples[-1].at - samples[0].at < 2 * TREND_MS:  # noqa: PLR2004
        return None
    marks = {sample.watermark_ms for sample in samples}
    if len(marks) > 1 or None in marks:
        return None
    what = f"its watermark has stood still for {describe_duration(samples[-1].at - samples[0].at)}, while rows come"
    return UnhealthyPart(
        part=Part.WATERMARK,
        word=HealthWord.DEGRADED,
        rule="watermark_halted",
        what=what,
        since=samples[0].at,
        what_to_do=_HALT,
    )


def _lag_beyond_limit(facts: HealthFacts) -> int | None:
    """Return the lag (ms) of the watermark, if rows come and it is beyond the limit."""
    seen = facts.seen
    beat = seen.heartbeat if seen else None
    if beat is None or beat.phase is not Phase.RUNNING or not beat.input_rows or beat.is_drained:
        return None
    lag = beat.watermark_lag_ms
    return lag if lag is not None and lag > facts.limits.lag_alert_ms + facts.watermark_delay_ms else None


def _is_old_data(facts: HealthFacts) -> bool:
    """Whether processing has time left and the source has nothing more: then it is the events that are old."""
    samples = facts.samples
    if not samples or _busy(samples) >= AT_REST:
        return False
    behind = samples[-1].source_lag
    return behind is None or behind <= samples[-1].rows


def _is_trend(samples: Sequence[Sample]) -> bool:
    return len(samples) >= 3 and samples[-1].at - samples[0].at >= TREND_MS  # noqa: PLR2004


def _busy(samples: Sequence[Sample]) -> float:
    """Return the share of the time that was spent in batches. A batch of minutes counts in the minute of its end."""
    span = samples[-1].at - samples[0].at
    return sum(sample.batch_ms for sample in samples[1:]) / span if span else 0.0


def _span(samples: Sequence[Sample]) -> str:
    return describe_duration(samples[-1].at - samples[0].at + MINUTE)


def _progress(word: HealthWord, rule: str, what: str, since: int | None, what_to_do: str = "") -> UnhealthyPart:
    return UnhealthyPart(part=Part.PROGRESS, word=word, rule=rule, what=what, since=since, what_to_do=what_to_do)


def _source(word: HealthWord, rule: str, what: str, what_to_do: str) -> UnhealthyPart:
    return UnhealthyPart(part=Part.SOURCE, word=word, rule=rule, what=what, what_to_do=what_to_do)
