"""Alerts that users receive: pure."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self

from sessionizer.control.records.driver_records import Heartbeat
from sessionizer.control.status.driver_status import DriverStatus
from sessionizer.redaction import redact


class AlertKind(StrEnum):
    """The event that an alert reports about a stream."""

    REPLACED = "replaced"
    """The driver ended or hung. The supervisor starts another."""
    GAVE_UP = "gave_up"
    """The supervisor starts no driver until a user has mended the cause."""
    ROLLED_BACK = "rolled_back"
    """A new lineage never made a batch. The next driver returns to the lineage before, as a user approved."""
    WAITING = "waiting"
    """Something around the stream has kept it down for a while.

    The supervisor starts a driver as soon as that is over.
    """
    STALE = "stale"
    """The stream should run, and has shown no sign of work for too long."""
    LAGGING = "lagging"
    """The stream works, but too far behind the events."""
    STRAGGLER = "straggler"
    """A key group, key or partition has held up the batches for five minutes."""
    DEGRADED = "degraded"
    """The stream works, but not as it should: its word says so, and no other alert does."""
    DOWN = "down"
    """The stream cannot go on, and no other alert says so."""
    RECOVERED = "recovered"
    """The stream has no such problem any more, and does not wait."""
    ORPHANED = "orphaned"
    """The stream's driver runs, but no spec describes the stream."""
    UNWATCHED = "unwatched"
    """The run that watches the stream is overdue, or no supervisor acts on its dead driver."""
    UPGRADE_WAITS = "upgrade_waits"
    """The spec was edited or a release was installed, and the stream does not run by it yet."""
    WANTS_APPROVAL = "wants_approval"
    """A plan for the stream waits until a user approves or rejects it."""
    OPERATION_FAILED = "operation_failed"
    """An approved operation on the stream was not completed."""
    TEST = "test"
    """A user tests whether alerts arrive. Nothing has to be done."""
    OPERATION_STUCK = "operation_stuck"
    """A command holds the stream, but no process runs that command. No driver starts before it is over."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Alert:
    """News of ``stream``. ``what_to_do`` is empty if nothing has to be done."""

    stream: str
    kind: AlertKind
    reason: str
    what_to_do: str = ""
    lineage: str | None = None
    batch_id: int | None = None
    health: str | None = None
    """The stream in one word at the time of the alert, None if it is not known."""

    @classmethod
    def about(cls, kind: AlertKind, stream: str, told: tuple[str, str], seen: Heartbeat | DriverStatus | None) -> Self:
        """Make an alert from a reason and a remedy (``told``), at the batch of the driver that was ``seen``."""
        reason, what_to_do = told
        lineage, batch_id = (seen.lineage, seen.batch_id) if seen else (None, None)
        return cls(stream=stream, kind=kind, reason=reason, what_to_do=what_to_do, lineage=lineage, batch_id=batch_id)

    @property
    def message(self) -> str:
        """The whole alert in one line, without credentials."""
        batch = "" if self.batch_id is None else f" (batch {self.batch_id})"
        remedy = f". What to do: {self.what_to_do}" if self.what_to_do else ""
        return redact(f"{self.stream} {self.kind.replace('_', ' ')}{batch}: {self.reason}{remedy}")

    def context(self) -> dict[str, Any]:
        """Return the names that a notifier's templates may use: ``{{ stream }}``, ``{{ message }}`` and so on."""
        shown = {"reason": redact(self.reason), "what_to_do": redact(self.what_to_do), "message": self.message}
        return {**asdict(self), "kind": str(self.kind), "health": self.health or "unknown", **shown}
