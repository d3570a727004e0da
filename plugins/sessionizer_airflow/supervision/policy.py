"""Time limits and restart budget of the supervisor, and their settings. Every length of time is in milliseconds."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

from sessionizer.control.timeouts import STALE_AFTER_MS, STALE_ALERT_MS, STARTUP_GRACE_MS, TAKEOVER_AFTER_MS
from sessionizer.errors import InvalidSpec
from sessionizer.home.clock import MINUTE, SECOND
from sessionizer.stream_spec.document.names import duration_from, variable_of


@dataclass(frozen=True, kw_only=True)
class SupervisionPolicy:
    """Limits that say when a silent driver is hung, and how often a dead one is restarted.

    ``startup_grace_ms`` runs from the launch, then from the lease and from each step of the start. It ends with the
    next such step or the first progress of a batch. ``stale_limit_ms`` runs from the newest heartbeat, and from the
    newest sign of progress. A driver whose process cannot be seen from here counts as gone after ``takeover_after_ms``
    of silence.

    A restart waits ``first_backoff_ms``, doubled at each further failure up to ``longest_backoff_ms``. After
    ``restart_budget`` restarts in a row the supervisor gives up. A driver that lived for ``healthy_after_ms`` refills
    the budget. Transient causes use none of it up.

    A command is stuck that no process carries out for ``stale_alert_ms``. Users are alerted of a transient cause that
    has kept a stream down for ``waiting_alert_ms``.
    """

    startup_grace_ms: int = STARTUP_GRACE_MS
    stale_limit_ms: int = STALE_AFTER_MS
    first_backoff_ms: int = 5 * SECOND
    longest_backoff_ms: int = 5 * MINUTE
    restart_budget: int = 5
    healthy_after_ms: int = 10 * MINUTE
    stale_alert_ms: int = STALE_ALERT_MS
    waiting_alert_ms: int = 2 * MINUTE
    takeover_after_ms: int = TAKEOVER_AFTER_MS

    def __post_init__(self) -> None:
        for field in DURATIONS:
            if getattr(self, field) <= 0:
                raise InvalidSpec(field, getattr(self, field), "a positive number of milliseconds")
        if self.restart_budget < 0:
            raise InvalidSpec("restart_budget", self.restart_budget, "0 or more restarts")

    @property
    def unattended_after_ms(self) -> int:
        """Ms that a command without a process is left to Airflow's own retry."""
        return max(self.stale_alert_ms, 2 * self.stale_limit_ms)

    def backoff(self, failures: int) -> int:
        """Return the ms to wait before the restart after ``failures`` failures in a row (1 or more)."""
        return min(self.first_backoff_ms << min(failures - 1, 32), self.longest_backoff_ms)


DURATIONS = tuple(each.name for each in fields(SupervisionPolicy) if each.name.endswith("_ms"))
"""Fields that are lengths of time."""
DEFAULTS = {
    "SESSIONIZER_WATCH_LEASE": "4 hours",
    "SESSIONIZER_WATCH_GRACE": "10 minutes",
    "SESSIONIZER_LANDING_INTERVAL": "1 minute",
    "SESSIONIZER_REPORT_INTERVAL": "5 minutes",
    "SESSIONIZER_REPORT_POOL": "default_pool",
    "SESSIONIZER_COMMAND_POOL": "default_pool",
}


@dataclass(frozen=True, kw_only=True)
class SupervisionSettings:
    """Settings of an installation. ``watch_lease_ms`` is the length of one run of the supervising DAG.

    The next run then takes over. A run that outlives its lease by ``watch_grace_ms`` is overdue.
    ``landing_interval_ms`` is the shortest time between two events that sessions have landed. ``report_interval_ms`` is
    the shortest time between two reports of a stream. Reports and scheduled jobs take their slots from ``report_pool``,
    commands of users from ``command_pool``. Both must exist in Airflow.
    """

    policy: SupervisionPolicy
    watch_lease_ms: int
    watch_grace_ms: int
    landing_interval_ms: int
    report_interval_ms: int
    report_pool: str
    command_pool: str

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Read the settings, such as ``SESSIONIZER_STALE_LIMIT="5 minutes"``. Raises InvalidSpec."""
        named = {field: field.removesuffix("_ms") for field in DURATIONS}
        given = {
            field: duration_from(environment, name) for field, name in named.items() if variable_of(name) in environment
        }
        if variable_of("restart_budget") in environment:
            text = environment[variable_of("restart_budget")]
            try:
                given["restart_budget"] = int(text)
            except ValueError as error:
                raise InvalidSpec(variable_of("restart_budget"), text, "a whole number") from error
        complete = {**DEFAULTS, **environment}
        return cls(
            policy=SupervisionPolicy(**given),
            watch_lease_ms=duration_from(complete, "watch_lease"),
            watch_grace_ms=duration_from(complete, "watch_grace"),
            landing_interval_ms=duration_from(complete, "landing_interval"),
            report_interval_ms=duration_from(complete, "report_interval"),
            report_pool=complete[variable_of("report_pool")],
            command_pool=complete[variable_of("command_pool")],
        )
