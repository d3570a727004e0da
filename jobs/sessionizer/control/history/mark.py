"""Marks: events in the life of a stream, each a file of its own, because several processes write them."""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sessionizer.errors import SessionizerError
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import Store
from sessionizer.home.json_record import JsonRecord, Moment
from sessionizer.home.record_file import ControlFile
from sessionizer.redaction import redact_and_cut

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome

TEXT_LIMIT: Final = 500
"""Characters of a mark's text."""


class MarkKind(StrEnum):
    """The event that a mark tells of."""

    START = "start"
    """A driver took the stream's lease."""
    STOP = "stop"
    """A driver ended as requested, or at the end of its input."""
    CRASH = "crash"
    """A driver ended by an error, or without a word."""
    SAVEPOINT = "savepoint"
    COMMAND = "command"
    """A command changed the stream's state: restore, rollback, rescale, switch, apply, seed, upgrade."""
    CANARY = "canary"
    """The verdict on a new lineage."""
    ALERT = "alert"


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark(JsonRecord):
    """An event at ``at`` (epoch ms). ``what`` is its name in a word: a verb, a cause, a verdict, a kind of alert.

    ``text`` has the details, ``uid`` the driver, ``by`` the user who approved it.
    """

    kind: MarkKind
    at: Moment = field(default_factory=epoch_ms)
    what: str = ""
    text: str = ""
    lineage: str | None = None
    batch_id: int | None = None
    uid: str | None = None
    savepoint: str | None = None
    by: str | None = None


MARK_FILE: Final = ControlFile("history/mark.{}.json", Mark, key="mark")
"""Its key is such as ``1790382862000-3fa9c2``: epoch ms, and what tells it from others."""


def add_mark(home: StreamHome, mark: Mark) -> None:
    """Write ``mark``, without credentials. Never raises, because a lost mark must not stop the stream."""
    with suppress(SessionizerError, OSError):
        Store(home.history).make_folder()
        shown = replace(mark, text=redact_and_cut(mark.text, TEXT_LIMIT))
        MARK_FILE.of(home, f"{mark.at}-{secrets.token_hex(3)}").create(shown)


def count_restarts(marks: list[Mark]) -> int:
    """Count the starts that no stop and no command came before: Airflow or a user started the driver again."""
    ended_by, count = None, 0
    for mark in sorted(marks, key=lambda each: each.at):
        if mark.kind is MarkKind.START:
            count += ended_by in {MarkKind.CRASH, MarkKind.START}
        if mark.kind in {MarkKind.START, MarkKind.STOP, MarkKind.CRASH, MarkKind.COMMAND}:
            ended_by = mark.kind
    return count
