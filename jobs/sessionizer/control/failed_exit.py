"""The exit record of a driver that ended by an error, at any point of its life."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sessionizer.causes.start_problem import BROKEN_CODE
from sessionizer.control.history.mark import Mark, MarkKind, add_mark
from sessionizer.control.lease import read_lease
from sessionizer.control.records.process_records import ExitOutcome, ExitRecord, write_exit
from sessionizer.errors import (
    ControlUnreachable,
    DiskFull,
    LeaseLost,
    QueryFailed,
    QueryInterrupted,
    SessionizerError,
    StoreUnreachable,
    TerminalError,
    UnwritablePath,
)
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import Store

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


def record_failure(home: StreamHome, uid: str, error: BaseException) -> None:
    """Write the exit record of driver ``uid``. Never raises, because a missing record also says that the driver died.

    ``error_type`` is the query's cause of death, else the name of the error's class.
    """
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
    said = (record.message or "").partition("\n")[0]
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
