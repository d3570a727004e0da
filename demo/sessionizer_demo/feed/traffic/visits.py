"""The visit of a user: a walk over the pages of the site, with a pause after each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer_demo.feed.traffic.events import LOGOUT, PURCHASE, ClickEvent

if TYPE_CHECKING:
    from random import Random

    from sessionizer_demo.feed.traffic.clients import Client

_LEAVE = "leave"
_WALK: dict[str, dict[str, float]] = {
    "home": {"search": 4, "category": 4, "account": 1, _LEAVE: 1},
    "search": {"product": 6, "search": 2, _LEAVE: 2},
    "category": {"product": 6, "category": 2, "home": 1, _LEAVE: 1},
    "product": {"cart": 2, "product": 3, "category": 2, "search": 1, _LEAVE: 2},
    "cart": {"checkout": 4, "product": 3, _LEAVE: 3},
    "checkout": {"account": 3, "home": 2, LOGOUT: 3, _LEAVE: 2},
    "account": {"home": 3, LOGOUT: 5, _LEAVE: 2},
}
"""Next pages by page, with their relative frequency."""

_BROWSING = ("home", "search", "category", "product")
_EVENT_TYPES = {"cart": "add_to_cart", "checkout": PURCHASE, LOGOUT: LOGOUT}
_SEARCH_TERMS = ("lamp", "desk", "chair", "shelf", "käse", "tea+pot", "日本")
_CATEGORIES = ("kitchen", "garden", "office", "bath", "outdoor")

_USUAL_PAUSE_MS = 4_000
_PAUSE_SPREAD = 0.9
_WANDERS_OFF = 0.02
"""Share of the pauses that exceed the timeout, after which the user begins a new session."""


@dataclass(slots=True)
class Visit:
    """A user's way through the site. ``page`` is the page of the next click."""

    user_id: str
    client: Client
    device: str
    page: str = "home"

    def click(self, ts: int, event_id: str, rng: Random) -> ClickEvent:
        """Return the click on the current page at ``ts`` (epoch ms)."""
        event_type = _EVENT_TYPES.get(self.page, "page_view")
        return ClickEvent(
            event_id=event_id,
            user_id=self.user_id,
            client=self.client.name,
            ts=ts,
            type=event_type,
            page=_path(self.page, rng),
            amount=round(rng.lognormvariate(3.5, 0.8), 2) if event_type == PURCHASE else 0.0,
            device=self.device,
            timeout_s=self.client.timeout_s if self.client.states_timeout else None,
        )

    def move_on(self, rng: Random) -> bool:
        """Go to the next page. Return False if the user has left or logged out."""
        if self.page == LOGOUT:
            return False
        choices = _WALK[self.page]
        self.page = rng.choices(tuple(choices), tuple(choices.values()))[0]
        return self.page != _LEAVE

    def pause_ms(self, rng: Random) -> float:
        """Return a random pause (ms) of the user on the page."""
        if rng.random() < _WANDERS_OFF:
            return self.client.timeout_s * 1000 * rng.uniform(1.2, 2.0)
        return 200 + rng.lognormvariate(math.log(_USUAL_PAUSE_MS), _PAUSE_SPREAD)


class NeverEndingVisit(Visit):
    """A user who only browses, never logs out and never pauses as long as the timeout."""

    def move_on(self, rng: Random) -> bool:
        """Go to a random page and return True, because this user never leaves."""
        self.page = rng.choice(_BROWSING)
        return True

    def pause_ms(self, rng: Random) -> float:
        """Return a random pause (ms), at most four fifths of the timeout."""
        return self.client.timeout_s * 1000 * rng.uniform(0.1, 0.8)


def _path(page: str, rng: Random) -> str:
    match page:
        case "home":
            return "/"
        case "search":
            return f"/search?q={rng.choice(_SEARCH_TERMS)}"
        case "category":
            return f"/category/{rng.choice(_CATEGORIES)}"
        case "product":
            return f"/product/{rng.randint(1, 5_000)}"
        case _:
            return f"/{page}"
