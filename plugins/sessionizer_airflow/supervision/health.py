"""Health of a stream: a driver may live and still write no new data for readers of its tables."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sessionizer.causes.cause import name_stream
from sessionizer.control.history.straggler import STRAGGLER_REMEDIES, TOLD_AFTER_MS
from sessionizer.control.records.airflow_records import HEALTH_FILE, SUPERVISION_FILE, Health, Problem
from sessionizer.control.records.desired_state import Desired, DesiredState, examine_desired
from sessionizer.control.records.heartbeat import HEARTBEAT_FILE, Heartbeat, Phase
from sessionizer.errors import SessionizerError
from sessionizer.home.clock import describe_duration, epoch_ms
from sessionizer_airflow.alerting.alert import Alert, AlertKind

if TYPE_CHECKING:
    from sessionizer.control.records.airflow_records import SupervisionRecord
    from sessionizer.home.stream_home import StreamHome
    from sessionizer_airflow.supervision.policy import SupervisionPolicy

WORKING = frozenset({Phase.RUNNING, Phase.IDLE, Phase.STOPPING})


def examine_health(
    health: Health,
    beat: Heartbeat | None,
    desired: Desired,
    policy: SupervisionPolicy,
    now_ms: int,
    *,
    told: bool = False,
) -> Health:
    """Return the health after a look at the newest heartbeat, at ``now_ms`` (epoch).

    ``told``: users know already why the stream does nothing. Then its silence is no news.
    """
    if beat is not None and beat.phase in WORKING:
        # a driver that hangs at a batch still writes heartbeats
        worked_at = beat.at if beat.progress_at is None else beat.progress_at
        health = replace(health, worked_at=max(health.worked_at, worked_at))
    found = _find_problem(health, beat, desired, policy, now_ms)
    if told and found is Problem.STALE:
        found = health.ailment
    if found is health.ailment:
        return health
    return replace(health, ailment=found, since=None if found is None else now_ms)


def _find_problem(
    health: Health, beat: Heartbeat | None, desired: Desired, policy: SupervisionPolicy, now_ms: int
) -> Problem | None:
    if desired.state is not DesiredState.RUNNING:
        return None
    if now_ms - max(health.worked_at, desired.at) > policy.tell_stale_after:
        return Problem.STALE
    if beat is None or beat.phase is not Phase.RUNNING or not beat.input_rows:
        # Without input rows the lag is unknown. A quiet source has no lag.
        return None if beat is not None and beat.phase is Phase.IDLE else _unless_stale(health.ailment)
    if (beat.watermark_lag_ms or 0) > policy.lag_alert_ms:
        return Problem.LAGGING
    lasts = beat.straggler is not None and now_ms - beat.straggler.since > TOLD_AFTER_MS
    return Problem.STRAGGLER if lasts else None


def _unless_stale(ailment: Problem | None) -> Problem | None:
    return None if ailment is Problem.STALE else ailment


def alert_on_change(
    stream: str, before: Health, after: Health, beat: Heartbeat | None, desired: Desired, now_ms: int
) -> Alert | None:
    """Make the alert on a change of health. None without a change, or if the desired state is not RUNNING."""
    if before.ailment is after.ailment or desired.state is not DesiredState.RUNNING:
        return None
    lineage, batch_id = (beat.lineage, beat.batch_id) if beat else (None, None)
    kind, reason, what_to_do = _words(stream, before, after, beat, now_ms)
    return Alert(stream=stream, kind=kind, reason=reason, what_to_do=what_to_do, lineage=lineage, batch_id=batch_id)


def _words(
    stream: str, before: Health, after: Health, beat: Heartbeat | None, now_ms: int
) -> tuple[AlertKind, str, str]:
    if after.ailment is Problem.STALE:
        silence = describe_duration(now_ms - after.worked_at)
        return (
            AlertKind.STALE,
            f"no progress for {silence}",
            f"run `sessionizer status {stream}` to see what it is doing",
        )
    if after.ailment is Problem.LAGGING:
        behind = describe_duration((beat.watermark_lag_ms if beat else None) or 0)
        remedy = f"run `sessionizer status {stream}`: it says whether the events are old, or processing falls behind"
        return AlertKind.LAGGING, f"its watermark is {behind} behind the clock", remedy
    if after.ailment is Problem.STRAGGLER and beat is not None and beat.straggler is not None:
        straggler = beat.straggler
        reason = f"{straggler.line}, for {describe_duration(now_ms - straggler.since)}"
        return AlertKind.STRAGGLER, reason, name_stream(STRAGGLER_REMEDIES[straggler.kind], stream)
    return (
        AlertKind.RECOVERED,
        f"it was {before.ailment} for {describe_duration(now_ms - (before.since or now_ms))}",
        "",
    )


WRITTEN_EVERY = 60_000
"""Ms between two records without news."""


@dataclass(frozen=True)
class HealthUpdate:
    """The newest heartbeat, if it is new to us, and the alert to send.

    ``on_record`` is False if the control directory cannot be written. The next look would then send the alert again.
    """

    beat: Heartbeat | None
    alert: Alert | None
    on_record: bool = True


class HealthWatch:
    """Examiner of one stream. Its record outlives the watch, so that users are told of each change once."""

    def __init__(self, home: StreamHome, policy: SupervisionPolicy, unwritten: SupervisionRecord | None = None) -> None:
        self._home, self._policy, self._unwritten = home, policy, unwritten
        self._health: Health | None = None
        self._written: Health | None = None
        self._beat: Heartbeat | None = None

    def look(self) -> HealthUpdate:
        """Examine the stream now. Never raises."""
        now_ms, beat = epoch_ms(), HEARTBEAT_FILE.of(self._home).read()
        desired = examine_desired(self._home).value or Desired(DesiredState.RUNNING)
        before = self._health or HEALTH_FILE.of(self._home).read() or Health(worked_at=now_ms)
        record = self._unwritten or SUPERVISION_FILE.of(self._home).read()
        told = record is not None and (record.waiting_told or record.given_up)
        self._health = replace(examine_health(before, beat, desired, self._policy, now_ms, told=told), looked_at=now_ms)
        on_record = self._record()
        alert = alert_on_change(self._home.name, before, self._health, beat, desired, now_ms)
        return HealthUpdate(self._news(beat), alert, on_record)

    def _news(self, beat: Heartbeat | None) -> Heartbeat | None:
        is_new = beat != self._beat
        self._beat = beat
        return beat if is_new else None

    def _record(self) -> bool:
        health, written = self._health, self._written
        if health is None or (written is not None and not _worth_writing(written, health)):
            return True
        self._written = health
        with suppress(SessionizerError):
            HEALTH_FILE.of(self._home).write(health)
            return True
        return False


def _worth_writing(written: Health, health: Health) -> bool:
    return written.ailment is not health.ailment or (health.looked_at or 0) - (written.looked_at or 0) >= WRITTEN_EVERY
