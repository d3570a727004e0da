"""Maker of a canonical savepoint of a committed batch, step by step. The stream is not touched, and may run on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sessionizer.checkpoint.log_entries import PARTITIONS
from sessionizer.core.wire.erased_keys import ErasedKeys
from sessionizer.core.wire.schema import CLIENT
from sessionizer.home.data_files import remove_tree
from sessionizer.home.roots import uri_of
from sessionizer.home.stream_home import GROUP_LOGS, OPEN_EVENTS, SEEN_FILES, TIMEOUTS, SavepointHome, StreamHome
from sessionizer.lineage.fingerprint import JAVA
from sessionizer.lineage.kept_spec import SPEC_FILE
from sessionizer.spark.query.assembly import rules_of
from sessionizer.spark.session import jvm_version
from sessionizer.spark.sinks.write import few_blobs_at_a_time
from sessionizer.spark.state.open_events import (
    KeptState,
    count_erased_in_logs,
    describe_state,
    drop_erased_events,
    drop_erased_from_logs,
    number_groups,
    open_events_of,
    read_state_timeouts,
    reading_state,
    whole_logs,
)
from sessionizer.spark.state.savepoints.saved_state import (
    Held,
    count_logs,
    count_state_logs,
    has_table,
    read_saved_logs,
    saved_timeouts,
    savepoint_table,
    sum_counts,
)
from sessionizer.state.lineages.committed_batch import CommittedBatch, require_unchanged
from sessionizer.state.savepoints.listing import UseMark, write_data_record
from sessionizer.state.savepoints.manifest import (
    Manifest,
    SavepointKind,
    read_manifest,
    read_saved_spec,
    write_manifest,
)
from sessionizer.state.savepoints.savepoint_writer import SavepointRequest, SavepointWriter
from sessionizer.state.savepoints.verification import data_files
from sessionizer.stream_spec.spec_folder import parse_recorded_spec

_READ_WHOLE: Final = {"delta.dataSkippingNumIndexedCols": "0"}
"""Table property that turns statistics off.

