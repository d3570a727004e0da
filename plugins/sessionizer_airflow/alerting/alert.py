"""What people are told: pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sessionizer.redaction import redacted


class Kind(StrEnum):
    """What has happened."""

    REPLACED = "replaced"
    """Its driver ended or hung, and is started again."""
    GAVE_UP = "gave_up"
    """It is not started again until a person has mended the cause."""
    WAITING = "waiting"
    """Something around it keeps it down, and has for a while; it is started again as soon as that is over."""
    STALE = "stale"
    """It is wanted, and has shown no sign of work for too long."""
    LAGGING = "lagging"
    """It works, but too far behind the events."""
    RECOVERED = "recovered"
    """It is not waiting, stale or lagging any more."""
    ORPHANED = "orphaned"
    """Its driver runs, but no spec describes it."""
    UNWATCHED = "unwatched"
    """The run that watches it is overdue, or nobody does anything about its dead driver."""
    WANTS_APPROVAL = "wants_approval"
    """A plan for it waits for somebody to approve or reject it."""
    OPERATION_FAILED = "operation_failed"
    """What was approved for it was not carried out to its end."""
    OPERATION_STUCK = "operation_stuck"
    """A command has it, no process carries that out, and no driver starts before it is over."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Alert:
    """News of ``stream``; ``what_to_do`` is empty where nothing has to be done."""

    stream: str
    kind: Kind
    reason: str
    what_to_do: str = ""
    lineage: str | None = None
    batch_id: int | None = None

    @property
    def message(self) -> str:
        """All of it, in one line, without credentials."""
        batch = "" if self.batch_id is None else f" (batch {self.batch_id})"
        remedy = f". What to do: {self.what_to_do}" if self.what_to_do else ""
        return redacted(f"{self.stream} {self.kind.replace('_', ' ')}{batch}: {self.reason}{remedy}")

    def context(self) -> dict[str, Any]:
        """What a notifier's templates may name: ``{{ stream }}``, ``{{ message }}`` and so on."""
        shown = {"reason": redacted(self.reason), "what_to_do": redacted(self.what_to_do), "message": self.message}
        return {**asdict(self), "kind": str(self.kind), **shown}
