"""One look at how a stream fares, and what is new about it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.control.records.desired_state import Desired, DesiredState, examine_desired
from sessionizer.control.records.heartbeat import Heartbeat, read_heartbeat
from sessionizer.control.records.supervision_record import read_supervision
from sessionizer.errors import SessionizerError
from sessionizer.home.atomic_file import write_json
from sessionizer.home.clock import epoch_ms
from sessionizer.home.json_record import read_record
from sessionizer_airflow.supervision.health import Health, alert_on_change, examined

if TYPE_CHECKING:
    from sessionizer.control.records.supervision_record import SupervisionRecord
    from sessionizer.home.stream_home import StreamHome
    from sessionizer_airflow.alerting.alert import Alert
    from sessionizer_airflow.supervision.policy import SupervisionPolicy

FILE = "health.json"
WRITTEN_EVERY = 60_000
"""Ms between two records of a stream that is well."""


@dataclass(frozen=True)
class Finding:
    """The newest heartbeat, if it is new to us, and what people have to be told.

    `on_record` is False when the next who looks would tell it again: the control directory cannot be written.
    """

    beat: Heartbeat | None
    alert: Alert | None
    on_record: bool = True


class Doctor:
    """Examines one stream again and again. What is known of it outlives the watch, so that nothing is told twice."""

    def __init__(self, home: StreamHome, policy: SupervisionPolicy, unwritten: SupervisionRecord | None = None) -> None:
        self._home, self._policy, self._unwritten = home, policy, unwritten
        self._health: Health | None = None
        self._written: Health | None = None
        self._beat: Heartbeat | None = None

    def look(self) -> Finding:
        """Examine the stream now; never raises."""
        now_ms, beat = epoch_ms(), read_heartbeat(self._home)
        desired = examine_desired(self._home).value or Desired(DesiredState.RUNNING)
        before = self._health or read_health(self._home) or Health(worked_at=now_ms)
        record = self._unwritten or read_supervision(self._home)
        told = record is not None and (record.waiting_told or record.given_up)
        self._health = examined(before, beat, desired, self._policy, now_ms, told=told)
        on_record = self._record()
        alert = alert_on_change(self._home.name, before, self._health, beat, desired, now_ms)
        return Finding(self._news(beat), alert, on_record)

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
            write_health(self._home, health)
            return True
        return False


def _worth_writing(written: Health, health: Health) -> bool:
    return written.ailment is not health.ailment or health.worked_at - written.worked_at >= WRITTEN_EVERY


def read_health(home: StreamHome) -> Health | None:
    """What is on record; None when there is nothing, or nothing readable."""
    return read_record(Health, home.control / FILE)


def write_health(home: StreamHome, health: Health) -> None:
    """:raises UnwritablePath: the control directory cannot be written."""
    write_json(home.control / FILE, health.to_json(), durable=False)
