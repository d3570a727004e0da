"""Report of commands that have a stream and that no process carries out: killed, or marked by a user in Airflow.

No driver starts before such a command is over, and its stream's supervisor stands by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.records.supervision_records import TOLD_OF_STUCK
from sessionizer.fleet.streams import all_streams
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.errors import StreamFindings
from sessionizer_airflow.supervision.tell import alert_on_unattended

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sessionizer_airflow.alerting.alert import Alert


def report_stuck(
    platform_home: Path, streams: Path, patience: int, say: Callable[[str], None], tell: Callable[[Alert], None]
) -> None:
    """Alert users of each new such command, unless the stream's watch has done so.

    Raises StreamFindings: there are any.
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
        raise StreamFindings(lines, "; ".join(unfinished.go_on for unfinished in found.values()))
    say("every unfinished command has a process")
