"""The file of a stream as it is now, a spec or a problem, and specs that were kept as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from sessionizer.errors import DuplicateStream, InvalidSpec
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.loading.folder import find_stream
from sessionizer.stream_spec.loading.problems import invalid_spec
from sessionizer.stream_spec.loading.yaml_text import YamlDocument

if TYPE_CHECKING:
    from sessionizer.home.roots import DataPath
    from sessionizer.stream_spec.decisions import Document


@dataclass(frozen=True, slots=True)
class SpecFile:
    """The result of reading a spec file. Exactly one of ``spec`` and ``problem`` is set."""

    name: str
    spec: StreamSpec | None = None
    problem: InvalidSpec | DuplicateStream | None = None

    def required(self) -> StreamSpec:
        """Return the spec, or raise the problem: InvalidSpec or DuplicateStream."""
        if self.problem is not None:
            raise self.problem
        assert self.spec is not None  # noqa: S101  one of them is there
        return self.spec


def read_spec_file(folder: Path, name: str) -> SpecFile:
    """Read the file of stream ``name``. Raises UnknownStream."""
    try:
        return SpecFile(name, spec=find_stream(folder, name))
    except (InvalidSpec, DuplicateStream) as error:
        return SpecFile(name, problem=error)


def parse_recorded_spec(document: Document, file: DataPath) -> StreamSpec:
    """Parse a ``document_of`` result that was kept in ``file``. Raises InvalidSpec if this release would refuse it."""
    try:
        return StreamSpec.model_validate(document)
    except ValidationError as error:
        shown = file if isinstance(file, Path) else Path(file.name)
        found = invalid_spec(error, YamlDocument(json.dumps(document, ensure_ascii=False), shown), shown)
        raise InvalidSpec(found.field, found.value, found.allowed, file=shown) from None
