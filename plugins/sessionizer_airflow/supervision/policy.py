"""How patient the supervisor is. Every length of time is in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass

from sessionizer.errors import InvalidSpec

SECOND = 1_000
MINUTE = 60 * SECOND
STALE_TRIGGERS = 4
"""A driver may miss this many triggers in a row before its silence counts as a hang."""


@dataclass(frozen=True, kw_only=True)
class SupervisionPolicy:
    """When a silent driver is hung, and how often a dead one is started again.

    `startup_grace` runs from the launch to the first heartbeat of a batch: Spark takes its time to start.
    `stale_limit` runs from the newest heartbeat. A restart waits `first_backoff`, doubled at each further failure up
    to `longest_backoff`. After `restart_budget` restarts in a row the supervisor gives up; a driver that lived for
    `healthy_after` refills the budget.
    """

    startup_grace: int = 3 * MINUTE
    stale_limit: int = 2 * MINUTE
    first_backoff: int = 5 * SECOND
    longest_backoff: int = 5 * MINUTE
    restart_budget: int = 5
    healthy_after: int = 10 * MINUTE

    def __post_init__(self) -> None:
        for field in ("startup_grace", "stale_limit", "first_backoff", "longest_backoff", "healthy_after"):
            if getattr(self, field) <= 0:
                raise InvalidSpec(field, getattr(self, field), "a positive number of milliseconds")
        if self.restart_budget < 0:
            raise InvalidSpec("restart_budget", self.restart_budget, "0 or more restarts")

    def for_trigger_interval(self, interval: int) -> SupervisionPolicy:
        """The same policy with a stale limit that a driver triggered every `interval` ms cannot reach by waiting."""
        return SupervisionPolicy(
            startup_grace=self.startup_grace,
            stale_limit=max(self.stale_limit, STALE_TRIGGERS * interval),
            first_backoff=self.first_backoff,
            longest_backoff=self.longest_backoff,
            restart_budget=self.restart_budget,
            healthy_after=self.healthy_after,
        )

    def backoff(self, failures: int) -> int:
        """Ms to wait before the restart after `failures` failures in a row (1 or more)."""
        doublings = min(failures - 1, 32)
        wait: int = min(self.first_backoff * 2**doublings, self.longest_backoff)
        return wait
