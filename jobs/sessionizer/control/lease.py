"""The right to drive a stream: one owner at a time, with a fencing token. Spark does not lock a checkpoint.

The files ``leases/<token>.json`` have each token's owner, and the highest token is the lease. A file never changes once
its name exists, and the highest is never deleted. So a token is given out only once.

A lease that cannot be read for a moment is not lost. A command that holds one sends heartbeats, because without them
another machine would count it as dead after a while.
"""

import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Heartbeat, Phase
from sessionizer.control.records.operation_record import PLAN_FILE, REQUEST_FILE
from sessionizer.control.records.process_records import (
    EXIT_FILE,
    LEASE_COPY,
    LeaseRecord,
    Vacancy,
    is_alive,
    lease_file,
    new_lease,
    this_process,
)
from sessionizer.control.timeouts import TAKEOVER_AFTER_MS
from sessionizer.errors import ControlUnreachable, DiskFull, LeaseHeld, LeaseLost, UnwritablePath
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import Store, reaching_records, record_names
from sessionizer.home.local_files import TEMPORARY_SUFFIX
from sessionizer.home.names import check_identifier
from sessionizer.home.roots import ControlPath, uri_of
from sessionizer.home.stream_home import FILES_OF_DRIVERS, LOG_NAME, StreamHome

ABANDONED_AFTER_S: Final = 3_600
"""After that a half-written temporary file has no writer any more."""
FORGOTTEN_AFTER_S: Final = 14 * 86_400
"""For that long records of earlier drivers, and requests of commands, are kept for display."""
LOGS_KEPT: Final = 20


def sweep(home: StreamHome, uid: str) -> None:
    """Delete abandoned files, old records and logs, as the holder of the lease, driver ``uid``. Never raises."""
    for directory in (home.control, home.leases):
        _remove_older(directory, f".*{TEMPORARY_SUFFIX}", ABANDONED_AFTER_S)
    for folder in {home.control, home.own}:
        for pattern in FILES_OF_DRIVERS:
            _remove_older(folder, pattern, FORGOTTEN_AFTER_S)
    for records in (REQUEST_FILE, PLAN_FILE):
        _remove_older(records.folder(home), "*.json", FORGOTTEN_AFTER_S)
    with suppress(OSError):
        _prune_logs(home.logs, uid)


def _prune_logs(logs: Path, uid: str) -> None:
    parts: dict[str, list[Path]] = defaultdict(list)
    for path in logs.iterdir():
        named = LOG_NAME.fullmatch(path.name)
        if named and named[1] != uid:
            parts[named[1]].append(path)
    by_age = sorted(parts.values(), key=lambda paths: max(path.stat().st_mtime for path in paths), reverse=True)
    for path in (path for paths in by_age[LOGS_KEPT:] for path in paths):
        with suppress(OSError):
            path.unlink()


def _remove_older(directory: ControlPath, pattern: str, seconds: int) -> None:
    oldest = (time.time() - seconds) * 1000
    with suppress(OSError):
        for name in record_names(directory, pattern):
            with suppress(OSError):
                if Store(directory / name).changed_at_ms() < oldest:
                    Store(directory / name).remove()


KEPT_TOKENS: Final = 8
_FILE_NAME: Final = re.compile(r"([0-9]{8}|[1-9][0-9]{8,17})\.json")


def highest_token(home: StreamHome) -> int:
    """Return the highest token given out, 0 if none. One directory listing. Raises ControlUnreachable."""
    with reaching_records(home.leases):
        return max(map(_token, record_names(home.leases)), default=0)


def read_lease(home: StreamHome) -> LeaseRecord | None:
    """Return the lease, None before the first. A damaged one has no known owner. Raises ControlUnreachable."""
    token = 0
    while (newest := highest_token(home)) > token:
        token, file = newest, lease_file(home, newest)
        reading = file.examine()
        if reading.value is not None:
            return reading.value
        if reading.error is not None:
            with suppress(OSError):
                return LeaseRecord(token, Store(file.path).changed_at_ms())
            return LeaseRecord(token, 0)
        # it was pruned since it was listed, so there is a higher one
    if newest:
        raise ControlUnreachable(uri_of(file.path), "it is listed, and is not there")
    return None


def write_lease(home: StreamHome, record: LeaseRecord) -> bool:
    """Make ``record`` the lease. False if another was faster. Raises UnwritablePath, DiskFull, ControlUnreachable."""
    file = lease_file(home, record.token)
    if not file.create(record):
        return False
    if highest_token(home) > record.token:
        _remove(file.path)  # we were so slow that our token had been given out, overtaken and pruned
        return False
    with suppress(UnwritablePath, DiskFull, ControlUnreachable):  # the copy is only for people
        LEASE_COPY.of(home).write(record)
    with suppress(OSError):
        for name in record_names(home.leases):
            if 0 < _token(name) <= record.token - KEPT_TOKENS:
                _remove(home.leases / name)
    return True


def _remove(path: ControlPath) -> None:
    with suppress(OSError):
        Store(path).remove()


