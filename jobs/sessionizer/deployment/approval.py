"""A user's approval of a changed spec: it holds for the file as it is at that moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.deployment.running_spec import pending_changes, require_appliable
from sessionizer.stream_spec.decisions import spec_fingerprint
from sessionizer.stream_spec.loading.folder import find_stream

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer.home.stream_home import StreamHome
    from sessionizer.stream_spec.decisions import Change


@dataclass(frozen=True, slots=True)
class Approval:
    """The ``fingerprint`` of the spec, and its changes to the stream."""

    fingerprint: str
    changes: tuple[Change, ...]

    def lines(self) -> list[str]:
        """Describe the approved changes, a line for each."""
        if not self.changes:
            return ["there is nothing to apply: the stream already runs with its file, or has not run yet"]
        return [f"to be applied at the next start: {change}" for change in self.changes]


def approve_spec(home: StreamHome, streams: Path, name: str) -> Approval:
    """Approve the current file of stream ``name`` in folder ``streams``.

    Raises InvalidSpec if it is broken or the stream cannot take it, NotAccepted if open sessions would lack something,
    UnknownStream, DuplicateStream, DamagedFile.
    """
    spec = find_stream(streams, name)
    require_appliable(home, spec)
    return Approval(spec_fingerprint(spec), pending_changes(home, spec))
