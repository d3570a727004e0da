"""Report of orphans: drivers without supervision, because their spec is gone. The report never ends a driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.records.airflow_records import TOLD_OF_ORPHAN
from sessionizer.fleet.streams import all_streams
from sessionizer.home.names import name_process
from sessionizer_airflow.alerting.alert import Alert, AlertKind
from sessionizer_airflow.errors import StreamFindings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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
        if not view.is_orphan:
            TOLD_OF_ORPHAN.forget(view.home)
            continue
        found.append(view)
        say(view.orphan_line)
        if TOLD_OF_ORPHAN.is_news(view.home, view.owner.uid):
            tell(_alert(view))
    if found:
        raise StreamFindings([view.orphan_line for view in found], "; ".join(map(orphan_remedy, found)))
    say("every driver that runs has a spec")


def orphan_remedy(orphan: StreamView) -> str:
    """Return the remedy: end the orphan, or put its spec back."""
    return f"run `{orphan.stop_command}`, or put the spec of {orphan.name} back"


def _alert(orphan: StreamView) -> Alert:
    beat = orphan.owner.heartbeat
    return Alert(
        stream=orphan.name,
        kind=AlertKind.ORPHANED,
        reason=f"{name_process(orphan.owner.uid)} runs, but no spec describes its stream",
        what_to_do=orphan_remedy(orphan),
        lineage=beat.lineage if beat else None,
        batch_id=beat.batch_id if beat else None,
    )
