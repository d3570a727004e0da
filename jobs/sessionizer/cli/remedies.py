"""What to do about an error: one line for each class of ``sessionizer.errors``, shown below the message."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final

from sessionizer.control.end_remedies import CAUSES
from sessionizer.errors import (
    ControlUnreachable,
    DamagedFile,
    DuplicateStream,
    InvalidSpec,
    LeaseHeld,
    LeaseLost,
    QueryFailed,
    QueryInterrupted,
    SessionizerError,
    SourceUnreachable,
    TerminalError,
    TransientError,
    UnknownStream,
    UnwritablePath,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def remedy_for(error: SessionizerError) -> str:
    """One line of advice."""
    kind = next(kind for kind in type(error).__mro__ if kind in REMEDIES)
    return REMEDIES[kind](error)


def remedy_for_end(stream: str, error_type: str | None) -> str:
    """Advice about a driver that an error ended, as its exit record has it: a cause, or the name of a class."""
    if error_type in CAUSES:
        return CAUSES[error_type]
    return f"correct what the message says, then `sessionizer run {stream}`"


def _invalid(error: InvalidSpec) -> str:
    if error.field.startswith("-"):
        return f"give another {error.field}"
    if error.field.startswith("feed."):
        return "`sessionizer feed --help` lists what may be given"
    where = error.file or "the stream's spec"
    return f"correct {error.field} in {where}; `sessionizer spec check --deep` proves it"


def _unknown(error: UnknownStream) -> str:
    close = difflib.get_close_matches(error.name, error.known, n=1)
    meant = f"did you mean {close[0]}? " if close else ""
    return f"{meant}Specs are <name>.yaml in the folder of --streams or SESSIONIZER_STREAMS"


def _unwritable(error: UnwritablePath) -> str:
    if error.purpose == "the result":
        return "give --to a folder that does not exist yet"
    return "make it writable, or choose another place: --home (SESSIONIZER_HOME) or sink.path in the spec"


def _damaged(error: DamagedFile) -> str:
    if error.path.name == "desired.json":
        return f"remove {error.path}: without it the stream is wanted RUNNING"
    return f"restore {error.path} from a copy; nothing else knows what it said"


REMEDIES: Final[dict[type, Callable[[Any], str]]] = {
    InvalidSpec: _invalid,
    UnknownStream: _unknown,
    DuplicateStream: lambda _: "keep one of the files, or give the other stream and its file another name",
    UnwritablePath: _unwritable,
    LeaseHeld: lambda error: (
        f"`sessionizer status {error.stream}` shows the live driver, `sessionizer stop {error.stream}` ends it"
    ),
    LeaseLost: lambda error: f"nothing to do: the newer driver goes on; `sessionizer status {error.stream}` shows it",
    DamagedFile: _damaged,
    QueryFailed: lambda error: CAUSES.get(error.cause, CAUSES["unknown"]),
    QueryInterrupted: lambda error: CAUSES.get(error.cause, CAUSES["unknown"]),
    ControlUnreachable: lambda _: "check the mount and the limit of open files, then try again",
    SourceUnreachable: lambda error: f"start what should answer at {error.address}, or correct source in the spec",
    TerminalError: lambda _: "correct what the message says, then try again",
    TransientError: lambda _: "try again",
    SessionizerError: lambda _: "correct what the message says, then try again",
}
