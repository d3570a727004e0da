"""Compaction of a Delta table beside its writer: small files become large ones, then old files are deleted.

Before that, rows leave whose days are over by ``retention``. The rest changes no row. Of two changes that replace the
same files Delta refuses the later one. A batch of the stream only adds files, so neither stops the other. A command
that deletes rows is tried again (``retry_conflicts``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Final

from delta.tables import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sessionizer.home.clock import epoch_ms
from sessionizer.home.names import OPEN_SESSIONS, mint_id
from sessionizer.spark.failures.query_failure import CONFLICTS, retry_conflicts
from sessionizer.spark.internals.delta_log import table_property
from sessionizer.spark.session import noting, temporary_settings
from sessionizer.spark.sinks.tables import OWNER, table_exists

if TYPE_CHECKING:
    from sessionizer.state.compaction.plan import OwnedTable, Retention

FILE_BYTES: Final = 256 * 1024**2
"""Bytes of a full file. A command that deletes rows writes whole files anew, so Delta's default of 1 GiB is much."""
_OPTIMIZE: Final = {
    "spark.databricks.delta.optimize.maxFileSize": str(FILE_BYTES),
    "spark.databricks.delta.optimize.minFileSize": str(FILE_BYTES),
    # by default each run would write the last 100 GiB of a clustered table anew
    "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize.threshold": str(FILE_BYTES),
    "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize.targetCubeSize": str(FILE_BYTES),
}
_FORGETS: Final = "delta.setTransactionRetentionDuration"


@dataclass(frozen=True, slots=True)
class TableFiles:
    """Files of a table's newest version, and ``old_files`` that are deleted now."""

    files: int
    bytes: int
    old_files: int


@dataclass(frozen=True, slots=True)
class TablePlan:
    """Plan for one table. ``skipped``: the reason. ``warning``: an advice. ``kept_from``: first day whose rows stay."""

    name: str
    location: str
    found: TableFiles | None = None
    skipped: str | None = None
    merges: bool = True
    warning: str | None = None
    kept_from: date | None = None
    expired: int = 0


@dataclass(frozen=True, slots=True)
class TableResult:
    """Result for one table. ``overtaken``: a command changed it meanwhile, so its small files stay until next time."""

    name: str
    location: str
    files_before: int
    files: int
    bytes: int
    deleted: int
    overtaken: bool = False


def plan_tables(spark: SparkSession, places: Iterable[OwnedTable], retention: Retention) -> list[TablePlan]:
    """Plan the work on each table that is there. Reads only. Raises StoreUnreachable, DiskFull, UnwritablePath."""
    return [_plan(spark, each, retention) for each in places if table_exists(spark, each.name, each.location)]


def compact_table(spark: SparkSession, plan: TablePlan, retention: Retention) -> TableResult:
    """Merge small files, then delete old ones. Harmless when repeated or killed. Raises Spark's errors."""
    assert plan.found is not None  # noqa: S101  such a plan has figures
    if plan.expired and plan.kept_from is not None:
        gone, table = F.col("date") < plan.kept_from, DeltaTable.forPath(spark, plan.location)
        with noting(spark, f"compact {mint_id(epoch_ms())}"):
            retry_conflicts(lambda: table.delete(gone))  # a command may change the same files meanwhile
    overtaken = plan.merges and not _merge(spark, plan.location)
    found = _measure(spark, plan.location, retention)
    if found.old_files:  # else two commits would say that nothing was deleted
        _vacuum(spark, plan.location, retention)
    return TableResult(plan.name, plan.location, plan.found.files, found.files, found.bytes, found.old_files, overtaken)


def _plan(spark: SparkSession, place: OwnedTable, retention: Retention) -> TablePlan:
    if (owner := table_property(spark, place.location, OWNER)) not in {None, place.owner}:
        return TablePlan(place.name, place.location, skipped=f"it belongs to {owner}")
    warning, merges = None, place.name != OPEN_SESSIONS  # a batch replaces its files, and must not meet a conflict
    if table_property(spark, place.location, _FORGETS) is not None:
        warning = f"it has the property {_FORGETS}: unset it, because a batch may be written twice without it"
    log_store = f"spark.delta.logStore.{place.location.partition(':')[0]}.impl"
    if place.location.startswith(("s3:", "s3a:", "s3n:")) and spark.sparkContext.getConf().get(log_store) is None:
        merges, warning = False, "its log on S3 takes one writer: set spark.delta.logStore.s3.impl to merge its files"
    found, expired = _measure(spark, place.location, retention), 0
    if place.kept_from is not None:
        expired = spark.read.format("delta").load(place.location).where(F.col("date") < place.kept_from).count()
    return TablePlan(place.name, place.location, found, None, merges, warning, place.kept_from, expired)


def _merge(spark: SparkSession, location: str) -> bool:
    """Whether the small files were merged. Not if commands overtook it."""
    with temporary_settings(spark, _OPTIMIZE):
        try:
            # after a second conflict the next compaction may do it
            retry_conflicts(lambda: DeltaTable.forPath(spark, location).optimize().executeCompaction(), tries=2)
        except CONFLICTS:
            return False
    return True


def _measure(spark: SparkSession, location: str, retention: Retention) -> TableFiles:
    detail = DeltaTable.forPath(spark, location).detail().select("numFiles", "sizeInBytes").first()
    assert detail is not None  # noqa: S101  a table has one
    return TableFiles(int(detail.numFiles), int(detail.sizeInBytes), _vacuum(spark, location, retention, dry_run=True))


def _vacuum(spark: SparkSession, location: str, retention: Retention, *, dry_run: bool = False) -> int:
    """Delete the old files. With ``dry_run`` only count them. A table that keeps its files longer is obeyed."""

    def run(retain: str) -> int:
        found = spark.sql(f"VACUUM delta.`{location}`{retain}{' DRY RUN' if dry_run else ''}")
        return found.count() if dry_run else 0

    settings = {
        # by default VACUUM ignores the time that it is given, and takes the table's or 7 days
        "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
        # by default a folder is listed in 10,000 tasks
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(4 * spark.sparkContext.defaultParallelism),
    }
    if retention.is_short:
        settings["spark.databricks.delta.retentionDurationCheck.enabled"] = "false"
    with temporary_settings(spark, settings):
        try:
            return run(f" RETAIN {retention.hours} HOURS")
        except PySparkException as error:
            if "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT" not in str(error):
                raise
            return run("")
