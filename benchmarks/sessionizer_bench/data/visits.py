"""Visits as whole columns of users and times of events. Times are epoch milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from sessionizer_bench.data.dataset import EVENTS_PER_SESSION

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sessionizer_bench.data.dataset import Dataset, Traffic

START_MS: Final = 1_735_689_600_000
"""Time of the first measured event, 2025-01-01 UTC. It is past, because the guard refuses events of the future."""

BACKGROUND_TIMEOUT_S: Final = 24 * 3600
_BACKGROUND_SPAN_MS: Final = 600_000
_LONGEST_LIFE: Final = 3
"""Number of mean lives after which a session is over."""


@dataclass(frozen=True, slots=True)
class Visits:
    """Events as columns. Ordinary and background users are both numbered from 0, ``background`` tells them apart."""

    user: NDArray[np.int64]
    at_ms: NDArray[np.int64]
    is_last: NDArray[np.bool_]
    timeout_s: NDArray[np.int32]
    background: NDArray[np.bool_]

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Visits:
        """Return the given rows."""
        return Visits(**{name: getattr(self, name)[rows] for name in self.__slots__})

    def and_then(self, other: Visits) -> Visits:
        """Return these events followed by the other ones."""
        return Visits(**{name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in self.__slots__})

    def __len__(self) -> int:
        return len(self.user)


def ordinary(rng: np.random.Generator, traffic: Traffic, span_ms: int) -> tuple[Visits, NDArray[np.int64]]:
    """Return the events, in order, of all sessions alive in ``span_ms`` from START_MS, and each event's session."""
    life_ms = (EVENTS_PER_SESSION - 1) * traffic.mean_gap_s * 1000 + max(traffic.timeouts_s) * 1000
    lead_ms = int(_LONGEST_LIFE * life_ms)
    per_ms = traffic.events_per_second / EVENTS_PER_SESSION / 1000
    sessions = int(per_ms * (lead_ms + span_ms))
    starts = np.sort(rng.integers(START_MS - lead_ms, START_MS + span_ms, sessions))
    length = 1 + rng.poisson(EVENTS_PER_SESSION - 1, sessions)
    session = np.repeat(np.arange(sessions), length)
    timeout_s = rng.choice(np.array(traffic.timeouts_s, np.int32), sessions)
    gaps = rng.exponential(traffic.mean_gap_s * 1000, len(session))
    gaps = np.minimum(gaps, 800.0 * timeout_s[session]).astype(np.int64)
    first = np.concatenate([[0], np.cumsum(length)[:-1]])
    gaps[first] = 0
    elapsed = np.cumsum(gaps)
    is_last = np.zeros(len(session), bool)
    is_last[(first + length - 1)[rng.random(sessions) < traffic.closing_share]] = True
    visits = Visits(
        user=rng.permutation(traffic.users)[np.arange(sessions) % traffic.users][session],
        at_ms=starts[session] + elapsed - elapsed[first][session],
        is_last=is_last,
        timeout_s=timeout_s[session],
        background=np.zeros(len(session), bool),
    )
    return visits, session


def history(visits: Visits, session: NDArray[np.int64], events: int) -> Visits:
    """Return the last ``events`` before START_MS of each session that is open then."""
    past = np.flatnonzero(visits.at_ms < START_MS)
    owner = session[past]
    newest = past[np.append(np.flatnonzero(np.diff(owner)), len(owner) - 1)]
    still_open = ~visits.is_last[newest] & (visits.at_ms[newest] + visits.timeout_s[newest] * 1000 > START_MS)
    rows = newest[still_open][:, None] - np.arange(events)
    same_session = (rows >= 0) & (session[rows] == session[newest[still_open]][:, None])
    return visits.take(np.sort(rows[same_session]))


def background_prefill(rng: np.random.Generator, users: int) -> Visits:
    """Return two events of each background user, in the ten minutes before START_MS."""
    user = np.tile(np.arange(users), 2)
    return _background(user, START_MS - rng.integers(1, _BACKGROUND_SPAN_MS, len(user)))


def background_traffic(rng: np.random.Generator, dataset: Dataset, span_ms: int) -> Visits:
    """Return the measured events of the background users that go on sending."""
    count = int(dataset.events * dataset.background_share)
    user = rng.integers(0, max(dataset.background_awake, 1), count)
    return _background(user, START_MS + rng.integers(0, span_ms, count))


def _background(user: NDArray[np.int64], at_ms: NDArray[np.int64]) -> Visits:
    timeout_s = np.full(len(user), BACKGROUND_TIMEOUT_S, np.int32)
    return Visits(user, at_ms, np.zeros(len(user), bool), timeout_s, np.ones(len(user), bool))
