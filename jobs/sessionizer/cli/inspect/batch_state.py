"""State of a batch that a lineage still keeps, read by Spark: one key, some groups or all, as JSON and as lines."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from sessionizer.cli.inspect.words import groups_text, keys_text, moment, session_lines, size, where_line
from sessionizer.counts import count_text, state_text
from sessionizer.errors import InvalidSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from sessionizer.core.definition.rules import SessionRules
    from sessionizer.core.key_group.contents import GroupContents
    from sessionizer.spark.state.open_events import KeptState
    from sessionizer.state.lineages.committed_batch import RetainedBatch

_SUMS: Final = ("events", "keys", "sessions", "blobs", "blob_bytes", "bytes")


@dataclass(frozen=True, slots=True)
class BatchState:
    """Batch whose state Spark reads. Its results come as JSON and as lines."""

    spark: SparkSession
    found: RetainedBatch
    state: KeptState
    rules: SessionRules

    @classmethod
    def of(cls, spark: SparkSession, found: RetainedBatch) -> BatchState:
        """Describe a batch's state. Raises InvalidSpec if this release refuses the spec that the lineage ran by."""
        from sessionizer.spark.state.contents_reader import describe_kept_state, rules_of_batch  # noqa: PLC0415  fast --help

        return cls(spark, found, describe_kept_state(found), rules_of_batch(found))

    def key(self, key: str) -> tuple[dict[str, Any], list[str]]:
        """Return the open sessions of one key."""
        from sessionizer.spark.state.contents_reader import read_sessions_of  # noqa: PLC0415  fast --help

        group, sessions = read_sessions_of(self.spark, self.found, key)
        head = f"{where_line(self.found)}; watermark {moment(self.found.watermark_ms)}"
        said = f"key {key}, in key group {group}: {count_text(len(sessions), 'open session')}"
        lines = [head, said, *(line for session in sessions for line in session_lines(session))]
        return {"key": key, "key_group": group, "sessions": sessions}, lines

    def event(self, event_id: str) -> list[str]:
        """Return the keys that have an open event with this id. Reads all open events."""
        from sessionizer.core.wire import schema  # noqa: PLC0415  fast --help
        from sessionizer.spark.state.open_events import read_open_events, reading_state  # noqa: PLC0415

        with reading_state(self.spark):
            events = read_open_events(self.spark, self.state)
            rows = events.where(events[schema.EVENT_ID] == event_id).select(schema.KEY).distinct().collect()
        return sorted(str(row[0]) for row in rows)

    def groups(self, group: int | None, heaviest: int) -> tuple[dict[str, Any], list[str]]:
        """Return the contents of all key groups, or of one. Raises InvalidSpec for an unknown ``group``."""
        from sessionizer.spark.state.contents_reader import read_contents, read_timers  # noqa: PLC0415  fast --help
        from sessionizer.spark.state.open_events import reading_state  # noqa: PLC0415

        if group is not None and group >= self.state.key_groups:
            raise InvalidSpec("--group", group, f"a key group from 0 to {self.state.key_groups - 1}")
        with reading_state(self.spark):
            contents = read_contents(self.spark, self.state, self.rules, heaviest, group)
            timers = read_timers(self.spark, self.state)
        timers = {number: at for number, at in timers.items() if group in {None, number}}
        return _groups_json(contents, timers), self._group_lines(contents, timers, heaviest)

    def _group_lines(
        self, contents: Mapping[int, GroupContents], timers: Mapping[int, Sequence[int]], heaviest: int
    ) -> list[str]:
        from sessionizer.core.key_group.contents import heaviest_of  # noqa: PLC0415  fast --help

        total = {name: sum(getattr(each, name) for each in contents.values()) for name in _SUMS}
        ends = [each.first_due_ms for each in contents.values() if each.first_due_ms is not None]
        held = state_text(total["events"], total["keys"], total["sessions"])
        stored = f"{size(total['blob_bytes'])} in {total['blobs']:,} blobs, {size(total['bytes'])} decoded"
        keys = heaviest_of((key for each in contents.values() for key in each.heaviest), heaviest)
        lines = [
            where_line(self.found),
            f"  watermark   {moment(self.found.watermark_ms)}",
            f"  open        {held}, the first could end {moment(min(ends, default=None))}",
            f"  state       {stored}, in {len(contents)} of {self.state.key_groups} key groups",
            f"  timers      {sum(map(len, timers.values()))}, of {len(timers)} key groups",
        ]
        if contents:
            lines += ["", "heaviest key groups", groups_text(contents, timers, heaviest)]
            lines += ["", "heaviest keys", keys_text(keys)]
        return lines


def _groups_json(contents: Mapping[int, GroupContents], timers: Mapping[int, Sequence[int]]) -> dict[str, Any]:
    groups = [{**asdict(each), "timers": list(timers.get(each.key_group, ()))} for each in contents.values()]
    idle = {str(group): list(at) for group, at in timers.items() if group not in contents}
    return {"groups": groups, "timers_of_empty_groups": idle}
