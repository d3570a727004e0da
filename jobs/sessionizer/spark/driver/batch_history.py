"""Batches of a driver as samples of its history: the rows that a batch wrote, and Spark's report of its commit."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sessionizer.control.history.sample import Sample
from sessionizer.control.history.straggler import GroupTime
from sessionizer.control.history.writer import HistoryWriter
from sessionizer.core.key_group.group_load import NO_LOAD
from sessionizer.core.wire import rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer.control.records.driver_records import Heartbeat
    from sessionizer.core.key_group.group_load import GroupLoad
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


def group_times(counts: BatchCounts, loads: Mapping[int, GroupLoad]) -> tuple[GroupTime, ...]:
    """Return the time of each key group in a batch, given the ``loads`` of all groups after it.

    A group may have been called twice.
    """
    took, merged = Counter[int](), set[int]()
    for group, report in counts.open_in_groups:
        took[group] += report.load.took_ms
        if report.merged:
            merged.add(group)
    return tuple(
        _group_time(loads.get(group, NO_LOAD), group, ms, merged=group in merged) for group, ms in took.items()
    )


def _group_time(load: GroupLoad, group: int, took_ms: int, *, merged: bool) -> GroupTime:
    largest: list[tuple[str | None, int]] = [*load.heaviest, (None, 0), (None, 0)]
    (key, events), (_, next_events) = largest[:2]
    # of fewer than 100 sessions the p99 is the largest one itself
    others = min(next_events, load.p99_events or 0)
    return GroupTime(group=group, took_ms=took_ms, key=key, key_events=events, others_events=others, merged=merged)
