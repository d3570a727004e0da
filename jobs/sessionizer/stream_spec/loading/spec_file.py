"""What the file of a stream says just now: a spec, or what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.errors import DuplicateStream, InvalidSpec
from sessionizer.stream_spec.loading.folder import find_stream

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer.stream_spec.document.stream import StreamSpec


@dataclass(frozen=True, slots=True)
class SpecFile:
    """Exactly one of ``spec`` and ``problem`` is there."""

    name: str
    spec: StreamSpec | None = None
    problem: InvalidSpec | DuplicateStream | None = None

    def required(self) -> StreamSpec:
        """The spec; raises the problem."""
        if self.problem is not None:
            raise self.problem
        assert self.spec is not None  # noqa: S101  one of them is there
        return self.spec


def read_spec_file(folder: Path, name: str) -> SpecFile:
    """The file of stream ``name``; raises UnknownStream."""
    try:
        return SpecFile(name, spec=find_stream(folder, name))
    except (InvalidSpec, DuplicateStream) as error:
        return SpecFile(name, problem=error)
