"""Runner of an erasure: the stream goes on in a new lineage, without the open events of some people.

A table of requests may name them, and gets the moments when they were erased.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Final

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sessionizer.control.execution import Step
from sessionizer.control.operation import Operation
from sessionizer.control.records.erasure_record import (
    ErasureRecord,
    note_erasure,
    note_swept,
    read_erased,
    read_erasures,
    read_secret,
    read_unswept,
)
from sessionizer.core.definition.erasure import DIGEST_BYTES, ErasedOnce, digest_key, join_digests
from sessionizer.core.wire.erased_keys import ErasedKeys
from sessionizer.counts import count_text
from sessionizer.deployment.running_spec import new_record
from sessionizer.errors import InvalidSpec, UnusableSavepoint
from sessionizer.home.clock import epoch_ms
from sessionizer.home.roots import DataPath, folder_at, uri_of
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import active_lineage, remove_way_back
from sessionizer.lineage.kept_spec import SPEC_FILE
from sessionizer.spark.failures.query_failure import retry_conflicts
from sessionizer.spark.state.commands.runner import SparkRunner
from sessionizer.spark.state.erasing import Sweep
from sessionizer.spark.state.open_events import count_erased_in_logs, describe_state, log_blobs, reading_state
from sessionizer.state.commands.command import Plan
from sessionizer.state.commands.erasures import (
    DONE,
    OPTIONAL,
    REQUESTED_AT,
    STREAM,
    Erase,
    ErasePlan,
    find_done,
    find_requests,
    require_column,
    require_redactable,
)
from sessionizer.state.commands.steps import NoteErasure, RemoveCheckpoints
from sessionizer.state.compaction.plan import remove_spark_files
from sessionizer.state.lineages.committed_batch import CommittedBatch, read_committed_batch
from sessionizer.state.lineages.origin import find_lineages
from sessionizer.state.restores.row_changes import RowChanges, StreamedTable
from sessionizer.state.savepoints.manifest import SavepointKind
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import parse_recorded_spec

_FOR_GOOD_MS: Final = 253_402_300_799_000
"""The end of the year 9999 (epoch ms)."""


@dataclass(kw_only=True)
class EraseRunner(SparkRunner[Erase]):
    """Runner of an erasure of ``people``, the values of the command's column. ``folders``: with savepoints."""

    people: tuple[str, ...]
    folders: tuple[DataPath, ...]
    _committed: CommittedBatch = field(init=False)

    @cached_property
    def _digests(self) -> bytes:
        secret = read_secret()
        return join_digests(digest_key(secret, self.command.column, value) for value in self.people)

    def look(self) -> Plan[ErasePlan]:
        """Make the plan with its figures. Writes nothing. Raises InvalidSpec without a secret."""
        plan, now = self._decide(), epoch_ms()
        if not plan.is_needed:
            return plan
        sweep = self._sweep(self.people, self._erasure(now), now)
        held = self._count_open(self._erasure(now))
        saved = [(each.id, each.kind) for each in sweep.savepoints()]
        decision = replace(
            plan.decision,
            open_events=held,
            rows=sweep.count_rows(),
            lineages=tuple(each for each in find_lineages(self.home) if each != self._committed.lineage),
            native=tuple(each for each, kind in saved if kind is SavepointKind.NATIVE),
            canonical=tuple(each for each, kind in saved if kind is SavepointKind.CANONICAL),
        )
        return self.command.plan(decision)

    def plan_again(self, record: object) -> Plan[ErasePlan]:  # noqa: ARG002  the interface
        """Make the plan under the lease, without figures."""
        return self._decide()

    def _decide(self) -> Plan[ErasePlan]:
        self._committed = read_committed_batch(self.home)
        column, spec, redacts = self.command.column, self._spec(), self.command.redacts
        require_column(column, spec, self._committed.kept)
        measures = require_redactable(redacts, column, spec)
        return self.command.plan(
            ErasePlan(
                stream=self.home.name,
                lineage=self._committed.lineage,
                batch_id=self._committed.batch_id,
                people=len(self.people),
                digest_of_people=hashlib.sha256(self._digests).hexdigest(),
                column=column,
                for_good=self.command.for_good,
                redacts=redacts,
                measures=measures,
            )
        )

    def start_lineage(self, operation: Operation) -> None:
        """Start the new lineage, by the same spec in the same key groups. Raises HalfWrittenBatch."""
        spec = self._spec()
        self.start_after(operation, self._committed, spec, new_record(self.home, spec))

    def erased(self, operation: Operation) -> ErasedKeys:
        """Return all erased keys, with those of this command."""
        before = read_erased(self.home)
        return ErasedKeys(read_secret(), (*before.erasures, self._erasure(operation.record.begun_at)))

    def run_own(self, step: Step, operation: Operation) -> str | None:
        """Run a step that only an erasure has."""
        match step:
            case NoteErasure():
                record = operation.record
                now = hashlib.sha256(self._digests).hexdigest()
                if record.decided.get("digest_of_people", now) != now:
                    raise InvalidSpec("--keys", self.command.keys, "the people of the approved plan, who have changed")
                note_erasure(self.home, ErasureRecord.of(record, read_secret(), self._erasure(record.begun_at)))
            case RemoveCheckpoints():
                active = active_lineage(self.home)
                operation.permit()
                remove_way_back(self.home)
                for lineage in find_lineages(self.home):
                    if lineage != active:
                        operation.permit()
                        remove_spark_files(self.home, lineage)
            case _:
                return super().run_own(step, operation)
        return None

    def row_changes(self) -> tuple[Sequence[StreamedTable], RowChanges]:
        """Return that no row comes back or leaves by its batch."""
        return (), RowChanges(())

    def finish(self) -> None:
        """Sweep all that the stream has written of these people, and note that it is over. May be run again.

        An erasure that not all people of are given stays unswept. Raises UnusableSavepoint if a process needs one.
        """
        secret = read_secret()
        for noted in read_unswept(self.home):
            erased = ErasedKeys(secret, (noted.erasure,))
            people = tuple(value for value in self.people if erased.has(noted.erasure, value))
            if len(people) * DIGEST_BYTES != len(noted.erasure.digests):
                continue
            sweep = self._sweep(people, noted.erasure, noted.approved_at)
            sweep.erase_rows(f"{self.command.name} {noted.operation}", self._wait_for_readers)
            if not noted.redacts:
                sweep.erase_records()
            if busy := sweep.erase_savepoints():
                cause = "a process makes or reads it, or needs it to go on. Type the erase again later"
                raise UnusableSavepoint(busy[0], cause)
            note_swept(self.home, noted, epoch_ms())
            self.say(f"{count_text(len(people), noted.column)} swept")

    def _wait_for_readers(self) -> None:
        if minutes := self.command.wait_for_readers:
            self.say(f"old files stay for {count_text(minutes, 'minute')}, so that readers see the deletions")
            time.sleep(60 * minutes)

    def _sweep(self, people: Sequence[str], erasure: ErasedOnce, approved_at: int) -> Sweep:
        return Sweep(self.spark, self.home, people, erasure, approved_at, self.folders, self.say)

    def _erasure(self, approved_at: int) -> ErasedOnce:
        until = _FOR_GOOD_MS if self.command.for_good else approved_at
        return ErasedOnce(self.command.column, until, self._digests, self.command.redacts)

    def _count_open(self, erasure: ErasedOnce) -> int:
        theirs = ErasedKeys(read_secret(), (erasure,))
        with reading_state(self.spark):
            return count_erased_in_logs(log_blobs(self.spark, describe_state(self._committed)), theirs)

    def count_unredacted(self) -> dict[str, int]:
        """Count what still has a value to redact, from before the newest such redaction."""
        self._committed, erasure, at = read_committed_batch(self.home), self._erasure(epoch_ms()), epoch_ms()
        for each in read_erasures(self.home):
            if (each.column, each.redacts) == (erasure.column, erasure.redacts):
                erasure, at = replace(erasure, until_ms=each.until), each.approved_at
        sweep = self._sweep(self.people, erasure, at)
        saved = {f"savepoint {each.id}": sweep.count_saved(each) for each in sweep.savepoints()}
        return {**sweep.count_rows(), "open events": self._count_open(erasure), **saved}

    def _spec(self) -> StreamSpec:
        return parse_recorded_spec(self._committed.spec, SPEC_FILE.of(self.home, self._committed.lineage).path)


