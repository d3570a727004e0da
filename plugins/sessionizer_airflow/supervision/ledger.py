"""The one place that records a failure and alerts users, whichever part failed and whichever noticed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.control.records.supervision_records import SUPERVISION_FILE, SupervisionRecord
from sessionizer.deployment.releases import release_to_return
from sessionizer.errors import RetryEffect, SessionizerError
from sessionizer.home.clock import epoch_ms
from sessionizer_airflow.supervision.failures import (
    add_failure,
    add_unseen,
    end_wait,
    is_due_to_tell,
    is_known,
    is_rollback_due,
    note_told,
)
from sessionizer_airflow.supervision.tell import alert_on_failure, alert_on_waiting, alert_on_work

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.control.status.driver_status import DriverStatus
    from sessionizer.home.stream_home import StreamHome
    from sessionizer_airflow.alerting.alert import Alert
    from sessionizer_airflow.supervision.failures import Failure
    from sessionizer_airflow.supervision.policy import SupervisionPolicy


@dataclass
class Ledger:
    """The record of a stream's supervision. ``tell`` takes alerts for users, ``count`` the name of a counter.

    ``unwritten`` is the newest record while it cannot be written (a full disk). The caller must hand it to the next
    watch.
    """

    home: StreamHome
    policy: SupervisionPolicy
    tell: Callable[[Alert], None] = lambda _: None
    count: Callable[[str], None] = lambda _: None
    unwritten: SupervisionRecord | None = None

    def read(self) -> SupervisionRecord:
        """Return the newest record.

        It is empty if there is none, because a damaged file must not keep a stream down.
        """
        return self.unwritten or SUPERVISION_FILE.of(self.home).read() or SupervisionRecord()

    def write(self, record: SupervisionRecord) -> None:
        """Write ``record`` to disk, or keep it in memory. Never raises."""
        try:
            SUPERVISION_FILE.of(self.home).write(record)
        except SessionizerError:  # no room, no right, no mount
            self.unwritten = record
        else:
            self.unwritten = None

    def note_failure(self, failure: Failure, driver: DriverStatus | None) -> bool:
        """Record the failure and alert users, unless that was done before. Return whether it is new."""
        before, now_ms = self.read(), epoch_ms()
        if is_known(before, failure):
            return False
        record = add_failure(before, failure, self.policy, now_ms)
        self.write(record)
        self.count("given_up" if record.given_up else _counter(failure))
        due = is_rollback_due(record, failure, self.policy)
        to_install = self._programs_to_install(failure) if due else ""
        alert = alert_on_failure(self.home.name, failure, record, self.policy, driver, to_install)
        if alert is not None:
            self.tell(alert)
        return True

    def _programs_to_install(self, failure: Failure) -> str:
        """Say which programs the lineage before needs and this machine lacks. Empty if none."""
        before = failure.unstarted.before if failure.unstarted else None
        try:
            return "" if before is None else release_to_return(self.home, before).remedy
        except SessionizerError as error:
            return str(error)

    def note_waiting(self, driver: DriverStatus | None, wanted_since: int = 0) -> None:
        """Alert users, once, of a transient cause that has lasted while the stream should run (since, epoch ms)."""
        record, now_ms = self.read(), epoch_ms()
        if is_due_to_tell(record, self.policy, wanted_since, now_ms):
            self.write(note_told(record))
            self.tell(alert_on_waiting(self.home.name, record, now_ms, driver))

    def note_unseen(self, driver: DriverStatus) -> None:
        """Record since when a ``driver`` that cannot be seen from here has given no sign."""
        record = self.read()
        after = add_unseen(record, driver.heard_ms, epoch_ms())
        if after != record:
            self.write(after)

    def note_work(self, driver: DriverStatus) -> None:
        """Record that the ``driver`` works, so that the wait is over. Alert users if they were told of the wait."""
        record = self.read()
        if record.waiting_since is None:
            return
        self.write(end_wait(record))
        if record.waiting_told:
            self.tell(alert_on_work(self.home.name, record, epoch_ms(), driver))


def _counter(failure: Failure) -> str:
    return "waits" if failure.cause.verdict is RetryEffect.TRANSIENT else "restarts"
