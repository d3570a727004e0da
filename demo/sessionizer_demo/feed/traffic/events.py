"""A click as it happened, before anything went wrong with it."""

from __future__ import annotations

from dataclasses import dataclass

LOGOUT = "logout"
PURCHASE = "purchase"


@dataclass(frozen=True, slots=True)
class ClickEvent:
    """One click. ``ts`` is epoch milliseconds, ``timeout_s`` seconds; the fields are the columns of a JSON row."""

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
        """A logout ends the session."""
        return self.type == LOGOUT
