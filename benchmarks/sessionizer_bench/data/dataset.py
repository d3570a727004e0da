"""The description of a data set. The same description and seed always give the same files."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Final

COLUMNS: Final = "user_id string, event_time timestamp, event_id string, data string, is_last boolean, timeout_s int"
EVENTS_PER_SESSION: Final = 11
GENERATOR_VERSION: Final = 1
"""Version of the generator. It increases if the same description gives other events, so that the cache is not used."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Sessions that begin and end at a steady pace. Times are seconds of event time.

    ``users`` take turns in starting a session. A share ``closing_share`` of the sessions ends with a closing event.
    ``timeouts_s`` are gap timeouts, of which each session gets one. Gaps inside a session are shorter.
    """

    users: int
    events_per_second: int
    mean_gap_s: float
    timeouts_s: tuple[int, ...]
    closing_share: float = 0.3
    disorder_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Dataset:
    """A prefill, then equal batches of traffic: ``warm_up_batches`` that do not count, and ``batches`` that do.

    ``history_events`` is the number of last events with which each session that is open at the start enters the
    prefill. With 0 no session is open at the start. ``background`` is the number of further users in the prefill, each
    with one session of two events that stays open for good. The first ``background_awake`` of them go on to send a
    share of the measured events. With ``sent_twice`` a batch holds half as many events, and then all of them again.
    """

    name: str
    batch_events: int
    batches: int
    traffic: Traffic
    warm_up_batches: int = 0
    history_events: int = 0
    background: int = 0
    background_awake: int = 0
    background_share: float = 0.0
    sent_twice: bool = False
    prefill_batch_events: int = 250_000
    files_per_batch: int = 2
    seed: int = 20_250_101

    @property
    def events(self) -> int:
        """Number of different events in all equal batches."""
        return self.fresh_events * (self.warm_up_batches + self.batches)

    @property
    def fresh_events(self) -> int:
        """Number of different events in one batch."""
        return self.batch_events // 2 if self.sent_twice else self.batch_events

    @property
    def folder_name(self) -> str:
        """Name of the folder in the cache: the data set's name and a hash of all it depends on."""
        described = json.dumps([GENERATOR_VERSION, asdict(self)], sort_keys=True)
        return f"{self.name}-{hashlib.sha256(described.encode()).hexdigest()[:10]}"