@dataclass(frozen=True, slots=True)
class RequestTable:
    """The table at ``location`` with requests for the stream of ``home``. ``column`` identifies people."""

    spark: SparkSession
    home: StreamHome
    location: str
    column: str

    def read(self, until_ms: int, *, are_done: bool = False) -> dict[str, int]:
        """Return the values that are asked for up to ``until_ms``, and when (epoch ms): open requests, or done ones."""
        wanted = [F.col(self.column).cast("string"), *(name for name in OPTIONAL if name in self._columns())]
        rows = self.spark.read.format("delta").load(self.location).select(*wanted).toArrow()
        return find_requests(rows, self.column, self.home.name, until_ms, are_done=are_done)

    def write_done(self, until_ms: int) -> None:
        """Write into each fulfilled request when that was done, if it has the column. Idempotent."""
        if DONE not in self._columns():
            return
        ledger = read_erasures(self.home)
        for record, values in find_done(self.read(until_ms), ledger, read_erased(self.home), self.column):
            retry_conflicts(partial(self._mark, record, values))

    def _columns(self) -> list[str]:
        return self.spark.read.format("delta").load(self.location).columns

    def _mark(self, record: ErasureRecord, values: list[str]) -> None:
        columns, stream = self._columns(), F.lit(self.home.name)
        done = F.coalesce(F.col(f"requests.{DONE}"), F.expr("cast(map() as map<string, timestamp>)"))
        wanted = (F.col(f"requests.{self.column}").cast("string") == F.col("erased.value")) & ~F.map_contains_key(
            done, self.home.name
        )
        if STREAM in columns:
            wanted &= F.col(f"requests.{STREAM}").isNull() | (F.col(f"requests.{STREAM}") == stream)
        if REQUESTED_AT in columns:
            at = F.col(f"requests.{REQUESTED_AT}")
            wanted &= at.isNull() | (at <= F.timestamp_millis(F.lit(record.until)))
        erased = self.spark.createDataFrame(pa.table({"value": pa.array(values, pa.string())})).alias("erased")
        moment = F.create_map(stream, F.timestamp_millis(F.lit(record.swept_at)))
        merge = DeltaTable.forPath(self.spark, self.location).alias("requests").merge(erased, wanted)
        merge.whenMatchedUpdate(set={DONE: F.map_concat(done, moment)}).execute()


def find_request_table(spark: SparkSession, home: StreamHome, command: Erase) -> RequestTable:
    """Return the Delta table that the command names. Raises InvalidSpec if it lacks the column."""
    place = str(command.keys)
    location = uri_of(folder_at(place, "--keys"))
    if command.column in OPTIONAL or command.column not in spark.read.format("delta").load(location).columns:
        raise InvalidSpec("--keys", place, f"a table whose column {command.column} has the values")
    return RequestTable(spark, home, location, command.column)
