"""The judge of a stream: all rules, and those on what flows, on disk, canary and savepoints. Pure.

The rules on what flows tell old data from slow processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sessionizer.causes.cause import name_stream
from sessionizer.causes.table import remedy_for
from sessionizer.control.history.sample import STRAGGLER_REMEDIES, TOLD_AFTER_MS, Sample
from sessionizer.control.records.driver_records import Phase
from sessionizer.control.records.supervision_records import DesiredState
from sessionizer.control.status.driver_status import DriverStatus, State
from sessionizer.counts import count_text
from sessionizer.deployment.waiting import what_follows
from sessionizer.fleet.driver_rules import (
    describe_calm,
    judge_asset,
    judge_command,
    judge_damages,
    judge_driver,
    judge_spec,
    judge_supervisor,
    judge_unreadable,
    judge_warning,
)
from sessionizer.fleet.finding import Finding, HealthWord, Rule, StreamHealth, weigh
from sessionizer.home.clock import HOUR, MINUTE, describe_duration
from sessionizer.home.local_files import LEAST_ROOM
from sessionizer.lineage.canary.canary_record import canary_failure
from sessionizer.lineage.canary.judge import CanaryOutcome, backfill_command
from sessionizer.redaction import redact

if TYPE_CHECKING:
    from sessionizer.fleet.stream_view import StreamView

LOW_ROOM: Final = 512 * 2**20
"""Bytes of free disk below which a stream is degraded."""
WORKING: Final = frozenset({Phase.RUNNING, Phase.IDLE, Phase.STOPPING})
"""Phases in which a heartbeat is a sign of work."""
BUSY: Final = 0.8
"""Share of the time in batches from which on processing has no time left."""
AT_REST: Final = 0.5
"""Share of the time in batches below which processing is not what holds the stream up."""
TREND_MS: Final = 5 * MINUTE
"""Milliseconds that a trend lasts at least."""
JUDGED_ROWS: Final = 100
"""Rows below which no share of them is judged."""
_MORE: Final = "give it more cores, or raise the limit of a batch (source.options). See the phases of a batch"


def judge_health(view: StreamView) -> StreamHealth:
    """Judge a stream by every rule. Any facts, however contradictory, have a verdict. Never raises."""
    found: list[Finding | None] = [*judge_damages(view)]
    if view.driver is None:
        found.append(judge_unreadable(view))
    else:
        found += _judge_facts(view, view.driver)
    shown = (replace(each, what=redact(each.what), what_to_do=redact(each.what_to_do)) for each in found if each)
    return weigh(shown, describe_calm(view))


def _judge_facts(view: StreamView, seen: DriverStatus) -> tuple[Finding | None, ...]:
    return (
        judge_command(view, seen),
        judge_spec(view, seen),
        judge_supervisor(view, seen),
        judge_driver(view, seen),
        judge_warning(seen),
        _judge_disk(view),
        _judge_canary(view),
        _judge_progress(view, seen),
        _judge_straggler(view, seen),
        _judge_silence(view, seen),
        _judge_watermark(view, seen),
        _judge_source(view, seen),
        _judge_late_backlog(view),
        _judge_savepoints(view),
        _judge_upgrade(view, seen),
        _judge_erasures(view),
        judge_asset(view),
    )


def _judge_erasures(view: StreamView) -> Finding | None:
    # a command sweeps the files after its change
    first = next(iter(view.unswept), None)
    if first is None or view.unfinished is not None:
        return None
    ago = view.now - first.approved_at
    what = f"files may hold people whose erasure was approved {describe_duration(ago)} ago"
    how, command = "resume it, with the same file of people", f"sessionizer carry-out {view.name} {first.operation}"
    word = HealthWord.WARNING if ago < HOUR else HealthWord.DEGRADED
    return Finding(Rule.UNSWEPT, word, what, first.approved_at, how, command)


def _judge_progress(view: StreamView, seen: DriverStatus) -> Finding | None:
    if seen.desired.state is not DesiredState.RUNNING or seen.state is not State.RUNNING:
        return None
    return _judge_backlog(view) or _judge_lag(view, seen)


def _judge_backlog(view: StreamView) -> Finding | None:
    known = [sample for sample in view.samples if sample.source_lag is not None]
    if not _is_trend(known) or _busy(known) < BUSY:
        return None
    first, last = known[0], known[-1]
    before, behind = first.source_lag or 0, last.source_lag or 0
    if behind <= 1.2 * before or behind <= last.rows:
        return None
    ago = describe_duration(last.at - first.at)
    what = f"it falls behind: {count_text(before, 'event')} behind {ago} ago, {behind:,} now"
    return Finding(Rule.FALLING_BEHIND, HealthWord.DEGRADED, what, first.at, _MORE)


def _judge_lag(view: StreamView, seen: DriverStatus) -> Finding | None:
    lag = _lag_beyond_limit(view, seen)
    if lag is None or _is_old_data(view):
        return None
    behind = f"its watermark is {describe_duration(lag)} behind the clock"
    first = view.samples[0] if view.samples else None
    if first is not None and _is_trend(view.samples) and first.lag_ms is not None:
        span = view.samples[-1].at - first.at
        if lag < first.lag_ms:
            what = f"it catches up: {behind}, {describe_duration(first.lag_ms - lag)} less than before"
            return Finding(Rule.CATCHING_UP, HealthWord.WARNING, what, first.at)
        if lag - first.lag_ms > span // 2:
            return Finding(Rule.FALLING_BEHIND, HealthWord.DEGRADED, f"it falls behind: {behind}", first.at, _MORE)
    return Finding(Rule.LAGGING, HealthWord.DEGRADED, behind, None, _MORE)


def _judge_silence(view: StreamView, seen: DriverStatus) -> Finding | None:
    """Judge whether a stream has worked lately, unless users know why not: it was given up, or waits."""
    record = view.supervision
    if view.looks is None or seen.desired.state is not DesiredState.RUNNING or view.is_drained:
        return None
    if view.unfinished is not None or (record is not None and (record.waiting_told or record.given_up)):
        return None
    beat = seen.heartbeat
    worked_at = (beat.progress_at or beat.at) if beat is not None and beat.phase in WORKING else 0
    since = max(view.looks.worked_at, worked_at, seen.desired.at)
    if view.now - since <= view.limits.idle_limit_ms:
        return None
    cause, status = judge_driver(view, seen), f"run `sessionizer status {view.name}` to see what it is doing"
    what, how = f"no progress for {describe_duration(view.now - since)}", cause.remedy if cause else ""
    return Finding(Rule.STALE, HealthWord.DEGRADED, what, since, how or status)


def _judge_straggler(view: StreamView, seen: DriverStatus) -> Finding | None:
    """Judge a key group, key or partition that holds up the batches. It may be over with the next ones."""
    straggler = seen.heartbeat.straggler if seen.heartbeat is not None else None
    if straggler is None or seen.state is not State.RUNNING:
        return None
    lasts = view.now - straggler.since > TOLD_AFTER_MS
    word = HealthWord.DEGRADED if lasts else HealthWord.WARNING
    what = f"{straggler.line}, for {count_text(straggler.batches, 'batch')}"
    remedy = name_stream(STRAGGLER_REMEDIES[straggler.kind], view.name) if lasts else ""
    return Finding(Rule.STRAGGLER, word, what, straggler.since, remedy)


def _judge_source(view: StreamView, seen: DriverStatus) -> Finding | None:
    """Judge what the source brings: old events, refused rows, late rows. A quiet source is healthy."""
    if seen.state not in {State.RUNNING, State.IDLE}:
        return None
    rows = sum(sample.rows for sample in view.samples)
    refused, late = sum(sample.refused for sample in view.samples), sum(sample.late for sample in view.samples)
    if rows >= JUDGED_ROWS and refused >= 0.1 * rows:
        what = f"{refused:,} of {rows:,} rows were refused in the last {_span(view.samples)}"
        how = f"`sessionizer tables {view.name}` shows the table quarantine, which has each reason"
        return Finding(Rule.ROWS_REFUSED, HealthWord.DEGRADED, what, what_to_do=how)
    if rows >= JUDGED_ROWS and late >= 0.5 * rows:
        what = f"{late:,} of {rows:,} rows came late in the last {_span(view.samples)}"
        how = "see rules.watermark_delay, and whether a producer sends old data"
        return Finding(Rule.ROWS_LATE, HealthWord.DEGRADED, what, what_to_do=how)
    lag = _lag_beyond_limit(view, seen)
    if seen.state is State.RUNNING and lag is not None and _is_old_data(view):
        what = f"the source delivers old events: its watermark is {describe_duration(lag)} behind, and processing waits"
        return Finding(Rule.OLD_EVENTS, HealthWord.WARNING, what)
    return None


def _judge_watermark(view: StreamView, seen: DriverStatus) -> Finding | None:
    samples = [sample for sample in view.samples if sample.rows]
    if seen.state is not State.RUNNING or view.is_drained:
        return None
    if len(samples) < 3 or samples[-1].at - samples[0].at < 2 * TREND_MS:  # noqa: PLR2004
        return None
    marks = {sample.watermark_ms for sample in samples}
    if len(marks) > 1 or None in marks:
        return None
    what = f"its watermark has stood still for {describe_duration(samples[-1].at - samples[0].at)}, while rows come"
    how = "see whether a producer repeats old events, or its clock is behind: no event is newer than those before"
    return Finding(Rule.WATERMARK_HALTED, HealthWord.DEGRADED, what, samples[0].at, how)


def _lag_beyond_limit(view: StreamView, seen: DriverStatus) -> int | None:
    beat = seen.heartbeat
    if beat is None or beat.phase is not Phase.RUNNING or not beat.input_rows or beat.is_drained:
        return None
    lag = beat.watermark_lag_ms
    delay = view.spec.rules.watermark_delay_ms if view.spec else 0
    return lag if lag is not None and lag > view.limits.lag_alert_ms + delay else None


def _is_old_data(view: StreamView) -> bool:
    """Whether processing has time left and the source has nothing more: then it is the events that are old."""
    samples = view.samples
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


def _judge_late_backlog(view: StreamView) -> Finding | None:
    """Judge whether too many rows of the first batches came late: the backlog is not in the order of time."""
    if view.late_backlog is None:
        return None
    how = f"run `{backfill_command(view.name)}` to read it in that order"
    return Finding(Rule.LATE_BACKLOG, HealthWord.DEGRADED, view.late_backlog, what_to_do=how)


def _judge_disk(view: StreamView) -> Finding | None:
    free = view.free_bytes
    if free is None or free >= LOW_ROOM:
        return None
    rule, word = (Rule.DISK_LOW, HealthWord.DEGRADED) if free >= LEAST_ROOM else (Rule.DISK_FULL, HealthWord.DOWN)
    how = "free some space, or move the home or the data root to a larger disk"
    return Finding(rule, word, f"{free // 2**20:,} MiB are left on the disk of {view.disk}", what_to_do=how)


def _judge_canary(view: StreamView) -> Finding | None:
    """Judge a canary, unless the stream is drained: it never ends then. One that a driver leaves is a warning."""
    canary = view.canary
    if view.is_drained or canary is None or canary.outcome in {CanaryOutcome.PASSED, CanaryOutcome.PROMOTED}:
        return None
    what = view.canary_line or f"lineage {canary.lineage} is a canary"
    if canary.outcome is not CanaryOutcome.FAILED:
        return Finding(Rule.CANARY, HealthWord.WARNING, what, canary.begun_at)
    word = HealthWord.WARNING if canary.goes_back else HealthWord.DEGRADED
    remedy = remedy_for(canary_failure(view.name, canary))
    return Finding(Rule.CANARY_FAILED, word, what, canary.decided_at, remedy)


def _judge_savepoints(view: StreamView) -> Finding | None:
    every, last = view.save_every_ms, view.saved_at or view.history_since
    if every is None or last is None or not any(sample.rows for sample in view.samples):
        return None
    age = view.now - last
    if age <= 2 * every + 10 * MINUTE:
        return None
    what = f"no savepoint for {describe_duration(age)}, though one is due every {describe_duration(every)}"
    how, save = "see the runs of sessionizer.savepoints in Airflow", f"sessionizer savepoint create {view.name}"
    return Finding(Rule.SAVEPOINT_OVERDUE, HealthWord.DEGRADED, what, last + every, how, f"{save} --why overdue")


def _judge_upgrade(view: StreamView, seen: DriverStatus) -> Finding | None:
    """Note an upgrade that waits for a stream that should run and that no command has. It is healthy meanwhile."""
    is_wanted = seen.desired.state is DesiredState.RUNNING
    if view.waiting is None or view.unfinished is not None or not is_wanted:
        return None
    how = what_follows(view.waiting, view.spec.upgrades, view.now) if view.spec else ""
    return Finding(Rule.UPGRADE_WAITS, HealthWord.HEALTHY, view.waiting.counted, what_to_do=how)
