"""Report of orphans: drivers without supervision, because their spec is gone. The report never ends a driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.records.supervision_records import TOLD_OF_ORPHAN
from sessionizer.fleet.finding import Rule
from sessionizer.fleet.streams import all_streams
from sessionizer_airflow.alerting.alert import Alert, AlertKind
from sessionizer_airflow.errors import StreamFindings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sessionizer.fleet.finding import Finding
    from sessionizer.fleet.stream_view import StreamView


def report_orphans(
    platform_home: Path, streams: Path, say: Callable[[str], None], tell: Callable[[Alert], None]
) -> None:
    """Say a line for each orphan, and alert users of each new one.

    Raises StreamFindings: there are any.
    """
    found = []
    for view in all_streams(platform_home, streams):
        if view.home is None:
            continue
        finding = next((each for each in view.health.findings if each.rule is Rule.ORPHAN), None)
        if finding is None:
            TOLD_OF_ORPHAN.forget(view.home)
            continue
        found.append(finding)
        say(f"{finding.what} → {finding.remedy}")
        if TOLD_OF_ORPHAN.is_news(view.home, view.owner.uid):
            tell(_alert(view, finding))
    if found:
        raise StreamFindings([each.what for each in found], "; ".join(each.remedy for each in found))
    say("every driver that runs has a spec")


def _alert(orphan: StreamView, finding: Finding) -> Alert:
    beat = orphan.owner.heartbeat
    return Alert(
        stream=orphan.name,
        kind=AlertKind.ORPHANED,
        reason=finding.what,
        what_to_do=finding.remedy,
        lineage=beat.lineage if beat else None,
        batch_id=beat.batch_id if beat else None,
    )
