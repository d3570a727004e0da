"""What is open in a key group after a batch, as the group tells the driver."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class OpenInGroup:
    """``sessions`` are open, the last of them is out when the clock is at ``latest_due_ms`` (epoch ms; None: never).

    A group that merged tells of all that is open. One that did not (``merged`` false) has not read its state: it tells
    of what came, the ``sessions`` being that many keys. ``admitted``: events that came; ``held_bytes``: of open events.
    """

    sessions: int
    latest_due_ms: int | None
    held_bytes: int
    admitted: int
    merged: bool

    def as_dict(self) -> dict[str, int | bool | None]:
        """Its fields."""
        return asdict(self)

    def to_json(self) -> bytes:
        """For the row that is emitted."""
        return json.dumps(self.as_dict()).encode()

    @classmethod
    def from_json(cls, text: bytes) -> OpenInGroup:
        """What ``to_json`` wrote."""
        return cls(**json.loads(text))

    def after(self, before: OpenInGroup) -> OpenInGroup:
        """All that is open in a group that stood at ``before``. Where nothing was merged that is at most so much."""
        if self.merged:
            return self
        return OpenInGroup(
            sessions=before.sessions + self.sessions,
            latest_due_ms=latest(before.latest_due_ms, self.latest_due_ms),
            held_bytes=before.held_bytes + self.held_bytes,
            admitted=self.admitted,
            merged=False,
        )


NOTHING_OPEN = OpenInGroup(sessions=0, latest_due_ms=None, held_bytes=0, admitted=0, merged=True)


def latest(*instants: int | None) -> int | None:
    """The last of those that ever come."""
    return max((at for at in instants if at is not None), default=None)
