"""The advice about an error, shown below its message: see ``sessionizer.causes.table``."""

from __future__ import annotations

import difflib
import errno
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sessionizer.causes.cause import name_stream
from sessionizer.causes.launch_causes import LAUNCH_CAUSES
from sessionizer.causes.table import CAUSES, cause_of
from sessionizer.errors import (
    DamagedFile,
    InvalidSpec,
    LineageUnfit,
    QueryFailed,
    QueryInterrupted,
    SessionizerError,
    StateBehindTables,
    StoreUnreachable,
    TableOwned,
    TerminalError,
    UnknownStream,
    UnwritablePath,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.causes.cause import Cause


NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def remedy_for(error: SessionizerError) -> str:
    """Return a line of advice: the cause's remedy, unless the command line knows more than the cause."""
    known = next((ON_COMMAND_LINE[kind](error) for kind in type(error).__mro__ if kind in ON_COMMAND_LINE), None)
    remedy, stream = known or cause_of_error(error).remedy, getattr(error, "stream", None)
    return name_stream(remedy, stream) if isinstance(stream, str) else remedy


def cause_of_error(error: SessionizerError | OSError) -> Cause:
    """Return the cause of the error: its name, whether to retry, and what to do.

    A class without a cause of its own has the cause of its base class.
    """
    if isinstance(error, OSError):
        # A refusal by the system concerns the machine: disk space, memory, open files.
        return CAUSES["disk_full" if error.errno in NO_ROOM else "OSError"]
    if isinstance(error, StoreUnreachable):
        return CAUSES[error.cause]
    if isinstance(error, QueryFailed | QueryInterrupted):
        return cause_of(error.cause, error.detail, terminal=isinstance(error, TerminalError))
    name = next((kind.__name__ for kind in type(error).__mro__ if kind.__name__ in CAUSES), type(error).__name__)
    cause = cause_of(name, str(error), terminal=isinstance(error, TerminalError))
    return replace(cause, remedy=cause.remedy.format(error=error)) if cause in LAUNCH_CAUSES else cause


def _invalid(error: InvalidSpec) -> str:
    if error.field == "key_groups" and error.allowed.startswith("Run `sessionizer rescale`"):
        return "run `sessionizer rescale`, or put key_groups back in the stream's spec"
    if error.field.startswith("source.") and error.allowed.startswith("Run `sessionizer switch`"):
        return f"run `sessionizer switch` for the other source, or put {error.field} back in the stream's spec"
    if error.field.startswith("-") or error.field.isupper():  # an option, an argument or a variable
        return f"give another {error.field}"
    if error.file is not None and error.file.name == "spec.json":
        return "correct the stream's file, then run `sessionizer run … --apply`: this release refuses the recorded spec"
    # The remedy of the cause, with the place: here the error is at hand, not only its message.
    where = error.file or "the stream's spec"
    return f"correct {error.field} in {where}, then run `sessionizer spec check --deep`"


def _unknown(error: UnknownStream) -> str:
    close = difflib.get_close_matches(error.name, error.known, n=1)
    if close:
        return f"use {close[0]}, if you meant that"
    return "write <name>.yaml into the folder of --streams or SESSIONIZER_STREAMS, or correct the folder"


def _unwritable(error: UnwritablePath) -> str | None:
    return "give --to a folder that does not exist yet" if error.purpose == "the result" else None


def _damaged(error: DamagedFile) -> str | None:
    name = str(error.path).rpartition("/")[2]
    if name == "home.json":
        return (
            f"restore {error.path} from a copy, or write the id into it again. The id is in the checkpoint.json of "
            "each lineage, after the @ of owner"
        )
    if name != "spec.json":
        return None
    return (
        f"restore {error.path} from a copy. If you know that the stream's file is the spec that last ran, delete it "
        "instead: the next driver then records the stream's file"
    )


def _owned(error: TableOwned) -> str:
    alter = f"ALTER TABLE delta.`{error.location}` SET TBLPROPERTIES ('sessionizer.owner' = '{error.stream}')"
    return f"give sink.path another folder. If that owner is gone for good, hand the table over: {alter}"


def _advise_newer_home(error: StateBehindTables) -> str | None:
    if error.known is not None:
        return None
    delete = f"DELETE FROM delta.`{error.location}` WHERE lineage = '{error.lineage}'"  # noqa: S608  for people
    return (
        f"put back the newer home, which knows {error.lineage}. If it is lost, delete the rows of that lineage from "
        f"each table ({delete}). Then restore a savepoint from before it (`sessionizer savepoint list {error.stream}`)"
    )


def _unfit(error: LineageUnfit) -> str:
    promote = f"or promote this one: `sessionizer promote {error.stream}`"
    if error.before is None:
        listed = f"`sessionizer savepoint list {error.stream}`"
        return f"restore a savepoint ({listed}), because there is no lineage before, {promote}"
    return f"run `sessionizer rollback {error.stream}` to return to lineage {error.before}, {promote}"


ON_COMMAND_LINE: Final[dict[type, Callable[[Any], str | None]]] = {
    InvalidSpec: _invalid,
    UnknownStream: _unknown,
    UnwritablePath: _unwritable,
    DamagedFile: _damaged,
    TableOwned: _owned,
    LineageUnfit: _unfit,
    StateBehindTables: _advise_newer_home,
}
"""Remedies that know more than the cause, because most such errors are mistakes in a command. A function returns None
if the cause's remedy fits."""
