"""The facts by which the health of a stream is judged, and their thresholds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sessionizer.control.timeouts import Timeouts
from sessionizer.home.clock import MINUTE

if TYPE_CHECKING:
    from sessionizer.control.history.sample import Sample
    from sessionizer.control.records.airflow_records import SupervisionRecord
    from sessionizer.control.status.driver_status import DriverStatus
    from sessionizer.control.status.unfinished_operation import UnfinishedOperation
    from sessionizer.deployment.waiting import WaitingUpgrade
    from sessionizer.lineage.active import Lineage
    from sessionizer.lineage.canary.canary_record import CanaryRecord

WINDOW_MS: Final = 15 * MINUTE
"""Milliseconds of history that the rules look at."""
ACTED_WITHIN_MS: Final = 5 * MINUTE
"""Milliseconds within which a supervisor acts on a driver that is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthFacts:
    """The facts at ``now`` (epoch ms).

    ``seen`` is None if the control directory cannot be read, and ``unseen`` says why. ``problem`` is the error of the
    spec. ``advice`` is the line of ``status``. ``samples`` are of the last ``WINDOW_MS``. ``free_bytes`` is the room on
    the fullest disk that can be seen from here. ``saved_at`` is the newest savepoint, ``history_since`` the oldest
    record of the history (epoch ms). ``draining_since`` is the beginning of a drain that is not over (epoch ms).
    ``save_every_ms`` is None for a stream without scheduled savepoints. ``paused``: Airflow's DAG of supervision is.
    ``taken_asset``: the asset of the stream that another DAG has in Airflow, empty if none. ``lineage``: the active
    one, None if the stream never ran. ``looked_at``: the last look of a supervisor (epoch ms), None if there was none.
    ``worked_at``: the last work that it saw, give or take a minute. ``watched_until``: the end of the newest watch.
    """

    name: str
    now: int
    seen: DriverStatus | None = None
    unseen: str | None = None
    problem: str | None = None
    damage: str | None = None
    is_orphan: bool = False
    supervision: SupervisionRecord | None = None
    unfinished: UnfinishedOperation | None = None
    lineage: Lineage | None = None
    canary: CanaryRecord | None = None
    canary_line: str | None = None
    is_drained: bool = False
    draining_since: int | None = None
    waiting: WaitingUpgrade | None = None
    waiting_line: str | None = None
    advice: str | None = None
    samples: tuple[Sample, ...] = ()
    free_bytes: int | None = None
    disk: str = ""
    saved_at: int | None = None
    history_since: int | None = None
    save_every_ms: int | None = None
    watermark_delay_ms: int = 0
    limits: Timeouts = field(default_factory=Timeouts)
    paused: bool = False
    taken_asset: str = ""
    looked_at: int | None = None
    worked_at: int | None = None
    watched_until: int | None = None


def has_looked(looked_at: int | None, now: int) -> bool:
    """Whether a supervisor has looked at the stream lately, at ``looked_at`` (epoch ms)."""
    return looked_at is not None and now - looked_at <= ACTED_WITHIN_MS
