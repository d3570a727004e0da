"""What is wrong with a spec, or an option, before anything of a stream is touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.errors.tree import TerminalError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class InvalidSpec(TerminalError):
    """A stream spec that must not start: ``field`` (dotted path), its ``value`` and what is ``allowed``.

    ``file`` and ``line`` (from 1) say where, as far as it is known.
    """

    exit_code = 11

    def __init__(
        self, field: str, value: object, allowed: str, *, file: Path | None = None, line: int | None = None
    ) -> None:
        self.field, self.value, self.allowed, self.file, self.line = field, value, allowed, file, line
        place = f"{file}:{line}" if line else str(file)
        where = f"{place}: " if file else ""
        super().__init__(f"{where}{field} is {value!r}; allowed: {allowed}")


class UnknownStream(TerminalError):
    """No spec of this ``name``; ``known`` are those that exist."""

    exit_code = 12

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name, self.known = name, tuple(sorted(known))
        super().__init__(f"no stream named {name!r}; known: {', '.join(self.known) or 'none'}")


class DuplicateStream(TerminalError):
    """Two spec files describe a stream of one ``name``: they would share a checkpoint."""

    exit_code = 12

    def __init__(self, name: str, files: Iterable[Path]) -> None:
        self.name, self.files = name, tuple(files)
        super().__init__(f"stream {name!r} is described by {len(self.files)} files: {', '.join(map(str, self.files))}")
