"""``leases/<token>.json``: one fencing token, and whose it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from sessionizer.control.records.process_identity import ProcessIdentity, is_alive
from sessionizer.home.json_record import JsonRecord

if TYPE_CHECKING:
    from sessionizer.control.records.exit_record import ExitRecord


class Vacancy(StrEnum):
    """Why a lease has no owner: its driver gave it up, or somebody took it away."""

    RELEASED = "released"
    FENCED = "fenced"


@dataclass(frozen=True, slots=True)
class LeaseRecord(JsonRecord):
    """One token. Its owner is ``uid``, unless there is a ``vacancy``: then that was the last one (None: unknown).

    Times are epoch ms; ``process_started`` is in clock ticks since boot.
    """

    token: int
    acquired_at: int
    uid: str | None = None
    pid: int | None = None
    process_started: int | None = None
    host: str | None = None
    boot_id: str | None = None
    pid_namespace: str | None = None
    vacancy: Vacancy | None = None
    vacated_at: int | None = None

    @property
    def process(self) -> ProcessIdentity | None:
        """The (last) owner's process, if the record says."""
        if self.pid is None or self.host is None:
            return None
        return ProcessIdentity(self.pid, self.process_started, self.host, self.boot_id, self.pid_namespace)

    def ended_by(self, end: ExitRecord | None) -> bool:
        """Whether ``end`` is its owner's. One from before the lease is of an earlier attempt under the same uid."""
        return end is not None and end.uid == self.uid and end.at >= self.acquired_at

    def may_be_at_work(self, end: ExitRecord | None) -> bool:
        """Whether its owner may still write, as far as can be told from here; ``end``: how it ended, if it says."""
        if self.vacancy is Vacancy.RELEASED or self.ended_by(end):
            return False
        alive = is_alive(self.process) if self.process else None
        # who fenced a driver that cannot be seen from here has had it killed by the cluster
        return alive is True or (alive is None and self.vacancy is not Vacancy.FENCED)


def owned_by(token: int, uid: str, process: ProcessIdentity, at_ms: int) -> LeaseRecord:
    """The record of a lease that driver ``uid`` takes at ``at_ms``."""
    return LeaseRecord(
        token, at_ms, uid, process.pid, process.started, process.host, process.boot_id, process.namespace
    )
