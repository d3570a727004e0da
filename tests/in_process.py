"""A stream's query run to its end in the Spark of the tests: what a driver does, without the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.lease import acquire
from sessionizer.control.lineage import active_lineage, start_lineage
from sessionizer.control.table_places import table_locations
from sessionizer.spark import punctuation
from sessionizer.spark.examine import examine
from sessionizer.spark.gate import BatchGate
from sessionizer.spark.kept_types import remember_types, require_readable_state
from sessionizer.spark.open_sessions import OpenSessions
from sessionizer.spark.run import Run
from sessionizer.spark.tables import ensure_tables
from sessionizer.spark.vital_signs import VitalSigns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sessionizer.control.lease import Lease
    from stage import Stage


def drain(spark: SparkSession, stage: Stage) -> None:
    """Read all there is and close every session. Raises what the query dies of."""
    catch_up(spark, stage)
    assert stage.lineage
    punctuation.drain(stage.stream_home.punctuations(stage.lineage))
    catch_up(spark, stage)


def catch_up(spark: SparkSession, stage: Stage) -> None:
    """Read all there is. Raises what the query dies of."""
    stage.stream_home.prepare()
    lease = acquire(stage.stream_home, "tests")
    try:
        _run(spark, stage, lease).start(until_caught_up=True).awaitTermination()
    finally:
        lease.release()


def _run(spark: SparkSession, stage: Stage, lease: Lease) -> Run:
    home, spec = stage.stream_home, stage.spec()
    examined = examine(spark, spec, stage.home)
    locations = table_locations(home, stage.home, spec.sink.path)
    require_readable_state(home, active_lineage(home), spec, examined.guarded.payload)
    ensure_tables(spark, examined.shapes(spec), locations)
    lineage = active_lineage(home) or start_lineage(home)
    remember_types(home, lineage, spec, examined.guarded.payload)
    return Run(
        spark=spark,
        spec=spec,
        examined=examined,
        platform_home=stage.home,
        home=home,
        lineage=lineage,
        gate=BatchGate(lambda: False),
        signs=VitalSigns(home, lease),
        open_sessions=OpenSessions(home.lineages / lineage / "open_sessions.json"),
        permit=lambda: None,
    )
