"""The driver's answers to questions about open sessions, on a thread of its own, from the state of the newest batch."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from sessionizer.control.records.driver_records import (
    ANSWER_FILE,
    KEPT_MS,
    QUESTION_FILE,
    Answer,
    Question,
    look_every_ms,
)
from sessionizer.errors import SessionizerError
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import record_names, store_at
from sessionizer.redaction import redact_and_cut
from sessionizer.spark.driver.housekeeping.background_work import BackgroundWork
from sessionizer.spark.state.contents_reader import read_sessions_of
from sessionizer.state.lineages.retained import find_retained_batch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer.spark.driver.prepared_query import PreparedQuery

EVENTS_SHOWN: Final = 100
"""Newest events of a session in an answer."""
ERROR_SHOWN: Final = 300
ENDED_WITHIN_S: Final = 30.0


class Lookups:
    """The answers of one driver. One question is answered at a time."""

    def __init__(self, prepared: PreparedQuery) -> None:
        self._prepared, self._home = prepared, prepared.home
        self._every_ms = look_every_ms(self._home)
        self._next = 0
        self._work = BackgroundWork("lookup")

    def look(self) -> None:
        """Answer a question, if there is one. Never raises."""
        now = epoch_ms()
        if now < self._next or self._work.is_busy:
            return
        self._next = now + self._every_ms
        with suppress(OSError, SessionizerError):
            for name in record_names(QUESTION_FILE.folder(self._home), "*.json"):
                if self._begin(name.removesuffix(".json"), now):
                    return

    def end(self) -> None:
        """Return when no part of it runs, because Spark must not be stopped under a job."""
        self._work.end(ENDED_WITHIN_S)

    def _begin(self, name: str, now: int) -> bool:
        """Begin to answer the question of this name. Remove a file whose asker is gone."""
        if name.startswith("answer."):
            answer = ANSWER_FILE.of(self._home, name.removeprefix("answer."))
            found = answer.read()
            if found is not None and now - found.at > KEPT_MS:
                store_at(answer.path).remove()
            return False
        file = QUESTION_FILE.of(self._home, name)
        question = file.read()
        store_at(file.path).remove()
        if question is None or now - question.at > KEPT_MS:
            return False
        self._work.start(lambda: self._answer(name, question))
        return True

    def _answer(self, name: str, question: Question) -> None:
        with suppress(SessionizerError, OSError):
            ANSWER_FILE.of(self._home, name).write(self._find(question.key))

    def _find(self, key: str) -> Answer:
        try:
            found = find_retained_batch(self._home)
            group, sessions = read_sessions_of(self._prepared.spark, found, key)
        except Exception as error:  # noqa: BLE001  the answer tells it, and the stream goes on
            return Answer(at=epoch_ms(), key=key, error=redact_and_cut(str(error), ERROR_SHOWN))
        return Answer(
            at=epoch_ms(),
            key=key,
            lineage=found.lineage,
            batch_id=found.batch_id,
            watermark_ms=found.watermark_ms,
            key_group=group,
            sessions=tuple(map(_cut, sessions)),
        )


def _cut(session: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**session, "events": session["events"][-EVENTS_SHOWN:]}
