"""The end of drivers: their exit record after an error, and maintenance by a job, for which the last one is stopped."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from sessionizer.causes.cause import BROKEN_CODE
from sessionizer.control.history.files import Mark, MarkKind, add_mark
from sessionizer.control.lease import Lease, acquire, holder_beats, read_lease
from sessionizer.control.records.operation_record import pending_operation
from sessionizer.control.records.process_records import (
    EXIT_FILE,
    ExitOutcome,
    ExitRecord,
    read_launch,
    request_stop,
    write_exit,
)
from sessionizer.control.records.supervision_records import (
    Desired,
    DesiredState,
    begin_maintenance,
    end_maintenance,
    read_desired,
)
from sessionizer.errors import (
    ControlUnreachable,
    DiskFull,
    DriverStillRuns,
    LeaseHeld,
    LeaseLost,
    QueryFailed,
    QueryInterrupted,
    SessionizerError,
    StoreUnreachable,
    StreamMovedOn,
    TerminalError,
    TransientError,
    UnwritablePath,
)
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import Store
from sessionizer.home.names import is_command, name_process
from sessionizer.home.stream_home import StreamHome


def ask_to_stop(home: StreamHome, why: str, say: Callable[[str], None] = lambda _: None) -> set[str]:
    """Ask every driver that may be at work, or waits for its lease, to stop, and return their uids. ``say`` gets lines.

    A command with the lease is not asked, because it listens to no request, but its end is waited for. Harmless when
    repeated. Raises ControlUnreachable, UnwritablePath, DiskFull.
    """
    asked = live_drivers(home)
    for uid in sorted(asked):
        if is_command(uid):
            say(f"{name_process(uid)} has the stream: {why} begins after it")
            continue
        request_stop(home, uid, why)
        say(f"driver {uid} is asked to stop: {why}")
    return asked


def live_drivers(home: StreamHome) -> set[str]:
    """Return the drivers that may be at work: the lease's owner, and a launched one that waits for the lease."""
    lease, launch = read_lease(home), read_launch(home)
    found = set()
    if lease is not None and lease.uid is not None and lease.may_be_at_work(EXIT_FILE.of(home, lease.uid).read()):
        found.add(lease.uid)
    without_lease = launch is not None and (lease is None or lease.uid != launch.uid)
    if launch is not None and without_lease and launch.may_start and EXIT_FILE.of(home, launch.uid).read() is None:
        found.add(launch.uid)
    return found


@dataclass(frozen=True, slots=True)
class Maintenance:
    """A job, its user and reason, and the state ``afterwards``, which was decided by the one ``found`` (None: now)."""

    uid: str
    by: str
    why: str
    afterwards: DesiredState
    found: Desired | None = None


@contextmanager
def hold_lease(
    home: StreamHome,
    job: Maintenance,
    wait_s: float,
    say: Callable[[str], None],
    permit: Callable[[], None] = lambda: None,
) -> Iterator[Lease]:
    """Hold the stopped stream's lease for ``job``, which must be this process, while the block runs.

    ``permit`` is called while drivers end. It raises StreamMovedOn if a user gave the job up, and sets the state back.
    If the block raises, the stream stays in maintenance, and the block decides how to go on. Raises DriverStillRuns if
    a driver has not ended within ``wait_s``, and ControlUnreachable: maintenance stays for the next try, before which
    no supervisor may start. A silent owner on another host loses the lease. Raises LeaseHeld, UnwritablePath and
    DamagedFile: the desired state is set back, unless an operation is pending or another command has the lease. Raises
    LeaseLost if another process took the lease, which sets the state itself.
    """
    begin_maintenance(home, job.found or read_desired(home), job.afterwards, by=job.by, why=job.why)
    try:
        unseen = _stop_drivers(home, job.why, wait_s, say, permit)
        permit()
        try:
            lease = acquire(home, job.uid, say=say)
        except LeaseHeld as error:
            if unseen is None:
                raise
            raise DriverStillRuns(home.name, unseen, wait_s) from error
    except (TransientError, StreamMovedOn):
        raise
    except Exception as error:
        # another command that has the lease is at work in maintenance, and ends it itself
        is_of_command = isinstance(error, LeaseHeld) and is_command(error.uid)
        if pending_operation(home) is None and not is_of_command:
            end_maintenance(home, job.afterwards, by=job.by, why=f"{job.why}: it did not begin")
        raise
    try:
        with holder_beats(lease):
            yield lease
        lease.check()
    finally:
        end_job(lease)
    end_maintenance(home, job.afterwards, by=job.by, why=f"{job.why}: it is over")


def end_job(lease: Lease) -> None:
    """Write the exit record of the job that has the ``lease``, else a supervisor would alert, and release it."""
    with suppress(LeaseLost, ControlUnreachable, UnwritablePath, DiskFull):
        lease.check()
        write_exit(lease.home, ExitRecord(lease.uid, epoch_ms(), ExitOutcome.STOPPED))
    lease.release()


def _stop_drivers(
    home: StreamHome, why: str, wait_s: float, say: Callable[[str], None], permit: Callable[[], None]
) -> str | None:
    """Wait for the end of all drivers. Return the lease's owner if it has not ended and cannot be seen from here."""
    asked = ask_to_stop(home, why, say)
    deadline = time.monotonic() + wait_s
    while left := live_drivers(home) & asked:
        permit()
        if time.monotonic() >= deadline:
            lease = read_lease(home)
            if lease is not None and lease.owner_lives is None and left == {lease.uid}:
                return lease.uid
            raise DriverStillRuns(home.name, min(left), wait_s)
        time.sleep(0.2)
    return None


def record_failure(home: StreamHome, uid: str, error: BaseException) -> None:
    """Write the exit record of driver ``uid`` with its cause of death. Never raises: none says so as well."""
    record = ExitRecord(
        uid=uid,
        at=epoch_ms(),
        outcome=ExitOutcome.LEASE_LOST if isinstance(error, LeaseLost) else ExitOutcome.FAILED,
        terminal=isinstance(error, TerminalError),
        error_type=_kind_of(error),
        message=str(error),
    )
    with suppress(UnwritablePath, DiskFull, ControlUnreachable):
        write_exit(home, record)
    said = str(error).partition("\n")[0]
    add_mark(home, Mark(kind=MarkKind.CRASH, what=record.error_type or "", text=said, uid=uid))


def _kind_of(error: BaseException) -> str:
    if isinstance(error, QueryFailed | QueryInterrupted | DiskFull | StoreUnreachable):
        return error.cause
    if isinstance(error, ImportError | SyntaxError):
        return BROKEN_CODE.name
    return type(error).__name__


def record_false_start(home: StreamHome, uid: str, error: SessionizerError) -> None:
    """Write the exit record of a driver that never got the lease. Never raises."""
    with suppress(SessionizerError, OSError):
        owner = read_lease(home)
        if owner is not None and owner.uid == uid:
            return  # a driver of that uid may live, and the record would free its lease
        Store(home.control).make_folder()
        record_failure(home, uid, error)
