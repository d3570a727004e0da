"""Plan of a stream that resumes without the events that its source has lost, as data (docs/adr/0128).

The digest covers each loss by name. If the source loses more while the user reads the plan, a new approval is needed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from sessionizer.control.plan_changes import DigestOfDecided
from sessionizer.lineage.canary.judge import USUAL, digest_terms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sessionizer.lineage.canary.judge import CanaryTerms

_LISTED: Final = 20
"""Number of losses that are named one by one in the plan's text."""


@dataclass(frozen=True, slots=True)
class LossPlan(DigestOfDecided):
    """A decision: ``stream`` leaves ``lineage`` after ``batch_id`` and resumes without the ``lost`` events.

    It goes on by the spec of a ``fingerprint``. ``begins``: the position in the source, as text.
    """

    stream: str
    lineage: str
    batch_id: int
    fingerprint: str
    lost: tuple[str, ...]
    begins: str
    canary: CanaryTerms | None = USUAL

    @property
    def decided(self) -> Mapping[str, Any]:
        """Fields that the digest covers."""
        decided = ("stream", "lineage", "fingerprint", "lost")
        chosen = {name: value for name, value in asdict(self).items() if name in decided}
        return {**chosen, **digest_terms(self.canary)}

    def to_json(self) -> dict[str, Any]:
        """Return the plan for programs."""
        return {**asdict(self), "digest": self.digest}

    def lines(self) -> Iterator[str]:
        """Yield the plan as text, line by line."""
        yield f"stream {self.stream} continues with its source, without the events that are gone"
        for each in self.lost[:_LISTED]:
            yield f"  lost  {each}"
        if len(self.lost) > _LISTED:
            yield f"  lost  {len(self.lost) - _LISTED:,} more (--json has them all)"
        yield f"  from  lineage {self.lineage}, after batch {self.batch_id}. It is kept"
        yield "  to    a new lineage with every open session"
        yield f"        it reads its source from {self.begins}"
        yield "  no table is changed, and no session is closed"
