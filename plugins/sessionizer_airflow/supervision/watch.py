"""Look at a stream while it has no worker, to find whether it needs one."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.control.records.supervision_records import SUPERVISION_FILE, SupervisionRecord
from sessionizer.control.status.driver_status import State
from sessionizer.errors import SessionizerError
from sessionizer.home.clock import epoch_ms
from sessionizer_airflow.supervision.decide import Action, Adopt, StandBy, Wait, decide, read_situation
from sessionizer_airflow.supervision.failures import failure_of, is_due_to_tell, is_known
from sessionizer_airflow.supervision.tell import describe, level_of, milestone, subject

if TYPE_CHECKING:
    from sessionizer.control.status.driver_status import DriverStatus
    from sessionizer.home.stream_home import StreamHome
    from sessionizer_airflow.supervision.decide import Situation
    from sessionizer_airflow.supervision.policy import SupervisionPolicy


@dataclass(frozen=True)
class Look:
    """Result of a look: ``line`` for users, ``about`` to tell whether it is news, ``call`` when a worker has to act.

    ``level`` is INFO for a line that a worker is about to log itself.
    """

    about: tuple[str, ...]
    line: str
    call: bool
    level: int = logging.INFO


def look_at(home: StreamHome, policy: SupervisionPolicy, unwritten: SupervisionRecord | None = None) -> Look:
    """Look at the stream. Never raises, because a worker reports an unreadable file.

    ``unwritten`` is the newest record, if it could not be written. It has the time of the next action.
    """
    now_ms = epoch_ms()
    record = unwritten or SUPERVISION_FILE.of(home).read() or SupervisionRecord()
    try:
        situation = read_situation(home, policy, now_ms)
    except SessionizerError as error:
        call = unwritten is None or now_ms >= unwritten.restart_at
        return Look(("unreadable",), str(error), call, logging.WARNING)
    decision = decide(situation, record, policy, now_ms)
    call = _needs_worker(decision, situation, record, policy, now_ms)
    call = call or is_due_to_tell(record, policy, situation.desired.at, now_ms)
    level = logging.INFO if call else level_of(decision)
    about = (*subject(decision), *milestone(situation, now_ms))
    return Look(about, describe(decision, situation, now_ms), call, level)


def _needs_worker(
    decision: Action, situation: Situation, record: SupervisionRecord, policy: SupervisionPolicy, now_ms: int
) -> bool:
    driver = situation.driver
    match decision:
        case Adopt():
            return record.waiting_since is not None and driver is not None and driver.works
        case Wait():
            # Each look would date an unrecorded failure anew, and the wait would never end.
            failure = failure_of(driver)
            if driver is not None and driver.state is State.STALLED and driver.out_of_sight is not None:
                return _is_to_be_noted(driver, record, policy, now_ms)
            return failure is not None and not is_known(record, failure) and failure.uid != record.settled_uid
        case StandBy(stop=stop):
            return stop is not None
        case _:
            return True


def _is_to_be_noted(driver: DriverStatus, record: SupervisionRecord, policy: SupervisionPolicy, now_ms: int) -> bool:
    """Whether to record the newest sign of an unseen driver. Not each sign is recorded while it still beats."""
    if record.unseen_beat == driver.heard_ms:
        return False
    return record.unseen_since is None or now_ms - record.unseen_since > policy.takeover_after_ms