def _token(name: str) -> int:
    """Return the token in a file's name. 0 for any other file, such as one that is still being written."""
    match = _FILE_NAME.fullmatch(name)
    return int(match[1]) if match else 0


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
        """Return if the lease is ours, at a listing and a read. Raises LeaseLost, ControlUnreachable."""
        newest = highest_token(self.home)
        if newest == self.token:
            reading = lease_file(self.home, newest).examine()
            if reading.error is not None:
                raise ControlUnreachable(uri_of(self.home.leases), str(reading.error))
            # a control directory that was removed and made anew counts from 1 again
            if reading.value == self.record:
                return
        raise LeaseLost(self.home.name, self.token, newest)

    def release(self) -> None:
        """Give up the lease, as the last act. Harmless when it was lost or released before."""
        with suppress(LeaseLost, UnwritablePath, DiskFull, ControlUnreachable):
            # a full disk does not matter: the end of this process frees the lease as well
            self.check()
            write_lease(self.home, _vacate(self.record, Vacancy.RELEASED))


def acquire(
    home: StreamHome, uid: str, *, takeover_after_ms: int | None = None, say: Callable[[str], None] = lambda _: None
) -> Lease:
    """Acquire the lease of the stream for ``uid``, which must be this process. Exactly one of several callers wins.

    A lease is free if its owner released it, left an exit record, or is dead, also one that was fenced. An owner that
    cannot be seen from here (another host, a damaged record) is watched by our clock for ``takeover_after_ms`` (default
    ``TAKEOVER_AFTER_MS``). Without a sign the lease is free. ``say`` gets a line when the watch begins.

    Raises LeaseHeld, InvalidSpec for an invalid ``uid``, UnwritablePath, DiskFull, ControlUnreachable.
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
    """Take the lease from its owner, or only from ``uid``, and return the highest token. None if it has no such owner.

    Kill the process afterwards, because ``acquire`` still refuses while it is seen alive.
    Raises UnwritablePath, DiskFull, ControlUnreachable.
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
    if last.vacancy is Vacancy.RELEASED or _has_ended(home, last):
        return False
    process = last.process
    if last.vacancy is Vacancy.FENCED:
        # The process that fenced this driver also kills it, or asked the cluster. While it lives it may still write to
        # the checkpoint, which is not fenced.
        return process is not None and process != this_process() and is_alive(process) is True
    return last.owner_lives


def _has_ended(home: StreamHome, last: LeaseRecord) -> bool:
    return last.ended_by(EXIT_FILE.of(home, last.uid).read() if last.uid else None)


def _is_silent(home: StreamHome, last: LeaseRecord, silence_ms: int) -> bool:
    """Whether the owner shows no change for ``silence_ms`` by our own clock, or loses the lease."""
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


UNREACHABLE_LIMIT_S: Final = 60.0
"""Seconds after which a driver that cannot read its lease ends itself, well before ``timeouts.TAKEOVER_AFTER_MS``."""
_RETRY_EVERY_S: Final = 0.5


class LeaseWatch:
    """Checks ``lease`` with patience. ``clock`` is monotonic, in seconds."""

    def __init__(
        self, lease: Lease, limit_s: float = UNREACHABLE_LIMIT_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lease, self._limit_s, self._clock = lease, limit_s, clock
        self._checked_at = clock()

    def look(self) -> bool:
        """Whether the lease was read and is ours. Raises LeaseLost, and after the limit ControlUnreachable."""
        looked_at = self._clock()
        try:
            self._lease.check()
        except ControlUnreachable:
            if self._clock() - self._checked_at > self._limit_s:
                raise
            return False
        self._checked_at = looked_at
        return True

    def require(self) -> None:
        """Wait until the lease was read and is ours, before each write to a sink.

        Raises LeaseLost, ControlUnreachable.
        """
        while not self.look():
            time.sleep(_RETRY_EVERY_S)


EVERY_S: Final = 10.0
"""Seconds between two beats: far below ``timeouts.STALE_AFTER_MS``. In a store each beat costs a few requests."""


@contextmanager
def beats(write: Callable[[], None], every_s: float, *, at_once: bool = False) -> Iterator[None]:
    """Call ``write`` every ``every_s`` seconds in a thread during the block, until it raises LeaseLost."""
    done = threading.Event()

    def beat() -> None:
        wait_s = 0.0 if at_once else every_s
        with suppress(LeaseLost):
            while not done.wait(wait_s):
                write()
                wait_s = every_s

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def holder_beats(lease: Lease, every_s: float = EVERY_S) -> AbstractContextManager[None]:
    """Return a block in which a command beats as holder of ``lease``, at once. Failed beats are skipped."""
    started_at = epoch_ms()

    def beat() -> None:
        with suppress(ControlUnreachable, UnwritablePath, DiskFull):
            lease.check()
            now = epoch_ms()
            # a command has no batches, so each beat is progress of its start
            HEARTBEAT_FILE.of(lease.home).write(Heartbeat(lease.uid, now, started_at, Phase.STARTING, progress_at=now))

    return beats(beat, every_s, at_once=True)
