"""Alerts as marks in the history of their stream, each with the stream's word at that time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sessionizer.control.history.mark import Mark, MarkKind, add_mark
from sessionizer.errors import SessionizerError
from sessionizer.fleet.streams import find_view
from sessionizer_airflow.project import Project

if TYPE_CHECKING:
    from sessionizer.fleet.health.verdict import StreamHealth
    from sessionizer_airflow.alerting.alert import Alert


def note_alert(alert: Alert) -> Alert:
    """Add the alert to the history of its stream, and return it with the stream's word. Never raises."""
    try:
        project = Project.from_environment()
        home = project.home_of(alert.stream)
    except SessionizerError:
        return alert
    text = f"{alert.reason}. What to do: {alert.what_to_do}" if alert.what_to_do else alert.reason
    add_mark(
        home,
        Mark(kind=MarkKind.ALERT, what=str(alert.kind), text=text, lineage=alert.lineage, batch_id=alert.batch_id),
    )
    health = health_now(project, alert.stream)
    return alert if health is None else replace(alert, health=str(health.word))


def health_now(project: Project, stream: str) -> StreamHealth | None:
    """Return the health of the stream now, by its spec. None if it is not known. Never raises."""
    try:
        return find_view(project.home, project.streams, stream).health
    except (SessionizerError, OSError):
        return None
