"""Errors of a file, a disk or a store, either for now or until they are repaired."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from sessionizer.errors.tree import TerminalError, TransientError

if TYPE_CHECKING:
    from pathlib import Path

    from upath import UPath


class UnwritablePath(TerminalError):
    """``path`` is needed as ``purpose`` but cannot be written: ``cause``."""

    exit_code = 13
    title = "a path cannot be written"
    of_any_lineage = True
    remedy = (
        "make the path writable, or choose another: by the option that names it, --home (SESSIONIZER_HOME) or "
        "sink.path in the spec"
    )

    def __init__(self, path: Path | str, purpose: str, cause: str) -> None:
        self.path, self.purpose, self.cause = path, purpose, cause
        super().__init__(f"cannot write {purpose} at {path}: {cause}")

    def advise(self) -> str | None:
        """Return another place for a result that is not overwritten, or the way of a store's keys to the driver."""
        if "redentials" in self.cause:
            return "set the store's variables, and name them for drivers: SESSIONIZER_DRIVER_ENVIRONMENT='AWS_*'"
        return "give --to a folder that does not exist yet" if self.purpose == "the result" else None


class UnreadablePath(TerminalError):
    """``path`` may not be read by this process: ``cause``."""

    exit_code = 13
    title = "a path may not be read"
    remedy = (
        "run this as the user who owns the path. Or let this user read it: add the user to its group, and give the "
        "group that right (`chmod g+rX`). Nothing is damaged"
    )

    def __init__(self, path: Path | str, cause: str) -> None:
        self.path, self.cause = path, cause
        super().__init__(f"{path} may not be read: {cause}")


class NoWorkingFolder(TerminalError):
    """The folder in which the command was typed was deleted."""

    title = "the current folder was deleted"
    remedy = "choose a folder that exists (`cd`)"

    def __init__(self) -> None:
        super().__init__("the current folder is not there any more")


class DamagedFile(TerminalError, ValueError):
    """A file of ours or of Spark at ``path`` that exists or must exist, but whose content is lost: ``cause``."""

    exit_code = 17
    title = "a control file is damaged"
    of_any_lineage = True
    remedy = (
        "restore the file from a copy, because no other file has its content. Without desired.json the desired state "
        "is RUNNING. You may delete spec.json if the stream's file is the spec that last ran"
    )

    def __init__(self, path: Path | UPath | str, cause: str) -> None:
        self.path, self.cause = path, cause
        super().__init__(f"{path} is damaged: {cause}")

    def advise(self) -> str | None:
        """Return the way back for this file."""
        name = str(self.path).rpartition("/")[2]
        if name == "home.json":
            return (
                f"restore {self.path} from a copy, or write the id into it again. The id is in the checkpoint.json of "
                "each lineage, after the @ of owner"
            )
        if name != "spec.json":
            return None
        return (
            f"restore {self.path} from a copy. If you know that the stream's file is the spec that last ran, delete it "
            "instead: the next driver then records the stream's file"
        )


class UnforeseenContent(TerminalError):
    """A file of ``stream`` has content that no check expects: ``error`` arose when it was used."""

    exit_code = 17
    title = "a file of the stream has unexpected content"
    remedy = (
        "run `sessionizer bundle {error.stream}` and report this with its file. The log has the place. Restore the "
        "file that was changed last from a copy"
    )

    def __init__(self, stream: str, error: Exception) -> None:
        self.stream, self.error = stream, error
        super().__init__(f"stream {stream!r} cannot be shown: {type(error).__name__}: {str(error)[:200]}")


class ControlUnreachable(TransientError):
    """The file or folder at ``path`` cannot be reached just now: ``cause`` (a stale mount, too many open files)."""

    exit_code = 23
    title = "the control directory cannot be reached"
    remedy = "check the mount and the limit of open files"

    def __init__(self, path: Path | UPath | str, cause: str) -> None:
        self.path, self.cause = path, cause
        super().__init__(f"cannot reach {path}: {cause}")


class DiskFull(TransientError):
    """``path`` is needed as ``purpose``, and there is no room for it (or no quota) just now: ``detail``."""

    exit_code = 24
    cause: ClassVar[str] = "disk_full"
    title = "a disk is full"
    remedy = "free some space. Airflow then resumes the stream. Run a typed command again"

    def __init__(self, path: Path | str, purpose: str, detail: str) -> None:
        self.path, self.purpose, self.detail = path, purpose, detail
        super().__init__(f"no disk space for {purpose} at {path}: {detail}")


class StoreUnreachable(TransientError):
    """The store, name node or metastore of ``path``, needed as ``purpose``, does not answer just now: ``detail``."""

    exit_code = 25
    cause: ClassVar[str] = "unreachable"

    def __init__(self, path: Path | str, purpose: str, detail: str) -> None:
        self.path, self.purpose, self.detail = path, purpose, detail
        super().__init__(f"the store of {purpose} at {path} does not answer: {detail}")
