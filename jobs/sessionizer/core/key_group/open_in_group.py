"""A key group's report to the driver about its open sessions after a batch."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace

from sessionizer.core.key_group.group_load import NO_LOAD, GroupLoad


@dataclass(frozen=True, slots=True)
class OpenInGroup:
    """The open ``sessions`` of a key group, and the clock ``latest_due_ms`` at which the last is emitted.

    ``latest_due_ms`` is in epoch ms, None for never. ``admitted`` counts the events of the batch. ``held_bytes`` is the
    size of the stored events, with finished ones that no merge has removed yet. A group that merged reports all open
    sessions. A group that did not (``merged`` false) has not read its state: it reports only the new events, and
    ``sessions`` is the number of their keys. ``load`` is for users only, and no record keeps it.
    """

    sessions: int
    latest_due_ms: int | None
    held_bytes: int
    admitted: int
    merged: bool
    load: GroupLoad = field(default=NO_LOAD, compare=False)

    def as_dict(self) -> dict[str, int | bool | None]:
        """Return the fields by name, without ``load``."""
        return {name: value for name, value in asdict(self).items() if name != "load"}

    def to_json(self) -> bytes:
        """Encode the fields for the row that is emitted."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, text: bytes) -> OpenInGroup:
        """Decode the text that ``to_json`` wrote."""
        told = json.loads(text)
        return cls(**{**told, "load": GroupLoad.parse(told["load"])})

    def taking(self, ms: int) -> OpenInGroup:
        """Return the report of a group that took ``ms`` in the batch."""
        return replace(self, load=replace(self.load, took_ms=ms))

    def combine(self, before: OpenInGroup) -> OpenInGroup:
        """Return the report on all open sessions of a group, given its report ``before``.

        If the group did not merge, the numbers are upper bounds.
        """
        if self.merged:
            return self
        return OpenInGroup(
            sessions=before.sessions + self.sessions,
            latest_due_ms=latest(before.latest_due_ms, self.latest_due_ms),
            held_bytes=before.held_bytes + self.held_bytes,
            admitted=self.admitted,
            merged=False,
            load=before.load,
        )


NOTHING_OPEN = OpenInGroup(sessions=0, latest_due_ms=None, held_bytes=0, admitted=0, merged=True)


def latest(*instants: int | None) -> int | None:
    """Return the latest of ``instants``, where None means never, or None if there is none."""
    return max((at for at in instants if at is not None), default=None)
