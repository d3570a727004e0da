"""Refusals and verdicts of a proof (``sessionizer prove``)."""

from __future__ import annotations

from sessionizer.errors.tree import TerminalError


class NothingToProve(TerminalError):
    """No recorded batch of ``stream`` can be replayed: ``cause``. Nothing was changed."""

    def __init__(self, stream: str, cause: str) -> None:
        self.stream, self.cause = stream, cause
        super().__init__(f"no batches of stream {stream!r} can be replayed: {cause}")


class ReplayDiffers(TerminalError):
    """A replay of ``stream`` by this release and spec is not what its tables hold: ``difference``."""

    exit_code = 63

    def __init__(self, stream: str, difference: str) -> None:
        self.stream, self.difference = stream, difference
        super().__init__(f"a replay of {stream!r} by this release and spec differs from its tables: {difference}")
