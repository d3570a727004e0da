"""The table of all causes: the name of each, whether a retry helps, and what to do.

Each cause has a single remedy, wherever it is shown: ``status``, ``run``, the task log, an alert. The next step is
added by the program that knows it: the command line says ``sessionizer run``, Airflow says unpause.
"""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import Final

from sessionizer import errors
from sessionizer.causes.cause import PROCESS_CAUSES, TERMINAL, TRANSIENT, Cause, name_stream
from sessionizer.causes.query_causes import QUERY_CAUSES
from sessionizer.causes.start_problem import START_CAUSES
from sessionizer.errors import QueryFailed, QueryInterrupted, SessionizerError, StoreUnreachable, TerminalError

SYSTEM: Final = Cause(
    "OSError", "the operating system refuses a call", TRANSIENT, "check the file or resource that the message names"
)
_KINDS: Final = tuple(
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, SessionizerError) and "title" in vars(kind)
)
ERROR_CAUSES: Final = tuple(
    Cause(kind.__name__, kind.title, kind.verdict, kind.remedy, kind.for_good, kind.of_any_lineage) for kind in _KINDS
)
"""Causes by the name of the error's class, for a driver that had no query yet."""
CAUSES: Final = {cause.name: cause for cause in (*QUERY_CAUSES, *ERROR_CAUSES, *START_CAUSES, *PROCESS_CAUSES, SYSTEM)}
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_DISK_FULL_SIGNS: Final = ("No space left on device", "Disk quota exceeded")


def cause_of(name: str | None, message: str = "", *, terminal: bool = False) -> Cause:
    """Return the cause for the name in an exit record or of an error's class. ``terminal`` decides if it is unknown."""
    if name == "UnwritablePath" and any(sign in message for sign in _DISK_FULL_SIGNS):
        return CAUSES["disk_full"]
    known = CAUSES.get(name or "")
    if known is not None:
        return known
    return Cause(name or "unknown", "", TERMINAL, TerminalError.remedy) if terminal else CAUSES["unknown"]


def cause_of_error(error: SessionizerError | OSError) -> Cause:
    """Return the cause of the error: its name, whether to retry, and what to do.

    A class without a cause of its own has the cause of its base class.
    """
    if isinstance(error, OSError):
        # A refusal by the system concerns the machine: disk space, memory, open files.
        return CAUSES["disk_full"] if error.errno in _NO_ROOM else SYSTEM
    if isinstance(error, StoreUnreachable):
        return CAUSES[error.cause]
    if isinstance(error, QueryFailed | QueryInterrupted):
        return cause_of(error.cause, error.detail, terminal=isinstance(error, TerminalError))
    kind = next(kind for kind in type(error).__mro__ if kind in _KINDS)
    cause = cause_of(kind.__name__, str(error))
    return replace(cause, remedy=cause.remedy.format(error=error))


def remedy_for(error: SessionizerError, stream: str | None = None) -> str:
    """Return a line of advice: the cause's remedy, unless the error knows more than its cause.

    ``stream`` is the one of the command, for an error that names none.
    """
    remedy, named = error.advise() or cause_of_error(error).remedy, getattr(error, "stream", None)
    return name_stream(remedy, named if isinstance(named, str) else stream or "STREAM")
