"""Carries a restore out: a new lineage with the savepoint's state, then the later rows out of the tables, then active.

Killed anywhere it is done again from its record: the lineage that was not active yet is made anew, rows that were taken
back are not there a second time. From the first row on that leaves a table there is no way but to its end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sessionizer.control.records.desired_state import write_desired
from sessionizer.control.records.operation_record import Ending, OperationRecord, Reached, write_operation
from sessionizer.errors import RowsLeft
from sessionizer.home.clock import epoch_ms
from sessionizer.home.lineage_home import ANNOUNCED_TIMEOUTS
from sessionizer.home.savepoint_home import OPEN_EVENTS, SEEN_FILES, TIMEOUTS
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.checkpoint import SeenFile
from sessionizer.lineage.kept_spec import LineageSpec
from sessionizer.lineage.kept_types import KeptTypes
from sessionizer.spark.ingest.timeout_table import announcement
from sessionizer.spark.sinks.examine import examine
from sessionizer.spark.state.canonical_tables import savepoint_table
from sessionizer.spark.state.restore_planning import rows_to_take_back, tables_of
from sessionizer.spark.state.seeding import Seeding
from sessionizer.spark.state.taking_back import later_rows_of, take_back
from sessionizer.state.lineages.handover import Handover, Step
from sessionizer.state.lineages.origin import Origin, read_origin
from sessionizer.state.restores.restore_plan import VERB
from sessionizer.state.savepoints.manifest import saved_spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from sessionizer.control.lease.lease import Lease
    from sessionizer.home.savepoint_home import SavepointHome
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.state.savepoints.manifest import Manifest

_PARTITIONS: Final = "spark.sql.shuffle.partitions"


@dataclass(slots=True)
class Restoring:
    """A restore of the stream of ``home`` to ``savepoint``, under ``lease``; ``record`` says how far it has come."""

    spark: SparkSession
    home: StreamHome
    savepoint: SavepointHome
    manifest: Manifest
    lease: Lease
    record: OperationRecord
    say: Callable[[str], None]

    def run(self) -> OperationRecord:
        """The record, done. Raises RowsLeft, what keeps a lineage from beginning (see ``Seeding.run``), LeaseLost."""
        lineage = self._activated()
        return self._over(self._carried_out() if lineage is None else lineage)

    def _activated(self) -> str | None:
        """The lineage of this restore where one that was killed has come to make it the active one."""
        active = active_lineage(self.home)
        origin = read_origin(self.home, active) if active else None
        if origin is None or origin.at < self.record.begun_at or origin.savepoint != self.record.savepoint:
            return None
        return active

    def _over(self, lineage: str) -> OperationRecord:
        self.record = replace(self.record.after(Reached.ACTIVATED, lineage_to=lineage), outcome=Ending.DONE)
        write_operation(self.home, self.record)
        return self.record

    def _carried_out(self) -> str:
        self._reached(Reached.STOPPED)
        try:
            return self._begin_anew()
        except Exception:
            if not self.record.has_done(Reached.SEEDED):
                self._abandon()
            raise

    def _begin_anew(self) -> str:
        spec = saved_spec(self.savepoint, self.manifest)
        seeding = Seeding(
            spark=self.spark,
            home=self.home,
            spec=spec,
            examined=examine(self.spark, spec, self.home.platform),
            partitions=int(self.manifest.fingerprint.configuration[_PARTITIONS]),
            permit=self.lease.check,
            after=self._after,
        )
        return seeding.run(savepoint_table(self.spark, self.savepoint, OPEN_EVENTS), self._handover())

    def _abandon(self) -> None:
        """No table has lost a row: the stream goes on as it was."""
        self.record = replace(self.record, outcome=Ending.ABANDONED)
        write_operation(self.home, self.record)
        write_desired(self.home, self.record.wanted, by=self.record.by, why=f"{VERB} {self.record.id} was abandoned")

    def _after(self, step: Step) -> None:
        """The tables lose their later rows when the lineage is whole, just before it becomes the active one."""
        self.say(f"new lineage: {step}")
        if step is Step.FURNISHED:
            self._reached(Reached.SEEDED)
            self._take_back()
            self._reached(Reached.TAKEN_BACK)

    def _take_back(self) -> None:
        later, tables = rows_to_take_back(self.home, self.manifest), tables_of(self.home, self.manifest)
        found = later_rows_of(self.spark, tables, later)
        counts = ", ".join(f"{table.table} {table.rows}" for table in found)
        days = " ".join(sorted({day for table in found for day in table.by_day}))
        self.record = replace(self.record, counts=self.record.counts or counts, days=self.record.days or days)
        write_operation(self.home, self.record)
        for table in found:
            self.lease.check()
            if table.rows:
                take_back(self.spark, table.table, table.location, later, f"{VERB} {self.record.id}")
                self.say(f"{table.table}: {table.rows:,} rows taken back")
        left = [table for table in later_rows_of(self.spark, tables, later) if table.rows]
        if left:
            raise RowsLeft(self.home.name, left[0].location, left[0].rows)

    def _handover(self) -> Handover:
        manifest, now = self.manifest, epoch_ms()
        rows = savepoint_table(self.spark, self.savepoint, TIMEOUTS).collect()
        timeouts = {row.client: row.timeout_ms for row in rows}
        seen = savepoint_table(self.spark, self.savepoint, SEEN_FILES).collect()
        return Handover(
            origin=Origin(VERB, now, manifest.lineage, manifest.batch_id, manifest.id),
            spec=LineageSpec(dict(manifest.spec), now),
            kept=KeptTypes(manifest.time_mode, manifest.payload_types),
            watermark_ms=manifest.watermark_ms,
            offset=manifest.position.offset,
            seen=tuple(SeenFile(row.uri, row.changed_at_ms) for row in seen),
            timeouts=timeouts,
            # what the groups keep was passed on: else a client that the table has lost would keep its own for ever
            records={ANNOUNCED_TIMEOUTS: announcement(timeouts)} if timeouts else {},
        )

    def _reached(self, stage: Reached) -> None:
        if self.record.has_done(stage):  # by a run that was killed: what it did to the tables is not forgotten
            return
        self.record = self.record.after(stage)
        write_operation(self.home, self.record)
