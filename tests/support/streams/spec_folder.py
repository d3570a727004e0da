"""A folder of specs of which each has to be right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.stream_spec.spec_folder import survey_streams

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer.stream_spec.document.stream import StreamSpec


def load_streams(folder: Path) -> dict[str, StreamSpec]:
    """Read all specs in ``folder``, by name; raises InvalidSpec and DuplicateStream."""
    found = survey_streams(folder)
    if found.problems:
        raise found.problems[0]
    return found.specs
