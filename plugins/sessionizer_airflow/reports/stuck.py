"""Report of commands that have a stream and that no process carries out: killed, or marked by a user in Airflow.

No driver starts before such a command is over, and its stream's supervisor stands by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from sessionizer.control.records.airflow_records import TOLD_OF_STUCK
from sessionizer.fleet.streams import all_streams
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.alerting.notification import notify
from sessionizer_airflow.errors import StuckOperations
from sessionizer_airflow.failed_task import PersonNeeded
from sessionizer_airflow.supervision.tell import alert_on_unattended

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow.sdk import Context

    from sessionizer_airflow.alerting.alert import Alert
    from sessionizer_airflow.project import Project


class ReportStuck(BaseOperator):
    """Task that fails, without a retry, as long as there is such a command.

    ``patience`` (ms): for Airflow's own retries.
    """

    ui_color = "#f3d9d2"

    def __init__(self, *, project: Project, patience: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.project = project
        self.patience = patience

    def execute(self, context: Context) -> None:  # noqa: ARG002 - the interface
        """Look at all streams that have a spec."""
        try:
            report_stuck(self.project.home, self.project.streams, self.patience, self.log.info, self._tell)
        except StuckOperations as error:
            raise PersonNeeded.wrap(error) from None

    def _tell(self, alert: Alert) -> None:
        notify(alert, self.log.warning)


def report_stuck(
    platform_home: Path, streams: Path, patience: int, say: Callable[[str], None], tell: Callable[[Alert], None]
) -> None:
    """Alert users of each new such command, unless the stream's watch has done so.

    Raises StuckOperations: there are any.
    """
    found = {}
    for view in all_streams(platform_home, streams):
        unfinished = view.unfinished
        if unfinished is None or not unfinished.is_unattended(epoch_ms(), patience):
            continue
        found[view.name] = unfinished
        if TOLD_OF_STUCK.is_news(StreamHome.of(platform_home, view.name), unfinished.try_key):
            tell(alert_on_unattended(view.name, unfinished))
    if found:
        lines = [f"stream {name}: {unfinished.standing}" for name, unfinished in found.items()]
        raise StuckOperations(lines, "; ".join(unfinished.go_on for unfinished in found.values()))
    say("every unfinished command has a process")
