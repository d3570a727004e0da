"""Disagreements between a stream's state and its tables: found at a driver's start, or by the batch that meets one."""

from __future__ import annotations

from sessionizer.errors.tree import TerminalError, TransientError


class StateBehindTables(TerminalError):
    """The table at ``location`` has rows of ``lineage`` up to ``batch_id``, which the state of ``stream`` lacks.

    ``known`` is the newest batch of that lineage that its checkpoint has begun: -1 for none, None if the lineage is
    unknown here.
    """

    exit_code = 38

    def __init__(self, stream: str, location: str, lineage: str, batch_id: int, known: int | None) -> None:
        self.stream, self.location, self.lineage, self.batch_id, self.known = stream, location, lineage, batch_id, known
        here = "this home does not know that lineage" if known is None else f"its checkpoint has begun {_batch(known)}"
        super().__init__(
            f"the state of stream {stream!r} is older than its tables: {location} has batch {batch_id} of lineage "
            f"{lineage}, but {here}"
        )


class RowsMissing(TerminalError):
    """The table at ``location`` lacks rows that ``lineage`` of ``stream`` wrote in ``batch_id``.

    ``found`` is the newest batch of the lineage that the table knows, None if it knows none.
    """

    exit_code = 39

    def __init__(self, stream: str, location: str, lineage: str, batch_id: int, found: int | None) -> None:
        self.stream, self.location, self.lineage, self.batch_id, self.found = stream, location, lineage, batch_id, found
        newest = "no batch of it" if found is None else f"batches up to {found} only"
        super().__init__(
            f"the table at {location} lacks rows of stream {stream!r}: lineage {lineage} wrote batch {batch_id} there, "
            f"but the table has {newest}"
        )


class HomeCopied(TerminalError):
    """The home at ``path`` may be a copy of one with the same id (``home``), made elsewhere, at ``noted``."""

    exit_code = 41

    def __init__(self, path: str, home: str, noted: str) -> None:
        self.path, self.home, self.noted = path, home, noted
        super().__init__(f"the home at {path} is a copy of home {home} at {noted}, or was moved from there")


class DataAway(TransientError):
    """A table or a checkpoint (``what``) that ``stream`` wrote is not at ``location``: perhaps a mount is away."""

    exit_code = 40

    def __init__(self, stream: str, what: str, location: str) -> None:
        self.stream, self.what, self.location = stream, what, location
        super().__init__(f"{what} of stream {stream!r} is no longer at {location}")


def _batch(batch_id: int) -> str:
    return "no batch" if batch_id < 0 else f"batch {batch_id}"
