"""State of a batch that a lineage still keeps, read by Spark: one key, some groups or all, as JSON and as lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sessionizer.cli.inspect.words import groups_text, keys_text, moment, session_lines, size, table_text, where_line
from sessionizer.cli.places import Options, Stream, savepoints_folder, shares
from sessionizer.cli.terminal import working_spark
from sessionizer.core.definition.rules import SessionRules
from sessionizer.counts import count_text, state_text
from sessionizer.errors import InvalidSpec, NothingToShow, UnusableSavepoint
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import Store
from sessionizer.home.names import is_identifier
from sessionizer.state.lineages.committed_batch import CommittedBatch, find_retained_batch
from sessionizer.state.savepoints.listing import complete_savepoint, list_savepoints
from sessionizer.state.savepoints.manifest import SavepointKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.core.key_group.contents import GroupContents
    from sessionizer.home.roots import DataPath
    from sessionizer.home.stream_home import SavepointHome, StreamHome
    from sessionizer.spark.state.contents_reader import Comparison
    from sessionizer.spark.state.open_events import KeptState
    from sessionizer.state.savepoints.manifest import Manifest

    Side = CommittedBatch | tuple[SavepointHome, Manifest]


_SUMS: Final = ("events", "keys", "sessions", "blobs", "blob_bytes", "bytes")


def require_group(found: CommittedBatch, group: int | None) -> None:
    """Raise InvalidSpec for a ``group`` that the batch's state does not have."""
    key_groups = int(found.spec["key_groups"])
    if group is not None and group >= key_groups:
        raise InvalidSpec("--group", group, f"a key group from 0 to {key_groups - 1}")


@dataclass(frozen=True, slots=True)
class BatchState:
    """Batch whose state Spark reads. Its results come as JSON and as lines."""

    spark: SparkSession
    found: CommittedBatch
    state: KeptState
    rules: SessionRules

    @classmethod
    def of(cls, spark: SparkSession, found: CommittedBatch) -> BatchState:
        """Describe a batch's state. Raises InvalidSpec if this release refuses the spec that the lineage ran by."""
        from sessionizer.spark.state.contents_reader import rules_of_batch  # noqa: PLC0415  fast --help
        from sessionizer.spark.state.open_events import describe_state  # noqa: PLC0415

        return cls(spark, found, describe_state(found), rules_of_batch(found))

    def key(self, key: str) -> tuple[dict[str, Any], list[str]]:
        """Return the open sessions of one key."""
        from sessionizer.spark.state.contents_reader import read_sessions_of  # noqa: PLC0415  fast --help

        return _tell_sessions(self.found, key, *read_sessions_of(self.spark, self.found, key))

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

        require_group(self.found, group)  # a rescale may have come while Spark started
        with reading_state(self.spark):
            contents = read_contents(self.spark, self.state, self.rules, heaviest, group)
            timers = read_timers(self.spark, self.state)
        timers = {number: at for number, at in timers.items() if group in {None, number}}
        groups = [{**asdict(each), "timers": list(timers.get(each.key_group, ()))} for each in contents.values()]
        idle = {str(number): list(at) for number, at in timers.items() if number not in contents}
        return {"groups": groups, "timers_of_empty_groups": idle}, self._group_lines(contents, timers, heaviest)

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


def key_in_files(found: CommittedBatch, key: str) -> tuple[dict[str, Any], list[str]] | None:
    """Return the open sessions of one key after a batch, None if Spark is needed. Raises BatchOutrun."""
    from sessionizer.spark.state.contents_reader import read_sessions_in_files  # noqa: PLC0415  fast --help

    known = read_sessions_in_files(found, key)
    if known is None:
        return None
    found.require_unchanged()
    return _tell_sessions(found, key, *known)


def _tell_sessions(
    found: CommittedBatch, key: str, group: int, sessions: list[dict[str, Any]]
) -> tuple[dict[str, Any], list[str]]:
    head = f"{where_line(found)}; watermark {moment(found.watermark_ms)}"
    said = f"key {key}, in key group {group}: {count_text(len(sessions), 'open session')}"
    lines = [head, said, *(line for session in sessions for line in session_lines(session))]
    return {"key": key, "key_group": group, "sessions": sessions}, lines


