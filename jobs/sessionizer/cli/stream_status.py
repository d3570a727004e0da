"""What is known of one stream, for ``sessionizer status``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sessionizer.control.status.observation import Observation
    from sessionizer.lineage.drained import DrainRecord
    from sessionizer.stream_spec.decisions import Change

INVALID: Final = "INVALID"
"""State of a stream whose spec cannot be read."""


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """One stream: what was observed (None: its spec is invalid) and advice, if there is something wrong.

    ``changes``: where its file differs from the spec that it runs by; ``running``: a line about the batch under way, if
    it takes long; ``drain``: its sessions are closed for good.
    """

    stream: str
    seen: Observation | None
    advice: str | None
    changes: tuple[Change, ...] = ()
    running: str | None = None
    drain: DrainRecord | None = None

    @property
    def state(self) -> str:
        """The state's name."""
        return str(self.seen.state) if self.seen else INVALID

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        observed = self.seen.to_json() if self.seen else {"state": INVALID}
        changes = [asdict(change) for change in self.changes]
        drained = self.drain.to_json() if self.drain else None
        said = {"advice": self.advice, "spec_changes": changes, "drained": drained}
        return {"stream": self.stream, **observed, **said}
