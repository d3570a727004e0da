"""Situation of a stream at one moment, the input of a decision. Light: a few small files of the control directory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sessionizer.control.records.supervision_records import Desired, DesiredState, read_desired
from sessionizer.control.status.driver_status import DriverStatus, State, read_status
from sessionizer.control.status.unfinished_operation import UnfinishedOperation, read_unfinished
from sessionizer.control.timeouts import Timeouts
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.canary.canary_record import UnstartedLineage, examine_unstarted
from sessionizer_airflow.supervision.policy import SupervisionPolicy

NOT_WORKING: Final = frozenset({State.VANISHED, State.FAILED, State.STALLED})


@dataclass(frozen=True, kw_only=True)
class Situation:
    """Desired state of the stream, and its driver.

    ``unfinished``: the command that has the stream, unless the stream should run. ``unstarted``: the lineage, if the
    driver did not bring it to a batch and no other has since a command changed it.
    """

    desired: Desired
    driver: DriverStatus | None = None
    unfinished: UnfinishedOperation | None = None
    unstarted: UnstartedLineage | None = None

    @property
    def wanted(self) -> bool:
        """Whether the stream should run."""
        return self.desired.state is DesiredState.RUNNING


def read_situation(home: StreamHome, policy: SupervisionPolicy, now_ms: int) -> Situation:
    """Read what the stream at ``home`` is doing at ``now_ms``.

    Raises DamagedFile: the desired state or the record of a command that has the stream cannot be read, and guessing
    could start a stopped stream.
    Raises ControlUnreachable: the control directory cannot be listed.
    """
    driver = read_status(home, now_ms, Timeouts(policy.startup_grace_ms, policy.stale_limit_ms))
    desired = read_desired(home)
    is_wanted = desired.state is DesiredState.RUNNING
    return Situation(
        desired=desired,
        driver=driver if driver.uid else None,
        unfinished=None if is_wanted else read_unfinished(home, driver.owner, now_ms),
        unstarted=examine_unstarted(home) if driver.batch_id is None and driver.state in NOT_WORKING else None,
    )
