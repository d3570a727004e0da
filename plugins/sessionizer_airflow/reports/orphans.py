"""Reporting drivers that nobody supervises any more, because their spec is gone. They are never ended from here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from sessionizer.control.records.told_record import TOLD_OF_ORPHAN
from sessionizer.fleet.orphans import Orphan, find_orphans
from sessionizer.home.stream_home import StreamHome, stream_homes
from sessionizer.stream_spec.loading.folder import spec_files
from sessionizer_airflow.alerting.alert import Alert, Kind
from sessionizer_airflow.alerting.notification import notify
from sessionizer_airflow.errors import OrphanedDrivers
from sessionizer_airflow.operators.failed_task import PersonNeeded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow.sdk import Context

    from sessionizer_airflow.project import Project


class ReportOrphans(BaseOperator):
    """Fails, without a retry, as long as a driver runs whose stream has no spec: red is what a person looks for."""

    ui_color = "#f3d9d2"

    def __init__(self, *, project: Project, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.project = project

    def execute(self, context: Context) -> None:  # noqa: ARG002 - the interface
        """Look at all homes of the platform."""
        try:
            report_orphans(self.project.home, self.project.streams, self.log.info, self._tell)
        except OrphanedDrivers as error:
            raise PersonNeeded.by(error) from None

    def _tell(self, alert: Alert) -> None:
        notify(alert, self.log.warning)


def report_orphans(
    platform_home: Path, streams: Path, say: Callable[[str], None], tell: Callable[[Alert], None]
) -> None:
    """Say a line for each orphan, and tell people of those that they have not been told of.

    :raises OrphanedDrivers: there are any.
    """
    # By the names of the files: a spec that cannot be read today does not make its stream an orphan.
    found = find_orphans(platform_home, {path.stem for path in spec_files(streams)})
    for orphan in found:
        say(orphan.line)
        if TOLD_OF_ORPHAN.is_news(StreamHome.of(platform_home, orphan.name), orphan.seen.uid):
            tell(_alert(orphan))
    names = {orphan.name for orphan in found}
    for home in stream_homes(platform_home):
        if home.name not in names:
            TOLD_OF_ORPHAN.forget(home)
    if found:
        raise OrphanedDrivers([orphan.line for orphan in found], "; ".join(what_to_do(orphan) for orphan in found))
    say("every driver that runs has a spec")


def what_to_do(orphan: Orphan) -> str:
    """To end it, or to keep it."""
    return f"`{orphan.stop_command}`, or put the spec of {orphan.name} back"


def _alert(orphan: Orphan) -> Alert:
    beat = orphan.seen.heartbeat
    return Alert(
        stream=orphan.name,
        kind=Kind.ORPHANED,
        reason=f"driver {orphan.seen.uid} runs, but no spec describes its stream",
        what_to_do=what_to_do(orphan),
        lineage=beat.lineage if beat else None,
        batch_id=beat.batch_id if beat else None,
    )
