"""Report of streams without supervision: a paused DAG, a removed DAG file, a dead scheduler.

A watch sees a dead driver within seconds and acts. If it can do nothing it gives up, and its own run is red.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionizer.control.records.supervision_records import TOLD_OF_UNWATCHED, SupervisionRecord
from sessionizer.control.status.driver_status import State
from sessionizer.fleet.finding import Rule
from sessionizer.fleet.streams import all_streams
from sessionizer.home.clock import describe_duration, epoch_ms
from sessionizer.home.names import name_process
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.alerting.alert import Alert, AlertKind
from sessionizer_airflow.errors import StreamFindings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sessionizer.fleet.stream_view import StreamView

DOWN: Final = frozenset({State.FAILED, State.VANISHED, State.STALLED, State.STOPPED})


def report_unwatched(
    platform_home: Path, streams: Path, patience: int, say: Callable[[str], None], tell: Callable[[Alert], None]
) -> None:
    """Alert users of each new such stream.

    Raises StreamFindings: there are any.
    """
    found = []
    for view in all_streams(platform_home, streams):
        if not view.specified:
            continue
        if view.driver is None:
            say(f"{view.name} cannot be examined: {view.problem}")
            continue
        alert, home = find_unwatched(view, patience, epoch_ms()), StreamHome.of(platform_home, view.name)
        if alert is None:
            TOLD_OF_UNWATCHED.forget(home)
            continue
        found.append(alert)
        if TOLD_OF_UNWATCHED.is_news(home, view.owner.uid or None):
            tell(alert)
    if found:
        raise StreamFindings([each.reason for each in found], "; ".join(each.what_to_do for each in found))
    say("every stream that should run runs, or its supervisor acts")


def find_unwatched(view: StreamView, patience: int, now_ms: int) -> Alert | None:
    """Return the alert on a stream that is judged to have no driver or no supervisor, and for ``patience`` ms no act.

    A stream that was given up is none, because users know of it: its DAG is red and paused.
    """
    seen, record = view.owner, view.supervision or SupervisionRecord()
    finding = next((each for each in view.health.findings if each.rule.is_unattended), None)
    if finding is None or record.given_up:
        return None
    acted_at = _last_move(view, record) if seen.state in DOWN else view.watch.until if view.watch else 0
    silence = now_ms - (acted_at or now_ms)  # a driver without a watch is run by a user
    if silence <= patience:
        return None
    beat = seen.heartbeat
    told = "" if finding.rule is Rule.UNWATCHED else f". No supervisor has acted for {describe_duration(silence)}"
    return Alert(
        stream=view.name,
        kind=AlertKind.UNWATCHED,
        reason=f"{name_process(seen.uid)} of stream {view.name}: {finding.what}{told}",
        what_to_do=finding.remedy,
        lineage=beat.lineage if beat else None,
        batch_id=beat.batch_id if beat else None,
    )


def _last_move(view: StreamView, record: SupervisionRecord) -> int:
    """Return when the driver or its supervisor last acted (epoch ms)."""
    seen, launch = view.owner, view.driver.launch if view.driver else None
    parts = (seen.heartbeat, seen.exit_record, seen.desired, launch)
    return max(record.last_failure_ms, *(part.at for part in parts if part is not None))
