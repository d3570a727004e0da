"""The right to drive a stream, with a fencing token. Spark does not lock a checkpoint, so this lease does."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sessionizer.control.dead_files import sweep
from sessionizer.control.lease.ledger import highest_token, read_lease, write_lease
from sessionizer.control.records.exit_record import EXIT_FILE
from sessionizer.control.records.heartbeat import HEARTBEAT_FILE
from sessionizer.control.records.lease_record import LeaseRecord, Vacancy, lease_file, new_lease
from sessionizer.control.records.process_identity import is_alive, this_process
from sessionizer.control.timeouts import TAKEOVER_AFTER_MS
from sessionizer.errors import ControlUnreachable, DiskFull, LeaseHeld, LeaseLost, UnwritablePath
from sessionizer.home.clock import epoch_ms
from sessionizer.home.names import check_identifier
from sessionizer.home.roots import uri_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.control.records.heartbeat import Heartbeat
    from sessionizer.home.stream_home import StreamHome

_LOOK_EVERY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease that ``acquire`` gave to this process."""

    home: StreamHome
    record: LeaseRecord

    @property
    def token(self) -> int:
        """The fencing token."""
        return self.record.token

    @property
    def uid(self) -> str:
        """The driver that owns it."""
        return self.record.uid or ""

    def check(self) -> None:
        """Return if the lease is still ours. Raises LeaseLost, or ControlUnreachable if the lease cannot be read.

        It costs one listing of a small directory and one small read. Call it before each write to a sink.
        """
        newest = highest_token(self.home)
        if newest == self.token:
            reading = lease_file(self.home, newest).examine()
            if reading.error is not None:
                raise ControlUnreachable(uri_of(self.home.leases), str(reading.error))
            # The record is compared too: a control directory that was removed and made anew counts from 1 again.
            if reading.value == self.record:
                return
        raise LeaseLost(self.home.name, self.token, newest)

    def release(self) -> None:
        """Give up the lease, as the last act. Harmless when it was lost or released before."""
        with suppress(LeaseLost, UnwritablePath, DiskFull, ControlUnreachable):
            # A full disk does not matter: the end of this process frees the lease as well.
            self.check()
            write_lease(self.home, _vacate(self.record, Vacancy.RELEASED))


def acquire(
    home: StreamHome,
    uid: str,
    *,
    takeover_after_ms: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Lease:
    """Acquire the lease of the stream for ``uid``, a driver or command, which must be this process.

    Exactly one of several callers wins.

    A lease is free in three cases:
    - Its owner released it, left an exit record, or is dead.
    - It was fenced, and its owner is dead.
    - Its owner cannot be seen from here (another host, a damaged record), and shows no sign for ``takeover_after_ms``
      (default ``TAKEOVER_AFTER_MS``). The call may take that long. Clocks are not compared.

    ``say`` gets a line when the watch begins. Raises LeaseHeld if the lease is not free, InvalidSpec for an invalid
    ``uid``, UnwritablePath, DiskFull, ControlUnreachable.
    """
    check_identifier("uid", uid)
    silence_ms = TAKEOVER_AFTER_MS if takeover_after_ms is None else takeover_after_ms
    while True:
        last = read_lease(home)
        if last is not None:
            held = _is_held(home, last)
            if held is None:
                owner = f"process {last.uid or 'unknown'} on {last.host or 'an unknown host'}"
                say(f"{owner} cannot be seen from here: its heartbeat is watched for up to {silence_ms // 1000} s")
            if held or (held is None and not _is_silent(home, last, silence_ms)):
                raise LeaseHeld(home.name, last.uid or "an unknown process", last.pid or 0, last.host or "unknown")
        record = new_lease(last.token + 1 if last else 1, uid, this_process(), epoch_ms())
        if write_lease(home, record):
            sweep(home, uid)
            return Lease(home, record)


def fence(home: StreamHome, uid: str | None = None) -> int | None:
    """Take the lease from its owner without a new owner, and return the highest token, which the vacancy now has.

    Returns None if there was no owner to fence: none ever, or an owner other than ``uid``, if given. Kill the process
    afterwards, because ``acquire`` still refuses while it is seen alive. Raises UnwritablePath, DiskFull,
    ControlUnreachable.
    """
    while True:
        last = read_lease(home)
        if last is None or uid not in {None, last.uid}:
            return None
        if last.vacancy is not None:
            return last.token
        record = _vacate(last, Vacancy.FENCED)
        if write_lease(home, record):
            return record.token


def _vacate(last: LeaseRecord, vacancy: Vacancy) -> LeaseRecord:
    return replace(last, token=last.token + 1, vacancy=vacancy, vacated_at=epoch_ms())


def _is_held(home: StreamHome, last: LeaseRecord) -> bool | None:
    """Return whether the lease has an owner at work. None if that cannot be seen from here."""
    if last.vacancy is Vacancy.RELEASED or _has_ended(home, last):
        return False
    process = last.process
    if last.vacancy is Vacancy.FENCED:
        # The process that fenced this driver also kills it. While the driver lives it may still write to the
        # checkpoint, which is not fenced. If the driver cannot be seen from here, the process that fenced it asked the
        # cluster, or waited for its end.
        return process is not None and process != this_process() and is_alive(process) is True
    return last.owner_lives


def _has_ended(home: StreamHome, last: LeaseRecord) -> bool:
    return last.ended_by(EXIT_FILE.of(home, last.uid).read() if last.uid else None)


def _is_silent(home: StreamHome, last: LeaseRecord, silence_ms: int) -> bool:
    """Whether the owner of ``last`` gives no sign for ``silence_ms``, or loses the lease to another process.

    Only changes count, by our own clock, because the clocks of two hosts may be minutes apart.
    """
    until = time.monotonic() + silence_ms / 1000
    first = _sign(home, last)
    while time.monotonic() < until:
        time.sleep(min(_LOOK_EVERY_S, max(0.0, until - time.monotonic())))
        if highest_token(home) != last.token or _has_ended(home, last):
            return True  # the caller reads the lease again, and sees the change
        if _sign(home, last) != first:
            return False
    return True


def _sign(home: StreamHome, last: LeaseRecord) -> Heartbeat | None:
    """Return the owner's newest beat. If the owner is unknown, any driver's beat counts."""
    heartbeat = HEARTBEAT_FILE.of(home).read()
    return heartbeat if heartbeat is not None and last.uid in {None, heartbeat.uid} else None
