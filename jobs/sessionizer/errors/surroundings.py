"""Errors of a file, a disk, a store or a source, either for now or until they are repaired."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from sessionizer.errors.tree import TerminalError, TransientError

if TYPE_CHECKING:
    from pathlib import Path

    from upath import UPath


class UnwritablePath(TerminalError):
    """``path`` is needed as ``purpose`` but cannot be written: ``cause``."""

    exit_code = 13

    def __init__(self, path: Path | str, purpose: str, cause: str) -> None:
        self.path, self.purpose, self.cause = path, purpose, cause
        super().__init__(f"cannot write {purpose} at {path}: {cause}")


class DamagedFile(TerminalError):
    """A control file at ``path`` that exists or must exist, but whose content is lost: ``cause``."""

    exit_code = 17

    def __init__(self, path: Path | UPath | str, cause: str) -> None:
        self.path, self.cause = path, cause
        super().__init__(f"{path} is damaged: {cause}")


class HomeNotShared(TerminalError):
    """The driver on ``host`` was launched from another home than the one at ``path`` there: it lacks ``missing``.

    It has an exit code of its own, because the launcher only knows what the cluster reports.
    """

    exit_code = 33

    def __init__(self, path: Path, host: str, missing: str = "the log of its launch") -> None:
        self.path, self.host, self.missing = path, host, missing
        super().__init__(f"the home at {path} on {host} is not the home that launched this driver: it lacks {missing}")


class ExecutorsUnfit(TerminalError):
    """The executors cannot do a stream's work: ``cause``. ``host`` is the host of one of them, if known."""

    exit_code = 13

    def __init__(self, cause: str, host: str | None = None) -> None:
        self.cause, self.host = cause, host
        which = "the executors" if host is None else f"the executor on {host}"
        super().__init__(f"{which} cannot run this stream: {cause}")


class ControlUnreachable(TransientError):
    """The file or folder at ``path`` cannot be reached just now: ``cause`` (a stale mount, too many open files)."""

    exit_code = 23

    def __init__(self, path: Path | UPath | str, cause: str) -> None:
        self.path, self.cause = path, cause
        super().__init__(f"cannot reach {path}: {cause}")


class DiskFull(TransientError):
    """``path`` is needed as ``purpose``, and there is no room for it (or no quota) just now: ``detail``."""

    exit_code = 24
    cause: ClassVar[str] = "disk_full"

    def __init__(self, path: Path | str, purpose: str, detail: str) -> None:
        self.path, self.purpose, self.detail = path, purpose, detail
        super().__init__(f"no disk space for {purpose} at {path}: {detail}")


class JarsNotFetched(TransientError):
    """The jars of drivers could not be brought to ``folder``: ``cause``."""

    exit_code = 65

    def __init__(self, folder: Path, cause: str) -> None:
        self.folder, self.cause = folder, cause
        super().__init__(f"cannot fetch the jars of drivers to {folder}: {cause}")


class StoreUnreachable(TransientError):
    """The store or name node of ``path``, needed as ``purpose``, does not answer just now: ``detail``."""

    exit_code = 25
    cause: ClassVar[str] = "unreachable"

    def __init__(self, path: Path | str, purpose: str, detail: str) -> None:
        self.path, self.purpose, self.detail = path, purpose, detail
        super().__init__(f"the store of {purpose} at {path} does not answer: {detail}")


NAMED: Final = 3
"""Number of files that a message names."""


class SourceFilesGone(TerminalError):
    """Files of the source that a batch was planned with are gone, before the batch read them."""

    exit_code = 50

    def __init__(self, stream: str, batch_id: int, files: tuple[str, ...]) -> None:
        self.stream, self.batch_id, self.files = stream, batch_id, files
        more = f" and {len(files) - NAMED} more" if len(files) > NAMED else ""
        super().__init__(
            f"files of batch {batch_id} of stream {stream!r} are gone before it read them: "
            f"{', '.join(files[:NAMED])}{more}"
        )


class SourceFileUnfit(TerminalError):
    """A file of a history that cannot be read in the way that the others are."""

    exit_code = 51

    def __init__(self, file: str, problem: str) -> None:
        self.file, self.problem = file, problem
        super().__init__(f"{file} cannot be read: {problem}")


class SourceUnreachable(TransientError):
    """A broker or socket did not answer at ``address``: ``cause``."""

    exit_code = 21

    def __init__(self, address: str, cause: str) -> None:
        self.address, self.cause = address, cause
        super().__init__(f"the source at {address} does not answer: {cause}")
