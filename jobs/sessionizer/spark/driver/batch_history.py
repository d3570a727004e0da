"""Batches of a driver as samples of its history: the rows that a batch wrote, and Spark's report of its commit."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sessionizer.control.history.sample import Sample
from sessionizer.control.history.straggler import GroupTime
from sessionizer.control.history.writer import HistoryWriter
from sessionizer.core.wire import rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer.control.records.heartbeat import Heartbeat
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.lineage.open_sessions import OpenSessions
    from sessionizer.spark.sinks.write import BatchCounts

_PLANNING: Final = ("latestOffset", "getOffset", "getBatch", "queryPlanning", "walCommit")
_COMMITTING: Final = ("commitOffsets", "commitBatch")
"""Names of Spark's durations that make up a phase of our history."""


class BatchHistory(HistoryWriter):
    """A writer that makes one sample of each batch, from its figures before and after the commit."""

    def __init__(self, home: StreamHome) -> None:
        super().__init__(home)
        self._written: Sample | None = None
        """The batch that was written and whose commit Spark has not reported yet."""
        self._ended_at: int | None = None
        """End of the last batch (epoch ms)."""

    def note_written(self, counts: BatchCounts, open_sessions: OpenSessions) -> None:
        """Keep the figures of a batch whose tables are written, until its commit."""
        (heaviest, held), load = open_sessions.heaviest, open_sessions.load
        key, _, key_events = load.heaviest[0] if load.heaviest else (None, None, None)
        self._written = Sample(
            at=0,
            phases={"evaluate": counts.evaluated_ms, "write": counts.written_ms},
            open=open_sessions.total,
            sessions=counts[rows.SESSIONS],
            late=counts[rows.LATE],
            refused=counts[rows.QUARANTINE],
            group=heaviest,
            group_bytes=held,
            group_p99_bytes=load.group_p99_bytes,
            closed=counts.closed,
            key=key,
            key_events=key_events,
            key_p99_events=load.p99_events,
        )

    def add_committed(self, beat: Heartbeat, spark_ms: Mapping[str, int]) -> None:
        """Add the batch that the ``beat`` tells of. ``spark_ms`` are Spark's own durations."""
        written = self._written or Sample(at=0)
        ended_at, self._written, self._ended_at = self._ended_at, None, beat.at
        batch_ms = beat.batch_ms or 0
        phases = {
            "plan": sum(spark_ms.get(name, 0) for name in _PLANNING),
            "commit": sum(spark_ms.get(name, 0) for name in _COMMITTING),
        }
        batch = replace(
            written,
            at=beat.at,
            lineage=beat.lineage,
            batch_id=beat.batch_id,
            batches=1,
            rows=beat.input_rows or 0,
            batch_ms=batch_ms,
            longest_ms=batch_ms,
            waited_ms=0 if ended_at is None else max(0, beat.at - batch_ms - ended_at),
            straggler=beat.straggler.label if beat.straggler else None,
            phases={**written.phases, **phases},
            lag_ms=beat.watermark_lag_ms,
            source_lag=beat.source_lag,
            watermark_ms=beat.watermark_ms,
            state_bytes=beat.state_bytes,
        )
        self.add(batch)


def group_times(counts: BatchCounts) -> tuple[GroupTime, ...]:
    """Return the time of each key group in a batch. A group may have been called twice."""
    took = Counter[int]()
    loads = {}
    for group, open_in_group in counts.open_in_groups:
        took[group] += open_in_group.load.took_ms
        loads[group] = open_in_group.load
    return tuple(
        GroupTime(
            group=group,
            took_ms=took[group],
            key=load.heaviest[0][0] if load.heaviest else None,
            key_events=load.heaviest[0][1] if load.heaviest else 0,
            key_p99_events=load.p99_events or 0,
        )
        for group, load in loads.items()
    )
