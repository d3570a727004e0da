"""Preparation of a stream's query. Every fault that a spec can have is found before the lineage exists."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sessionizer.checkpoint.batch_logs import read_pinned_settings
from sessionizer.control.records.airflow_records import bundle_of_watch
from sessionizer.deployment.running_spec import note_spec
from sessionizer.launch.local_settings import is_local_master
from sessionizer.lineage.active import active_lineage, start_lineage
from sessionizer.lineage.batch_log import BatchLog
from sessionizer.lineage.fingerprint import JAVA, SPARK, present_fingerprint, read_fingerprint, write_fingerprint
from sessionizer.lineage.open_sessions import OpenSessions
from sessionizer.lineage.source_ids import note_source_ids
from sessionizer.spark.driver.batch_files import BatchFiles
from sessionizer.spark.driver.executors import require_fit_executors
from sessionizer.spark.driver.prepared_query import PreparedQuery
from sessionizer.spark.driver.python_start import start_python_workers
from sessionizer.spark.ingest.guarded_source import SourceMemory
from sessionizer.spark.ingest.kept_types import remember_types, require_readable_state
from sessionizer.spark.ingest.source_identity import require_same_columns, require_source
from sessionizer.spark.session import jvm_version
from sessionizer.spark.sinks.continuity import require_continuity
from sessionizer.spark.sinks.examine import examine
from sessionizer.spark.sinks.own_tables import have_tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from sessionizer.deployment.running_spec import RunningSpec
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.spark.driver.heartbeat_writer import HeartbeatWriter, ProgressListener
    from sessionizer.spark.driver.stop_gate import StopGate
    from sessionizer.spark.sinks.examine import Examined
    from sessionizer.spark.sinks.table_check import TableCheck


@dataclass(frozen=True, slots=True)
class Preparation:
    """The parts that a driver prepares its query with.

    ``permit`` returns only while the lease is ours. ``tables``: the check of the tables, as far as their files told.
    ``listener`` gets Spark's events about the query.
    """

    running: RunningSpec
    home: StreamHome
    gate: StopGate
    heartbeat: HeartbeatWriter
    listener: ProgressListener
    permit: Callable[[], None]
    tables: TableCheck

    def run(self, spark: SparkSession) -> PreparedQuery:
        """Prepare the query, with the tables made and a lineage to resume.

        Raises errors of the spec, of the source, and of the tables.
        """
        spec, lineage = self.running.spec, active_lineage(self.home)
        if not is_local_master(spark.sparkContext.master or ""):
            require_fit_executors(spark, self.home.data)
            self.heartbeat.note_start_progress()
        with start_python_workers(spark):
            if lineage is not None:
                require_continuity(spark, self.running, self.home, lineage)
                self.heartbeat.note_start_progress()
            self.tables.check_with_delta(spark)
            source = require_source(spark, self.home, spec, lineage)
            columns = require_same_columns(spark, self.home, spec, lineage)
            examined = self._examined(spark, lineage)
        spark.streams.addListener(self.listener)
        lineage = self._lineage_to_go_on_in(lineage)
        note_source_ids(self.home, lineage, source)
        self._note_fingerprint(spark, lineage)
        remember_types(self.home, lineage, spec, examined.guarded.payload)
        counts = OpenSessions(self.home.lineage(lineage).open_sessions)
        self.heartbeat.note_start_progress(
            lineage=lineage, open_keys=counts.total, spark_ui=spark.sparkContext.uiWebUrl
        )
        return PreparedQuery(
            spark=spark,
            spec=spec,
            examined=examined,
            home=self.home,
            lineage=lineage,
            gate=self.gate,
            heartbeat=self.heartbeat,
            open_sessions=counts,
            batch_log=BatchLog(self.home.lineage(lineage).batches),
            permit=self.permit,
            files=BatchFiles(self.home, lineage, columns),
        )

    def _lineage_to_go_on_in(self, active: str | None) -> str:
        if active is None:
            return start_lineage(self.home, spec=self.running.new_record())
        note_spec(self.home, active, self.running)
        return active

    def _note_fingerprint(self, spark: SparkSession, lineage: str) -> None:
        """Record what the lineage runs by from now on. A patch release of the engine is taken in place."""
        versions = {SPARK: spark.version, JAVA: jvm_version(spark)}
        now = present_fingerprint(versions, read_fingerprint(self.home, lineage))
        settings = read_pinned_settings(self.home.checkpoint(lineage))
        write_fingerprint(self.home, lineage, replace(now, configuration=settings, bundle=bundle_of_watch(self.home)))

    def _examined(self, spark: SparkSession, lineage: str | None) -> Examined:
        """Examine the spec over its source, with its tables made."""
        examined = examine(spark, self.running.spec, self.home.platform, SourceMemory.of(self.home, lineage))
        require_readable_state(self.home, lineage, self.running.spec, examined.guarded.payload)
        self.heartbeat.note_start_progress()
        spec = self.running.spec
        have_tables(spark, self.home, spec, examined.shapes(spec), anew=self.tables.accepts)
        self.tables.require_known()
        return examined
