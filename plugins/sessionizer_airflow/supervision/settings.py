"""How an installation sets the supervisor's patience: environment variables of Airflow's processes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.errors import InvalidSpec
from sessionizer.stream_spec.environment import duration_from, variable_of
from sessionizer_airflow.supervision.policy import DURATIONS, SupervisionPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULTS = {
    "SESSIONIZER_WATCH_LEASE": "4 hours",
    "SESSIONIZER_WATCH_GRACE": "10 minutes",
    "SESSIONIZER_LANDING_INTERVAL": "1 minute",
    "SESSIONIZER_REPORT_INTERVAL": "5 minutes",
    "SESSIONIZER_REPORT_POOL": "default_pool",
}


@dataclass(frozen=True, kw_only=True)
class SupervisionSettings:
    """`watch_lease` is how long (ms) one run of the supervising DAG watches; the next run then takes over.

    `watch_grace` (ms): a run that outlives its lease by so much has not been looked after. `landing_interval` (ms) is
    the shortest time between two events that say that sessions have landed, `report_interval` (ms) that between two
    reports of a stream. Reports take their slots from `report_pool`, which must exist in Airflow.
    """

    policy: SupervisionPolicy
    watch_lease: int
    watch_grace: int
    landing_interval: int
    report_interval: int
    report_pool: str

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> SupervisionSettings:
        """`SESSIONIZER_STALE_LIMIT="5 minutes"` and so on; `SESSIONIZER_RESTART_BUDGET=10`.

        :raises InvalidSpec: a variable that is not a duration or a number.
        """
        given = {name: duration_from(environment, name) for name in DURATIONS if variable_of(name) in environment}
        if variable_of("restart_budget") in environment:
            given["restart_budget"] = _number(environment, "restart_budget")
        complete = {**DEFAULTS, **environment}
        return cls(
            policy=SupervisionPolicy(**given),
            watch_lease=duration_from(complete, "watch_lease"),
            watch_grace=duration_from(complete, "watch_grace"),
            landing_interval=duration_from(complete, "landing_interval"),
            report_interval=duration_from(complete, "report_interval"),
            report_pool=complete[variable_of("report_pool")],
        )


def _number(environment: Mapping[str, str], name: str) -> int:
    try:
        return int(environment[variable_of(name)])
    except ValueError as error:
        raise InvalidSpec(variable_of(name), environment[variable_of(name)], "a whole number") from error