Readers do not search by values, and statistics take a third of the time.
"""
_FILES_PER_TABLE: Final = 64
"""Largest number of files of a table. A savepoint is read whole, and fewer files mean fewer requests."""
_ANEW: Final = "e"
"""End of the id of a savepoint that was written anew after an erasure."""


def make_savepoint(
    spark: SparkSession,
    stream: StreamHome,
    committed: CommittedBatch,
    asked: SavepointRequest,
    after: Callable[[str], None],
) -> Manifest:
    """Make the requested savepoint, or return the one that is complete already under its id.

    ``after`` is called with each step that is over. Raises BatchOutrun, UnusableSavepoint while another process makes
    it, UnwritablePath, DiskFull and Spark's errors. All of that is noted in the savepoint, which is failed then.
    """
    writer = SavepointWriter.of(stream, committed, asked, after)
    done = writer.begin()
    if done is not None:
        return done
    with writer.noting_failure():
        tables = _Tables(spark, writer)
        state = describe_state(stream, committed)
        held, timeouts = tables.write_state(state)
        require_unchanged(stream, committed)  # from here on the checkpoint may lose the batch
        after("state")
        if asked.with_rows:
            tables.write_open_events(state)
            after("open events")
        tables.write_seen_files()
        after("seen files")
        counts = held.counts(timeouts, len(committed.seen_files))
        return writer.complete(SavepointKind.CANONICAL, counts, held.earliest_due_ms, {JAVA: jvm_version(spark)})


@dataclass(frozen=True, slots=True)
class _Tables:
    """The tables of a savepoint that is being made."""

    spark: SparkSession
    target: SavepointWriter

    def write_state(self, state: KeptState) -> tuple[Held, int]:
        """Write the logs of the key groups and the clients' changed timeouts.

        Returns the counts of the logs, and the number of timeouts.
        """
        committed = self.target.committed
        spec = parse_recorded_spec(committed.spec, SPEC_FILE.of(self.target.stream, committed.lineage).path)
        with reading_state(self.spark):
            logs = number_groups(count_state_logs(self.spark, state, rules_of(spec)), state.key_groups)
            self._write(GROUP_LOGS, logs.coalesce(_FILES_PER_TABLE), compression="none")  # each blob is already
            self.target.after("logs of the key groups")
            timeouts = read_state_timeouts(self.spark, state)
        self._write(TIMEOUTS, self._frame(_timeout_rows(timeouts)))
        return sum_counts(savepoint_table(self.spark, self.target.home, GROUP_LOGS)), len(timeouts)

    def write_open_events(self, state: KeptState) -> None:
        """Write the open events of the logs that were written, as typed rows. So the state is read once."""
        logs = read_saved_logs(self.spark, self.target.home, state.key_groups)
        partitions = min(int(self.target.committed.settings[PARTITIONS]), _FILES_PER_TABLE)
        with few_blobs_at_a_time(self.spark):
            self._write(OPEN_EVENTS, open_events_of(whole_logs(logs, partitions), state.key_groups, state.events))

    def write_seen_files(self) -> None:
        """Write the files that a source of files counts as read. For another source the table is empty."""
        seen = self.target.committed.seen_files
        columns = [
            pa.array([file.uri for file in seen], pa.string()),
            pa.array([file.changed_at for file in seen], pa.int64()),
        ]
        self._write(SEEN_FILES, self._frame(pa.table(columns, names=["uri", "changed_at_ms"])))

    def _frame(self, table: pa.Table) -> DataFrame:
        return self.spark.createDataFrame(table).coalesce(1)

    def _write(self, part: str, frame: DataFrame, compression: str = "snappy") -> None:
        _write(self.target.home, part, frame, compression)


def count_erased_in_savepoint(spark: SparkSession, home: SavepointHome, manifest: Manifest, erased: ErasedKeys) -> int:
    """Count the events of ``erased`` keys in the logs of a canonical savepoint, also deleted ones."""
    with few_blobs_at_a_time(spark):
        logs = whole_logs(read_saved_logs(spark, home, manifest.key_groups), min(manifest.key_groups, _FILES_PER_TABLE))
        return count_erased_in_logs(logs, erased, with_deleted=True)


def rewrite_savepoint(spark: SparkSession, home: SavepointHome, manifest: Manifest, erased: ErasedKeys) -> str | None:
    """Write a canonical savepoint anew beside itself, without the events of ``erased`` keys. Returns the new id.

    None: it holds no event of them. The savepoint itself stays, for the caller to remove. A call that was killed is
    made up for by the next. Raises UnwritablePath, DiskFull and Spark's errors.
    """
    parts, groups = min(manifest.key_groups, _FILES_PER_TABLE), manifest.key_groups
    new = SavepointHome.of(home.root.parent, f"{home.id}{_ANEW}")
    if read_manifest(new) is not None:
        return new.id
    if not count_erased_in_savepoint(spark, home, manifest, erased):
        return None
    with few_blobs_at_a_time(spark):
        logs = whole_logs(read_saved_logs(spark, home, groups), parts)
        remove_tree(new.root)
        write_data_record(new.begun, UseMark.now("erasure"))
        rules = rules_of(read_saved_spec(home, manifest))
        kept = whole_logs(drop_erased_from_logs(logs, erased), parts)
        _write(new, GROUP_LOGS, number_groups(count_logs(kept, rules), groups).coalesce(parts), compression="none")
        if has_table(manifest, OPEN_EVENTS):
            _write(new, OPEN_EVENTS, drop_erased_events(savepoint_table(spark, home, OPEN_EVENTS), erased))
    timeouts = {
        client: ms for client, ms in saved_timeouts(spark, home, manifest).items() if not erased.names(CLIENT, client)
    }
    _write(new, TIMEOUTS, spark.createDataFrame(_timeout_rows(timeouts)).coalesce(1))
    _write(new, SEEN_FILES, savepoint_table(spark, home, SEEN_FILES).coalesce(1))
    held = sum_counts(savepoint_table(spark, new, GROUP_LOGS))
    counts = held.counts(len(timeouts), 0 if manifest.counts is None else manifest.counts.seen_files)
    due, files = held.earliest_due_ms, tuple(data_files(new))
    write_manifest(new, replace(manifest, id=new.id, counts=counts, earliest_due_ms=due, files=files))
    return new.id


def _timeout_rows(timeouts: Mapping[str, int]) -> pa.Table:
    columns = [pa.array(timeouts.keys(), pa.string()), pa.array(timeouts.values(), pa.int64())]
    return pa.table(columns, names=["client", "timeout_ms"])


def _write(home: SavepointHome, part: str, frame: DataFrame, compression: str = "snappy") -> None:
    writer = frame.write.format("delta").mode("errorifexists").options(**_READ_WHOLE, compression=compression)
    writer.save(uri_of(home.part(part)))
