"""A person's word that a lineage is good enough, whatever its trial found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionizer.control.records.operation_record import require_no_operation
from sessionizer.lineage.trial.judging import Outcome
from sessionizer.lineage.trial.trial_record import trial_of_active, write_trial

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome

_SETTLED: Final = {Outcome.PASSED, Outcome.ACCEPTED}


def accepted(home: StreamHome, by: str) -> str:
    """What has been done, for people: the trial of the active lineage is over, and speaks for it.

    A driver that runs takes it from its next batch on. Raises OperationPending where a rollback was begun, DamagedFile.
    """
    require_no_operation(home)
    trial = trial_of_active(home)
    if trial is None:
        return f"the lineage of stream {home.name} is on no trial: there is nothing to accept"
    if trial.outcome in _SETTLED:
        return f"lineage {trial.lineage} of stream {home.name} has {trial.outcome} already: there is nothing to accept"
    write_trial(home, trial.decided(Outcome.ACCEPTED, trial.course.reason, by))
    return f"stream {home.name} goes on with lineage {trial.lineage}, accepted by {by}"
