"""A question to the live driver about a key's open sessions: JSON as ``control.records.lookup_record`` describes."""

from __future__ import annotations

import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sessionizer.control.records.driver_records import (
    ANSWER_FILE,
    KEY_LIMIT,
    QUESTION_FILE,
    Answer,
    Question,
    look_every_ms,
)
from sessionizer.control.status.driver_status import State
from sessionizer.control.status.read_status import read_driver
from sessionizer.errors import SessionizerError
from sessionizer.home.clock import describe_duration, epoch_ms
from sessionizer.home.control_store import Store

if TYPE_CHECKING:
    from sessionizer.home.json_record import JsonObject
    from sessionizer.home.stream_home import StreamHome

WITHIN_S: Final = 5.0
"""Seconds for which an answer is waited for after the driver's next look."""
POLL_S: Final = 0.05


def ask_driver(home: StreamHome, key: str, within_s: float = WITHIN_S) -> JsonObject | None:
    """Ask the driver for the open sessions of ``key``. None if no driver works.

    A driver that works and does not answer in time is busy: the answer has that as its error. Never raises.
    """
    if len(key) > KEY_LIMIT or not _works(home):
        return None
    number = secrets.token_hex(8)
    question, answer = QUESTION_FILE.of(home, number), ANSWER_FILE.of(home, number)
    try:
        Store(QUESTION_FILE.folder(home)).make_folder()
        question.write(Question(key=key, at=epoch_ms()))
        deadline = time.monotonic() + look_every_ms(home) / 1000 + within_s
        while time.monotonic() < deadline:
            found = answer.read()
            if found is not None:
                return found.to_json()
            time.sleep(POLL_S)
    except (SessionizerError, OSError):
        return None
    finally:
        for file in (question, answer):
            with suppress(OSError):
                Store(file.path).remove()
    waited = describe_duration(round(1000 * within_s) + look_every_ms(home))
    return Answer(at=epoch_ms(), key=key, error=f"it is busy, and gave no answer within {waited}. Ask again").to_json()


def _works(home: StreamHome) -> bool:
    try:
        return read_driver(home, epoch_ms()).state in {State.RUNNING, State.IDLE}
    except SessionizerError:
        return False