_Which = Annotated[
    str, typer.Argument(help="A batch of the active lineage, LINEAGE or LINEAGE:BATCH, or a canonical savepoint.")
]


@shares("folder", "as_json", "home", "data", "master")
def compare(
    stream: Stream,
    before: _Which,
    now: _Which,
    at: Options,
    *,
    most: Annotated[int, typer.Option(help="Number of keys with the most differences.", min=0)] = 10,
) -> None:
    """List the open events that are only in one state, only in the other, or in both, and their keys."""
    where = at.known_home_of(stream)
    savepoints = savepoints_folder(where, at.folder)
    sides = [side_of(where, savepoints, each) for each in (before, now)]
    from sessionizer.spark.state.contents_reader import compare_states  # noqa: PLC0415  fast --help
    from sessionizer.spark.state.open_events import reading_state  # noqa: PLC0415

    line = f"starting Spark to compare two states of {stream}"
    with working_spark("state", stream, at.master, line, where.data) as spark, reading_state(spark):
        found = compare_states(open_events(spark, sides[0]), open_events(spark, sides[1]), most)
        for side in sides:
            if isinstance(side, CommittedBatch):
                side.require_unchanged()
    told = {"before": name_side(sides[0]), "now": name_side(sides[1]), **asdict(found)}
    at.show(told, _lines(sides, found))


def side_of(home: StreamHome, savepoints: DataPath, text: str) -> Side:
    """Return the batch or savepoint that a user named.

    Raises NothingToShow, UnusableSavepoint, UnreadableLineage, DamagedFile, InvalidSpec, and BatchOutrun where Spark
    removes the batch meanwhile.
    """
    if text.isdecimal():
        return find_retained_batch(home, int(text))
    lineage, _, batch = text.partition(":")
    if not is_identifier(lineage) or (batch and not batch.isdecimal()):
        raise NothingToShow(home.name, f"{text!r} is no batch, lineage or savepoint")
    if batch or Store(home.lineage(lineage).records).exists():
        return find_retained_batch(home, int(batch) if batch else None, lineage)
    known = {each.id for each in list_savepoints(savepoints, epoch_ms())}
    if lineage not in known:
        raise NothingToShow(home.name, f"it has no lineage or savepoint {lineage}")
    found, manifest = complete_savepoint(savepoints, lineage, epoch_ms())
    if manifest.kind is not SavepointKind.CANONICAL:
        raise UnusableSavepoint(lineage, f"it is {manifest.kind}, and has no tables")
    return found, manifest


def open_events(spark: SparkSession, side: Side) -> DataFrame:
    """Return the canonical rows of one side. Evaluate them in ``reading_state``."""
    from sessionizer.spark.state.open_events import read_open_events  # noqa: PLC0415
    from sessionizer.spark.state.savepoints.saved_state import saved_events  # noqa: PLC0415  fast --help

    if isinstance(side, CommittedBatch):
        return read_open_events(spark, BatchState.of(spark, side).state)
    return saved_events(spark, *side)


def name_side(side: Side) -> str:
    """Name a side, for users and programs."""
    if isinstance(side, CommittedBatch):
        return f"lineage {side.lineage}, batch {side.batch_id} of {moment(side.batch_at)}"
    return f"savepoint {side[1].id}, batch {side[1].batch_id} of {moment(side[1].batch_at)}"


def _lines(sides: list[Side], found: Comparison) -> list[str]:
    events = (found.events_only_before, found.events_only_now, found.events_in_both)
    keys = (found.keys_only_before, found.keys_only_now, found.keys_same, found.keys_changed)
    told = [["open events", *map(_number, events), ""], ["keys", *map(_number, keys)]]
    lines = [f"A  {name_side(sides[0])}", f"B  {name_side(sides[1])}"]
    lines.append(table_text(("", "only in A", "only in B", "the same", "changed"), told, left=("",)))
    if found.keys:
        rows = [[each.key, *map(_number, (each.only_before, each.only_now, each.both))] for each in found.keys]
        lines += ["keys that differ most, with their open events"]
        lines.append(table_text(("key", "only in A", "only in B", "in both"), rows, left=("key",)))
    return lines


def _number(count: int) -> str:
    return f"{count:,}"
