"""All users at once: users who are due click, and new visitors make up the rest of the rate."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from sessionizer_demo.feed.traffic.visits import NeverEndingVisit, Visit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from sessionizer_demo.feed.traffic.clients import Client
    from sessionizer_demo.feed.traffic.events import ClickEvent

NEVER_ENDING_USER = "never-ending"

_RETURNING = 0.3
"""Share of the visits by a user who was on the site before."""
_REMEMBERED_USERS = 2_000
_DEVICES = ("desktop", "mobile", "tablet")


class Crowd:
    """The users on the site. Their number follows from the rate at which the caller asks for clicks."""

    def __init__(self, clients: Sequence[Client], rng: Random) -> None:
        self._clients, self._rng = clients, rng
        self._due: list[tuple[float, int, Visit]] = []
        self._visits = 0
        self._users = 0
        self._gone: deque[Visit] = deque(maxlen=_REMEMBERED_USERS)

    def click(self, now_ms: float) -> ClickEvent:
        """Return the click at ``now_ms`` (epoch ms), by the user who waits longest, else by a new visitor."""
        visit = self._longest_waiting(now_ms) or self._arrival()
        event = visit.click(int(now_ms), new_event_id(self._rng), self._rng)
        if visit.move_on(self._rng):
            self._visits += 1
            heapq.heappush(self._due, (now_ms + visit.pause_ms(self._rng), self._visits, visit))
        else:
            self._gone.append(visit)
        return event

    def _longest_waiting(self, now_ms: float) -> Visit | None:
        if self._due and self._due[0][0] <= now_ms:
            return heapq.heappop(self._due)[2]
        return None

    def _arrival(self) -> Visit:
        if self._gone and self._rng.random() < _RETURNING:
            before = self._gone.popleft()
            return Visit(before.user_id, before.client, before.device)
        self._users += 1
        client = self._rng.choices(self._clients, [client.share for client in self._clients])[0]
        return Visit(f"{client.name}-{self._users:06d}", client, self._rng.choice(_DEVICES))


class NeverEndingUser:
    """The user whose session no pause and no logout ends. ``due_ms`` (epoch ms) is the time of the next click."""

    def __init__(self, client: Client, begins_ms: float, rng: Random) -> None:
        # The events carry the timeout, so the session stays open whatever timeout a stream spec sets for the client.
        self._visit = NeverEndingVisit(NEVER_ENDING_USER, replace(client, states_timeout=True), "desktop")
        self._rng = rng
        self.due_ms = begins_ms

    def click(self) -> ClickEvent:
        """Return the click at ``due_ms``. The next click is then due before the timeout."""
        event = self._visit.click(int(self.due_ms), new_event_id(self._rng), self._rng)
        self._visit.move_on(self._rng)
        self.due_ms += self._visit.pause_ms(self._rng)
        return event


def new_event_id(rng: Random) -> str:
    """Return a random id of 32 hexadecimal digits."""
    return f"{rng.getrandbits(128):032x}"
