"""Alerts on the health of a stream: a change of its problem, as the one judge of streams found it."""

from contextlib import suppress
from dataclasses import dataclass, replace

from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Heartbeat, Phase
from sessionizer.control.records.supervision_records import (
    HEALTH_FILE,
    Desired,
    DesiredState,
    Health,
    Problem,
    examine_desired,
)
from sessionizer.errors import SessionizerError
from sessionizer.fleet.finding import StreamHealth
from sessionizer.fleet.judge import WORKING
from sessionizer.home.clock import describe_duration, epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.alerting.alert import Alert, AlertKind


def examine_health(
    noted: Health, beat: Heartbeat | None, judged: StreamHealth | None, now_ms: int, *, wanted: bool = True
) -> Health:
    """Return the noted health after a look at ``now_ms`` (epoch), with the newest heartbeat and judgement.

    A batch without rows says nothing of a lag, so it ends none. A stream is stale until it works, also if users are
    told of another cause meanwhile. ``judged`` is None if the judgement is unknown. ``wanted``: the stream should run.
    """
    if beat is not None and beat.phase in WORKING:
        # a driver that hangs at a batch still writes heartbeats
        noted = replace(noted, worked_at=max(noted.worked_at, beat.progress_at or beat.at))
    if judged is None:
        return noted
    found = judged.alarm if wanted else None
    if found is None and wanted:
        says_nothing = beat is None or (beat.phase is not Phase.IDLE and not beat.input_rows)
        lasts = noted.worked_at <= (noted.since or 0) if noted.ailment is Problem.STALE else says_nothing
        if noted.ailment is not None and lasts:
            return noted
    problem = found.problem if found else None
    if problem is noted.ailment:
        return noted
    return replace(noted, ailment=problem, since=None if problem is None else now_ms)


def alert_on_change(
    stream: str, before: Health, after: Health, judged: StreamHealth | None, beat: Heartbeat | None, now_ms: int
) -> Alert | None:
    """Make the alert on a change of the problem, in the words of its finding. None without a change."""
    if before.ailment is after.ailment:
        return None
    found = judged.alarm if judged else None
    if found is None or found.problem is None:
        lasted = describe_duration(now_ms - (before.since or now_ms))
        return Alert.about(AlertKind.RECOVERED, stream, (f"it was {before.ailment} for {lasted}", ""), beat)
    return Alert.about(AlertKind(found.problem), stream, (found.what, found.remedy), beat)


WRITTEN_EVERY = 60_000
"""Ms between two records without news."""


@dataclass(frozen=True)
class HealthUpdate:
    """The newest heartbeat, if it is new to us, and the alert to send."""

    beat: Heartbeat | None
    alert: Alert | None


class HealthWatch:
    """Examiner of one stream. Its record outlives the watch, so that users are told of each change once."""

    def __init__(self, home: StreamHome) -> None:
        self._home = home
        self._health: Health | None = None
        self._written: Health | None = None
        self._beat: Heartbeat | None = None

    def look(self, judged: StreamHealth | None) -> HealthUpdate:
        """Examine the stream now, as it was ``judged``. Never raises."""
        now_ms, beat = epoch_ms(), HEARTBEAT_FILE.of(self._home).read()
        desired = examine_desired(self._home).value or Desired(DesiredState.RUNNING)
        before = self._health or HEALTH_FILE.of(self._home).read() or Health(worked_at=now_ms)
        wanted = desired.state is DesiredState.RUNNING  # a stream that was stopped has not recovered
        self._health = health = replace(examine_health(before, beat, judged, now_ms, wanted=wanted), looked_at=now_ms)
        written = self._written
        if not written or written.ailment is not health.ailment or now_ms - (written.looked_at or 0) >= WRITTEN_EVERY:
            self._written = health
            with suppress(SessionizerError):
                HEALTH_FILE.of(self._home).write(health)
        alert = alert_on_change(self._home.name, before, health, judged, beat, now_ms) if wanted else None
        news, self._beat = beat if beat != self._beat else None, beat
        return HealthUpdate(news, alert)
