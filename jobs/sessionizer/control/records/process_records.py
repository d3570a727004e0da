"""The records of a driver's process: its identity, launch, lease and end. A killed driver leaves no exit record.

By its identity another process tells later whether it still lives, because a pid alone is reused.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Final

from sessionizer.errors import HomeNotShared
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import Store, reaching_records
from sessionizer.home.json_record import JsonRecord, Moment
from sessionizer.home.record_file import ControlFile, RecordFile
from sessionizer.home.stream_home import StreamHome
from sessionizer.redaction import redact_and_cut

_PROC: Final = Path("/proc")
_ENDED_STATES: Final = frozenset({b"Z", b"X", b"x"})
"""States of a process that has ended. A zombie only waits for its parent to notice."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """The identity of a process. No other process ever has it.

    ``started`` counts clock ticks since boot, None if the system does not tell. ``boot_id`` tells a machine's runs
    apart. ``namespace`` tells containers apart that share host name and kernel.
    """

    pid: int
    started: int | None
    host: str
    boot_id: str | None = None
    namespace: str | None = None


def this_process() -> ProcessIdentity:
    """Return the identity of the calling process."""
    return _identity(os.getpid(), _stat(os.getpid()))


def identify(pid: int) -> ProcessIdentity | None:
    """Return the identity of the process now at ``pid`` on this host, or None."""
    stat = _stat(pid)
    return _identity(pid, stat) if stat or _answers(pid) else None


def is_alive(identity: ProcessIdentity) -> bool | None:
    """Return whether the process lives. None: it is of another host or container, and cannot be seen from here."""
    if identity.host != socket.gethostname():
        return None
    if _differ(identity.boot_id, _boot_id()):
        return False
    if _differ(identity.namespace, _namespace()):
        return None
    stat = _stat(identity.pid)
    if stat is None:
        answers = _answers(identity.pid)
        if answers and (_PROC / "self" / "stat").exists():
            # There is a process, but /proc hides it (hidepid), so it may be another one.
            return None
        return answers
    state, started = stat
    return state not in _ENDED_STATES and identity.started in {None, started}


def _identity(pid: int, stat: tuple[bytes, int] | None) -> ProcessIdentity:
    return ProcessIdentity(pid, stat[1] if stat else None, socket.gethostname(), _boot_id(), _namespace())


def _differ(recorded: str | None, here: str | None) -> bool:
    return recorded is not None and here is not None and recorded != here


def _stat(pid: int) -> tuple[bytes, int] | None:
    try:
        line = (_PROC / str(pid) / "stat").read_bytes()
        # the second field is the command in parentheses, which may itself hold spaces, parentheses or odd bytes
        columns = line.rpartition(b")")[2].split()
        return columns[0], int(columns[19])
    except (OSError, IndexError, ValueError):
        return None


def _answers(pid: int) -> bool:
    """Whether any process has this pid. Used without /proc, where a reused pid cannot be recognized."""
    if pid < 1:
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


@cache
def _boot_id() -> str | None:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def _namespace() -> str | None:
    try:
        return str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return None


SUBMITTED: Final = "SESSIONIZER_SUBMITTED"
"""Variable that is set (to 1) for a driver on another machine than its launcher's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchRecord(JsonRecord):
    """The launch of driver ``uid`` at ``at`` (epoch ms), whose output is in the file ``log``.

    A record without a process is written before that exists. In cluster mode it only submits, and the cluster manager
    of ``master`` knows the driver as ``submission`` (a YARN tag, a Kubernetes ``namespace:pod``). ``ended_at`` (epoch
    ms): when it was killed, or the launch failed. ``python``: that of another release, None for the default one.
    """

    uid: str
    at: Moment
    log: str
    python: str | None = None
    pid: int | None = None
    process_started: int | None = None
    host: str | None = None
    boot_id: str | None = None
    namespace: str | None = None
    master: str | None = None
    submission: str | None = None
    ended_at: Moment | None = None

    def add_process(self, process: ProcessIdentity) -> LaunchRecord:
        """Return the same launch with its process, which now exists."""
        return replace(
            self,
            pid=process.pid,
            process_started=process.started,
            host=process.host,
            boot_id=process.boot_id,
            namespace=process.namespace,
        )

    @property
    def process(self) -> ProcessIdentity | None:
        """The process that was launched, if it is known."""
        if self.pid is None or self.host is None:
            return None
        return ProcessIdentity(self.pid, self.process_started, self.host, self.boot_id, self.namespace)

    @property
    def may_start(self) -> bool:
        """Whether the driver, which has no lease so far, may still take it. A driver with an exit record may not."""
        if self.ended_at is not None:
            return False
        # the cluster may start a submitted driver, however long ago its client ended
        return self.submission is not None or self.process is None or is_alive(self.process) is not False


LAUNCH_FILE: Final = ControlFile("launch.json", LaunchRecord)


