"""Deadline alert for a watch that does not run any more, which the watch itself cannot report."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import BaseDeadlineReference, DeadlineAlert

from sessionizer.control.records.supervision_records import DesiredState
from sessionizer.control.status.read_status import read_status
from sessionizer.control.timeouts import read_configured_timeouts
from sessionizer.home.clock import epoch_ms
from sessionizer.home.names import Verb, dag_id
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.alerting.alert import Alert, AlertKind
from sessionizer_airflow.alerting.notification import notify

if TYPE_CHECKING:
    from sessionizer.control.status.driver_status import DriverStatus


class WatchBegins(BaseDeadlineReference):
    """The moment at which a run is made, because Airflow evaluates the reference then.

    The logical date would not do. For ``@continuous`` it is the start of the run before, and for the first run the
    DAG's start date. With ``DAGRUN_QUEUED_AT`` Airflow 3.3.2 cannot clear a task (the API answers 500: it takes the
    stored interval for a number of seconds).
    """

    def _evaluate_with(self, **_known: object) -> datetime:
        return datetime.now(UTC)


QUEUED_WITHIN: Final = timedelta(seconds=10)
"""Longest time between making and queueing a run.

A run that is queued later was cleared: its watch begins anew, but its deadline does not move.
"""

UNFINISHED: Final = frozenset({"queued", "running"})
log = logging.getLogger(__name__)


def watch_deadline(stream: str, platform_home: Path, limit: timedelta) -> DeadlineAlert:
    """Alert users when a run of ``supervise`` takes longer than ``limit``: its watch and a grace.

    Airflow's scheduler keeps the time. The callback runs in the executor, because the triggerer may be the broken part.
    """
    facts = {"stream": stream, "platform_home": str(platform_home), "limit_seconds": limit.total_seconds()}
    return DeadlineAlert(
        name=f"{stream} is watched",
        reference=WatchBegins(),
        interval=limit,
        callback=SyncCallback(tell_overdue_watch, kwargs=facts),
    )


def tell_overdue_watch(stream: str, platform_home: str, limit_seconds: float, context: dict[str, Any]) -> None:
    """Alert users of an overdue watch. Airflow calls this when the deadline has passed."""
    made_at = context["deadline"]["deadline_time"] - timedelta(seconds=limit_seconds)
    if _was_cleared(context["dag_run"], made_at):
        return
    seen = read_status(StreamHome.of(Path(platform_home), stream), epoch_ms(), read_configured_timeouts())
    alert = alert_on_overdue_watch(stream, context["dag_run"], seen)
    if alert is not None:
        log.error("%s", alert.message)
        notify(alert, log.warning)


def _was_cleared(run: dict[str, Any], made_at: datetime) -> bool:
    """Whether the run was cleared since it was made."""
    queued_at = run.get("queued_at")
    return queued_at is not None and datetime.fromisoformat(str(queued_at)) > made_at + QUEUED_WITHIN


def alert_on_overdue_watch(stream: str, run: dict[str, Any], seen: DriverStatus) -> Alert | None:
    """Make the alert. Return None if the run has ended meanwhile, or the desired state of the stream is not RUNNING."""
    if run.get("state") not in UNFINISHED or seen.desired.state is not DesiredState.RUNNING:
        return None
    beat = seen.heartbeat
    return Alert(
        stream=stream,
        kind=AlertKind.UNWATCHED,
        reason=f"run {run.get('dag_run_id')} should have ended, and the stream itself is {seen.state}",
        what_to_do=(
            f"unpause {dag_id(stream, Verb.SUPERVISE)} if it is paused, and check that Airflow's triggerer and "
            f"scheduler run (`sessionizer status {stream}` needs neither)"
        ),
        lineage=beat.lineage if beat else None,
        batch_id=beat.batch_id if beat else None,
    )
