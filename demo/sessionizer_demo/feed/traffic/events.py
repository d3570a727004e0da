"""A user's click, before the feed makes a fault in it."""

from __future__ import annotations

from dataclasses import dataclass

LOGOUT = "logout"
PURCHASE = "purchase"


@dataclass(frozen=True, slots=True)
class ClickEvent:
    """A click, with the columns of a JSON row as fields. ``ts`` is in epoch ms, ``timeout_s`` in seconds."""

    event_id: str
    user_id: str
    client: str
    ts: int
    type: str
    page: str
    amount: float
    device: str
    timeout_s: int | None

    @property
    def closes(self) -> bool:
        """Whether the click ends its session, as a logout does."""
        return self.type == LOGOUT