def read_launch(home: StreamHome) -> LaunchRecord | None:
    """Return the newest launch, None if none or damaged. It has ended if spark-submit failed to submit."""
    launch = LAUNCH_FILE.of(home).read()
    if launch is None or launch.ended_at is not None:
        return launch
    exit_code = home.submission(launch.uid)
    with suppress(OSError):  # only a driver that was submitted from this machine has it
        if exit_code.read_text().strip() not in {"", "0"}:
            return replace(launch, ended_at=exit_code.stat().st_mtime_ns // 1_000_000)
    return launch


def own_file(home: StreamHome, named: str) -> Path | None:
    """Return a log that a record names, if it is one of the stream's: no other file of the machine is shown."""
    try:
        found, logs = Path(named).resolve(), home.logs.resolve()
    except (OSError, ValueError, RuntimeError):
        return None
    return found if found.is_relative_to(logs) and (found.is_file() or not found.exists()) else None


def require_shared_home(home: StreamHome, uid: str, environment: Mapping[str, str] = os.environ) -> None:
    """Raise HomeNotShared if a submitted driver finds no log of its launch, or at a control path no launch's record."""
    if not environment.get(SUBMITTED):
        return
    host = os.uname().nodename
    if home.control_root is None:
        if not home.driver_log(uid).exists():
            raise HomeNotShared(home.root, host)
    elif isinstance(home.control, Path) and read_launch(home) is None:
        raise HomeNotShared(home.control, host, "the record of its launch")


MESSAGE_LIMIT: Final = 8_000
"""Number of characters of ``message`` that are kept: a JVM's nested stack traces reach megabytes."""


class ExitOutcome(StrEnum):
    """The outcome of a driver. STOPPED: at a batch boundary, as requested. FINISHED: at the end of its input."""

    STOPPED = "stopped"
    FINISHED = "finished"
    FAILED = "failed"
    LEASE_LOST = "lease_lost"


@dataclass(frozen=True, slots=True)
class ExitRecord(JsonRecord):
    """The end of driver ``uid`` at ``at`` (epoch ms). ``terminal`` means that a restart cannot help."""

    uid: str
    at: Moment
    outcome: ExitOutcome
    terminal: bool = False
    error_type: str | None = None
    message: str | None = None
    batch_id: int | None = None


EXIT_FILE: Final = ControlFile("exit.{}.json", ExitRecord, key="uid")


def write_exit(home: StreamHome, record: ExitRecord) -> None:
    """Write the redacted ``record``, which frees the lease. Raises UnwritablePath, DiskFull, ControlUnreachable."""
    message = redact_and_cut(record.message, MESSAGE_LIMIT) if record.message else record.message
    EXIT_FILE.of(home, record.uid).write(replace(record, message=message))


@dataclass(frozen=True, slots=True)
class StopRequest(JsonRecord):
    """A request to stop driver ``uid``, since ``at`` (epoch ms), and the reason."""

    uid: str
    at: Moment
    why: str


STOP_FILE: Final = ControlFile("stop.{}", StopRequest, key="uid")


def request_stop(home: StreamHome, uid: str, why: str) -> None:
    """Ask driver ``uid`` to stop. Harmless when repeated, or when the driver is gone.

    Raises UnwritablePath, DiskFull, ControlUnreachable.
    """
    STOP_FILE.of(home, uid).write(StopRequest(uid, epoch_ms(), why))


def stop_requested(home: StreamHome, uid: str) -> bool:
    """Whether driver ``uid`` was asked to stop, by the file's presence alone. Raises ControlUnreachable."""
    path = STOP_FILE.of(home, uid).path
    with reaching_records(path):
        return Store(path).exists()


class Vacancy(StrEnum):
    """The reason why a lease has no owner: its driver gave it up, or another process took it away."""

    RELEASED = "released"
    FENCED = "fenced"


@dataclass(frozen=True, slots=True)
class LeaseRecord(JsonRecord):
    """A token and its owner, with a ``vacancy`` the last one (None: unknown). Times are epoch ms, or ticks."""

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
        """Whether its owner, with the exit record ``end``, may still write, as seen from here."""
        if self.vacancy is Vacancy.RELEASED or self.ended_by(end):
            return False
        alive = self.owner_lives
        # a driver that was fenced and cannot be seen from here was killed by the cluster
        return alive is True or (alive is None and self.vacancy is not Vacancy.FENCED)


LEASE_COPY: Final = ControlFile("lease.json", LeaseRecord, durable=False)


def lease_file(home: StreamHome, token: int) -> RecordFile[LeaseRecord]:
    """Return the file of the owner of ``token``."""
    return RecordFile(home.leases / f"{token:08d}.json", LeaseRecord)


def new_lease(token: int, uid: str, process: ProcessIdentity, at_ms: int) -> LeaseRecord:
    """Return the record of a lease that driver ``uid`` takes at ``at_ms``."""
    return LeaseRecord(
        token, at_ms, uid, process.pid, process.started, process.host, process.boot_id, process.namespace
    )
