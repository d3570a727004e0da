"""One look at a stream while nobody holds a worker for it: whether it may be left alone."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.control.clock import epoch_ms
from sessionizer.errors import SessionizerError
from sessionizer_airflow.supervision.decide import decide, failed
from sessionizer_airflow.supervision.decisions import Adopt, Decision, StandBy, Wait
from sessionizer_airflow.supervision.history import History, read_history
from sessionizer_airflow.supervision.levels import level_of
from sessionizer_airflow.supervision.reading import read_situation
from sessionizer_airflow.supervision.wording import describe, subject

if TYPE_CHECKING:
    from sessionizer.control.stream_home import StreamHome
    from sessionizer_airflow.supervision.policy import SupervisionPolicy
    from sessionizer_airflow.supervision.situation import Situation


@dataclass(frozen=True)
class Look:
    """What was seen: `line` for people, `about` to tell whether it is news, `call` when a worker has to act.

    `level` is INFO for what a worker is about to say itself.
    """

    about: tuple[str, ...]
    line: str
    call: bool
    level: int = logging.INFO


def look_at(home: StreamHome, policy: SupervisionPolicy) -> Look:
    """See how the stream does; never raises, for what cannot be read is a worker's business to report."""
    now_ms = epoch_ms()
    try:
        situation, history = read_situation(home, policy, now_ms), read_history(home)
    except SessionizerError as error:
        return Look(("unreadable",), str(error), call=True)
    decision = decide(situation, history, policy, now_ms)
    call = _needs_hands(decision, situation, history)
    level = logging.INFO if call else level_of(decision)
    return Look(subject(decision), describe(decision, situation, now_ms), call, level)


def _needs_hands(decision: Decision, situation: Situation, history: History) -> bool:
    match decision:
        case Adopt():
            return False
        case Wait():
            # A failure that is not on record yet would be dated anew by each look: the wait would never end.
            driver = situation.driver
            return failed(driver) and driver is not None and driver.uid != history.charged_uid
        case StandBy(_, drain):
            return drain is not None
        case _:
            return True
