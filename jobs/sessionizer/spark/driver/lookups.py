"""Watches of a driver on threads of their own: answers on open sessions, and the positions in its Kafka source.

Once a minute the driver notes how far it has read of its Kafka source, and what the broker still keeps. A broker that
does not answer must not hold up the driver's watch.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from sessionizer.control.records.driver_records import (
    ANSWER_FILE,
    KEPT_MS,
    POSITIONS_FILE,
    QUESTION_FILE,
    Answer,
    PartitionPosition,
    PositionsRecord,
    Question,
    look_every_ms,
)
from sessionizer.errors import SessionizerError
from sessionizer.home.clock import MINUTE, epoch_ms, monotonic_ms
from sessionizer.home.control_store import Store, record_names
from sessionizer.redaction import redact_and_cut
from sessionizer.spark.driver.prepared_query import PreparedQuery
from sessionizer.spark.ingest.topics import oldest_offsets
from sessionizer.spark.internals.java_errors import JavaError, JavaUnreachable
from sessionizer.spark.state.contents_reader import read_sessions_of
from sessionizer.state.lineages.committed_batch import find_retained_batch
from sessionizer.stream_spec.document.source import KafkaSource


class BackgroundWork:
    """Work of one kind, one piece at a time, on a thread. An error that a piece does not handle ends only the piece."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a piece is under way."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, work: Callable[[], None]) -> None:
        """Start ``work``, unless a piece is under way."""
        if not self.is_busy:
            self._thread = threading.Thread(target=work, name=self._name, daemon=True)
            self._thread.start()

    def end(self, within_s: float) -> None:
        """Wait so long for the piece that is under way."""
        if self._thread is not None:
            self._thread.join(within_s)


EVENTS_SHOWN: Final = 100
"""Newest events of a session in an answer."""


class Lookups:
    """The answers of one driver. One question is answered at a time."""

    def __init__(self, prepared: PreparedQuery) -> None:
        self._prepared, self._home = prepared, prepared.home
        self._every_ms, self._next = look_every_ms(self._home), 0
        self._work = BackgroundWork("lookup")

    def look(self) -> None:
        """Answer a question, if there is one. Never raises."""
        if monotonic_ms() < self._next or self._work.is_busy:
            return
        self._next = monotonic_ms() + self._every_ms
        names = list[str]()
        with suppress(OSError, SessionizerError):
            names = record_names(QUESTION_FILE.folder(self._home), "*.json")
        for name in names:
            with suppress(OSError, SessionizerError):  # of one file, such as one with a name of its own
                if self._begin(name.removesuffix(".json"), epoch_ms()):
                    return

    def end(self) -> None:
        """Return when no part of it runs, because Spark must not be stopped under a job."""
        self._work.end(30.0)

    def _begin(self, name: str, now: int) -> bool:
        """Begin to answer the question of this name. Remove a file whose asker is gone."""
        if name.startswith("answer."):
            answer = ANSWER_FILE.of(self._home, name.removeprefix("answer."))
            if (found := answer.read()) is not None and now - found.at > KEPT_MS:
                Store(answer.path).remove()
            return False
        file = QUESTION_FILE.of(self._home, name)
        question = file.read()
        Store(file.path).remove()
        if question is None or now - question.at > KEPT_MS:
            return False
        self._work.start(lambda: self._answer(name, question))
        return True

    def _answer(self, name: str, question: Question) -> None:
        try:
            found = find_retained_batch(self._home)
            group, sessions = read_sessions_of(self._prepared.spark, found, question.key)
            answer = Answer(
                at=epoch_ms(),
                key=question.key,
                lineage=found.lineage,
                batch_id=found.batch_id,
                watermark_ms=found.watermark_ms,
                key_group=group,
                sessions=tuple({**session, "events": session["events"][-EVENTS_SHOWN:]} for session in sessions),
            )
        except Exception as error:  # noqa: BLE001  the answer tells it, and the stream goes on
            answer = Answer(at=epoch_ms(), key=question.key, error=redact_and_cut(str(error), 300))
        with suppress(SessionizerError, OSError):
            ANSWER_FILE.of(self._home, name).write(answer)


@dataclass(frozen=True, slots=True)
class Oldest:
    """The oldest ``offset`` that a broker kept ``at`` (epoch ms)."""

    offset: int
    at: int


def add_retention(
    partitions: Sequence[PartitionPosition], oldest: Mapping[str, int], first: Mapping[str, Oldest], now: int
) -> tuple[PartitionPosition, ...]:
    """Return the positions with the ``oldest`` offsets of ``now`` (epoch ms), and the time until events are lost.

    ``first``: the oldest offset of each partition at an earlier time. The broker deletes at the same pace from now on,
    and the stream reads nothing more.
    """

    def add(each: PartitionPosition) -> PartitionPosition:
        known, before = oldest.get(each.name), first.get(each.name)
        if known is None or before is None or known <= before.offset:
            return each if known is None else replace(each, oldest=known)
        lost_in_ms = max(0, each.offset - known) * (now - before.at) // (known - before.offset)
        return replace(each, oldest=known, lost_in_ms=lost_in_ms)

    return tuple(map(add, partitions))


class PositionsWatch:
    """The watch of one driver. It does nothing for a source that is not Kafka."""

    def __init__(self, prepared: PreparedQuery) -> None:
        self._prepared, self._next, self._work = prepared, 0, BackgroundWork("positions")
        self._first: dict[str, Oldest] = {}

    def look(self) -> None:
        """Note the positions if it is time. Never raises."""
        heartbeat, now = self._prepared.heartbeat, epoch_ms()
        if monotonic_ms() < self._next or not heartbeat.positions or self._work.is_busy:
            return
        self._next = monotonic_ms() + MINUTE
        record = PositionsRecord(
            at=now, lineage=heartbeat.beat.lineage, batch_id=heartbeat.beat.batch_id, partitions=heartbeat.positions
        )
        self._work.start(lambda: self._note(record))

    def end(self) -> None:
        """Return when no part of it runs, because Spark must not be stopped under a call."""
        self._work.end(5.0)

    def _note(self, record: PositionsRecord) -> None:
        source, oldest = self._prepared.spec.source, dict[str, int]()
        with suppress(SessionizerError, JavaError, JavaUnreachable, OSError):
            if isinstance(source, KafkaSource):
                oldest = oldest_offsets(self._prepared.spark, source, [each.name for each in record.partitions])
        partitions = add_retention(record.partitions, oldest, self._first, record.at)
        for name, offset in oldest.items():
            self._first.setdefault(name, Oldest(offset, record.at))
        with suppress(SessionizerError):
            POSITIONS_FILE.of(self._prepared.home).write(replace(record, partitions=partitions))
