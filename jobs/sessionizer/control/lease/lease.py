"""The right to drive a stream, with a fencing token. Nothing in Spark locks a checkpoint: this does."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sessionizer.control.housekeeping import sweep
from sessionizer.control.lease.ledger import give_out, highest_token, read_lease
from sessionizer.control.patience import TAKEOVER_AFTER_MS
from sessionizer.control.records.exit_record import read_exit
from sessionizer.control.records.heartbeat import read_heartbeat
from sessionizer.control.records.lease_record import LeaseRecord, Vacancy, owned_by
from sessionizer.control.records.process_identity import is_alive, this_process
from sessionizer.errors import ControlUnreachable, DiskFull, LeaseHeld, LeaseLost, UnwritablePath
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_root import uri_of
from sessionizer.home.json_file import examine_record
from sessionizer.home.names import checked_identifier

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.control.records.heartbeat import Heartbeat
    from sessionizer.home.stream_home import StreamHome

_LOOK_EVERY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Lease:
    """What ``acquire`` gave this process."""

    home: StreamHome
    record: LeaseRecord

    @property
    def token(self) -> int:
        """The fencing token."""
        return self.record.token

    @property
    def uid(self) -> str:
        """The driver it was given to."""
        return self.record.uid or ""

    def check(self) -> None:
        """Return if the lease is still ours. Raises LeaseLost, or ControlUnreachable if it cannot be known.

        Costs one listing of a small directory and one small read: call it before each write to a sink.
        """
        newest = highest_token(self.home)
        if newest == self.token:
            reading = examine_record(LeaseRecord, self.home.control_files.lease(newest))
            if reading.damage is not None:
                raise ControlUnreachable(uri_of(self.home.leases), reading.damage)
            # The record is compared too: a control directory that was removed and made anew counts from 1 again.
            if reading.value == self.record:
                return
        raise LeaseLost(self.home.name, self.token, newest)

    def release(self) -> None:
        """Give the lease up, as the last act. Harmless when it was lost or released before."""
        with suppress(LeaseLost, UnwritablePath, DiskFull, ControlUnreachable):
            # A full disk does not matter: the end of this process frees the lease as well.
            self.check()
            give_out(self.home, _vacated(self.record, Vacancy.RELEASED))


def acquire(
    home: StreamHome,
    uid: str,
    *,
    takeover_after_ms: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Lease:
    """The lease of the stream for driver ``uid``, which must be this process. Exactly one of several callers wins.

    Free is a lease whose owner released it, left an exit record, or is dead; one that was fenced, once its owner is
    dead; and one whose owner cannot be seen from here (another host, a damaged record) and gives no sign while it is
    watched for ``takeover_after_ms`` (default ``TAKEOVER_AFTER_MS``): so long this may take. Clocks are not compared.

    ``say`` gets a line when it begins to watch. Raises LeaseHeld otherwise, InvalidSpec for an odd ``uid``,
    UnwritablePath, DiskFull, ControlUnreachable.
    """
    checked_identifier("uid", uid)
    silence_ms = TAKEOVER_AFTER_MS if takeover_after_ms is None else takeover_after_ms
    while True:
        last = read_lease(home)
        if last is not None:
            held = _is_held(home, last)
            if held is None:
                owner = f"driver {last.uid or 'unknown'} on {last.host or 'an unknown host'}"
                say(f"{owner} cannot be seen from here: its heartbeat is watched for up to {silence_ms // 1000} s")
            if held or (held is None and not _is_silent(home, last, silence_ms)):
                raise LeaseHeld(home.name, last.uid or "an unknown driver", last.pid or 0, last.host or "unknown")
        record = owned_by(last.token + 1 if last else 1, uid, this_process(), epoch_ms())
        if give_out(home, record):
            sweep(home, uid)
            return Lease(home, record)


def fence(home: StreamHome, uid: str | None = None) -> int | None:
    """Take the lease from its owner and give it to nobody: the token that is now the highest.

    None if there was no owner to fence: none ever, or not ``uid``, if given. Kill the process afterwards: while it is
    seen to live, ``acquire`` still refuses. Raises UnwritablePath, ControlUnreachable.
    """
    while True:
        last = read_lease(home)
        if last is None or uid not in {None, last.uid}:
            return None
        if last.vacancy is not None:
            return last.token
        record = _vacated(last, Vacancy.FENCED)
        if give_out(home, record):
            return record.token


def _vacated(last: LeaseRecord, vacancy: Vacancy) -> LeaseRecord:
    return replace(last, token=last.token + 1, vacancy=vacancy, vacated_at=epoch_ms())


def _is_held(home: StreamHome, last: LeaseRecord) -> bool | None:
    """Whether somebody holds the lease; None where that cannot be seen from here."""
    if last.vacancy is Vacancy.RELEASED or _has_ended(home, last):
        return False
    process = last.process
    if last.vacancy is Vacancy.FENCED:
        # Whoever fenced was to kill it. While it lives it may still write to the checkpoint, which is not fenced.
        # An unseen one is the fencer's business: it asked the cluster, or waited until it had ended itself.
        return process is not None and process != this_process() and is_alive(process) is True
    return is_alive(process) if process else None


def _has_ended(home: StreamHome, last: LeaseRecord) -> bool:
    return last.ended_by(read_exit(home, last.uid) if last.uid else None)


def _is_silent(home: StreamHome, last: LeaseRecord, silence_ms: int) -> bool:
    """Watch the owner of ``last`` for ``silence_ms``: whether it gave no sign, nor lost the lease to another.

    Only change counts, by our own clock: those of two hosts may be minutes apart.
    """
    until = time.monotonic() + silence_ms / 1000
    first = _sign(home, last)
    while time.monotonic() < until:
        time.sleep(min(_LOOK_EVERY_S, max(0.0, until - time.monotonic())))
        if highest_token(home) != last.token or _has_ended(home, last):
            return True  # who asks must look again, and will
        if _sign(home, last) != first:
            return False
    return True


def _sign(home: StreamHome, last: LeaseRecord) -> Heartbeat | None:
    """The newest beat of the owner; of an unknown one, of whoever beats."""
    heartbeat = read_heartbeat(home)
    return heartbeat if heartbeat is not None and last.uid in {None, heartbeat.uid} else None
