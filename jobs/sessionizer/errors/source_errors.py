"""Errors of a source: it does not answer, it is another one, or some of its events are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionizer.counts import count_text
from sessionizer.errors.tree import TerminalError, TransientError

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHOWN: Final = 3
"""Number of files that a message names."""


class SourceUnreachable(TransientError):
    """A broker or socket did not answer at ``address``: ``cause``."""

    exit_code = 21
    title = "the source does not answer"
    remedy = "start the server or mount the folder that the message names, or correct source in the spec"

    def __init__(self, address: str, cause: str) -> None:
        self.address, self.cause = address, cause
        super().__init__(f"the source at {address} does not answer: {cause}")


class SourceMissing(TerminalError):
    """The source of ``stream`` is not there: ``field`` of its spec names ``name``, which ``place`` does not have."""

    exit_code = 46
    title = "the source is not there"
    remedy = (
        "create it, or correct the field in the spec and run `sessionizer spec check --deep …`. A stream that has "
        "begun can continue with another source: `sessionizer switch --start-at earliest …`"
    )

    def __init__(self, stream: str, field: str, name: str, place: str) -> None:
        self.stream, self.field, self.name, self.place = stream, field, name, place
        super().__init__(f"{field} of stream {stream!r} is {name!r}, which {place} does not have")


class SourceForbidden(TerminalError):
    """The driver of ``stream`` may not read ``name`` (``field`` of its spec) at ``place``: ``cause``."""

    exit_code = 47
    title = "the source may not be read"
    remedy = (
        "grant the right to read it, or correct the credentials in the spec. Then run `sessionizer spec check --deep …`"
    )

    def __init__(self, stream: str, field: str, name: str, place: str, cause: str) -> None:
        self.stream, self.field, self.name, self.place, self.cause = stream, field, name, place, cause
        super().__init__(f"stream {stream!r} may not read {name!r} ({field}) at {place}: {cause}")


class SourceReplaced(TerminalError):
    """``name`` in the source of ``stream`` has the identity ``now``, and the stream has read one that was ``known``."""

    exit_code = 48
    title = "the source was replaced"
    of_any_lineage = True
    remedy = (
        "run `sessionizer switch --accept-loss …`: it shows what is lost, and continues with the source that is there "
        "now"
    )

    def __init__(self, stream: str, name: str, known: str, now: str) -> None:
        self.stream, self.name, self.known, self.now = stream, name, known, now
        super().__init__(
            f"{name!r} of stream {stream!r} was replaced under its old name: its id was {known} and is now {now}. "
            "The positions that were read do not apply to it"
        )


class SourceFilesGone(TerminalError):
    """Files of the source that a batch was planned with are gone, before the batch read them."""

    exit_code = 50
    title = "files of the source are gone"
    remedy = (
        "put the files that the message names back under the same names. If they are gone for good, make an empty file "
        "of each name (`touch`): the stream then continues without their events"
    )

    def __init__(self, stream: str, batch_id: int, files: tuple[str, ...]) -> None:
        self.stream, self.batch_id, self.files = stream, batch_id, files
        more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
        super().__init__(
            f"files of batch {batch_id} of stream {stream!r} are gone before it read them: "
            f"{', '.join(files[:_SHOWN])}{more}"
        )


class SourceFileUnfit(TerminalError):
    """A file of a history that cannot be read in the way that the others are."""

    exit_code = 51
    title = "a file cannot be read"
    remedy = "repair the file that the message names, or move it out of the folder"

    def __init__(self, file: str, problem: str) -> None:
        self.file, self.problem = file, problem
        super().__init__(f"{file} cannot be read: {problem}")


class EventsGone(TerminalError):
    """The parts of the source in ``missing`` are gone, and a command on ``stream`` would have to read them again."""

    exit_code = 31
    title = "events are no longer in the source"
    remedy = (
        "put back what the plan names, or restore a savepoint that needs none of it (`sessionizer savepoint list …`)"
    )

    def __init__(self, stream: str, missing: Iterable[str]) -> None:
        self.stream, self.missing = stream, tuple(missing)
        named, more = ", ".join(self.missing[:_SHOWN]), ", …" if len(self.missing) > _SHOWN else ""
        is_one = len(self.missing) == 1
        parts, are = ("1 part", "is") if is_one else (f"{len(self.missing)} parts", "are")
        super().__init__(f"{parts} of the source of stream {stream!r} {are} gone: {named}{more}")


class EventsUnread(TerminalError):
    """The source that ``stream`` was to leave has ``items`` unread (such as files: ``unit``)."""

    exit_code = 34
    title = "the old source has more"
    remedy = (
        "let the stream read the old source to its end, then switch. Or add --leave-unread, which loses the events "
        "that only the old source has. Nothing was changed"
    )

    def __init__(self, stream: str, items: int, unit: str) -> None:
        self.stream, self.items, self.unit = stream, items, unit
        unread = count_text(items, unit.removesuffix("s"))
        super().__init__(f"stream {stream!r} has not read {unread} of its old source")
