"""The file ``leases/<token>.json``: a fencing token and its owner."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sessionizer.control.records.process_identity import ProcessIdentity, is_alive
from sessionizer.home.json_file import RecordFile
from sessionizer.home.json_record import JsonRecord, Moment
from sessionizer.home.record_file import ControlFile

if TYPE_CHECKING:
    from sessionizer.control.records.exit_record import ExitRecord
    from sessionizer.home.stream_home import StreamHome


class Vacancy(StrEnum):
    """The reason why a lease has no owner: its driver gave it up, or another process took it away."""

    RELEASED = "released"
    FENCED = "fenced"


@dataclass(frozen=True, slots=True)
class LeaseRecord(JsonRecord):
    """A token and its owner ``uid``. With a ``vacancy``, ``uid`` is the last owner (None: unknown).

    Times are epoch ms, ``process_started`` is in clock ticks since boot.
    """

    token: int
    acquired_at: Moment
    uid: str | None = None
    pid: int | None = None
    process_started: int | None = None
    host: str | None = None
    boot_id: str | None = None
    pid_namespace: str | None = None
    vacancy: Vacancy | None = None
    vacated_at: Moment | None = None

    @property
    def process(self) -> ProcessIdentity | None:
        """The process of the (last) owner, if the record names it."""
        if self.pid is None or self.host is None:
            return None
        return ProcessIdentity(self.pid, self.process_started, self.host, self.boot_id, self.pid_namespace)

    @property
    def owner_lives(self) -> bool | None:
        """Sign of life of its (last) owner's process. None if that cannot be seen from here."""
        return is_alive(self.process) if self.process else None

    def ended_by(self, end: ExitRecord | None) -> bool:
        """Whether ``end`` is its owner's. An end before the lease is of an earlier attempt under the same uid."""
        return end is not None and end.uid == self.uid and end.at >= self.acquired_at

    def may_be_at_work(self, end: ExitRecord | None) -> bool:
        """Whether its owner may still write, as far as can be seen from here.

        ``end`` is the owner's exit record, if any.
        """
        if self.vacancy is Vacancy.RELEASED or self.ended_by(end):
            return False
        alive = self.owner_lives
        # a driver that was fenced and cannot be seen from here was killed by the cluster
        return alive is True or (alive is None and self.vacancy is not Vacancy.FENCED)


LEASE_COPY: Final = ControlFile("lease.json", LeaseRecord, durable=False)
"""A copy of the lease, for people to read."""


def lease_file(home: StreamHome, token: int) -> RecordFile[LeaseRecord]:
    """Return the file of the owner of ``token``."""
    return RecordFile(home.leases / f"{token:08d}.json", LeaseRecord)


def new_lease(token: int, uid: str, process: ProcessIdentity, at_ms: int) -> LeaseRecord:
    """Return the record of a lease that driver ``uid`` takes at ``at_ms``."""
    return LeaseRecord(
        token, at_ms, uid, process.pid, process.started, process.host, process.boot_id, process.namespace
    )
