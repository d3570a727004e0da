"""The process that runs one contestant once: ``python -m sessionizer_bench.driver job.json``. It writes a result file.

Each run has its own process, so that no run inherits a warm JVM, a grown heap or cached files of Spark.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sessionizer.spark.session import spark_session
from sessionizer.spark.sinks.tables import COMMITS_PER_CHECKPOINT
from sessionizer_bench.contestants import idle, ours, pass_through, per_user, session_window
from sessionizer_bench.contestants.race import Race
from sessionizer_bench.measuring.batches import parse_batches
from sessionizer_bench.workloads import (
    OURS,
    OURS_FEED,
    OURS_IDLE,
    OURS_PLAIN,
    PASS_THROUGH,
    PER_USER,
    SESSION_WINDOW,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: Final = {
    # added to the product's own settings, for every contestant
    "spark.driver.memory": "3g",
    "spark.sql.streaming.numRecentProgressUpdates": "100000",
    # so that the peers' tables are checkpointed as rarely as ours
    "spark.databricks.delta.properties.defaults.checkpointInterval": COMMITS_PER_CHECKPOINT,
}
PEERS: Final = {
    SESSION_WINDOW: session_window.start,
    PASS_THROUGH: pass_through.start,
    PER_USER: per_user.start,
}


def main(job_file: Path) -> None:
    """Run the job and write ``result.json`` beside it."""
    job = json.loads(job_file.read_text())
    race = Race.from_json(job["race"])
    started = time.time()
    cores = os.cpu_count() or 2
    spark = spark_session(f"benchmark {job['contestant']}", f"local[{cores}]", {**SETTINGS, **job["settings"]})
    ready = time.time()
    result = run(spark, job["contestant"], race)
    result |= {"process_started": started, "session_ready": ready, "settings": _settings(spark)}
    result |= {"tally": tally(spark, race)}
    job_file.with_name("result.json").write_text(json.dumps(result))
    spark.stop()


def run(spark: SparkSession, contestant: str, race: Race) -> dict[str, Any]:
    """Run the query to its end, and return its batches and, for ours, the diary of them."""
    diary = None
    if contestant in (OURS, OURS_PLAIN, OURS_FEED):
        query, diary = ours.start(spark, race, change_feed=contestant == OURS_FEED)
    elif contestant == OURS_IDLE:
        query, diary = idle.start(spark, race)
    else:
        query = PEERS[contestant](spark, race)
    if race.live_s:
        query.awaitTermination(race.live_s)
        query.stop()
    else:
        query.awaitTermination()
    progress = [json.loads(update.json) for update in query.recentProgress]
    told = {"diary": diary.batches, "open_of_group": diary.open_of_group} if diary else {"diary": None}
    return {"batches": parse_batches(progress), **told}


def tally(spark: SparkSession, race: Race) -> dict[str, int]:
    """Return the numbers of rows in the result, of events in them, and of rows in our other tables."""
    table = spark.read.format("delta").load(str(race.table))
    events = "sum(event_count)" if "event_count" in table.columns else "count(*)"
    row = table.selectExpr("count(*) as result_rows", f"cast({events} as bigint) as event_count").first()
    assert row is not None  # noqa: S101  an aggregate without keys has one row
    refused = {}
    for name in ("quarantine", "late_events"):
        folder = race.table.with_name(name)
        if folder.is_dir():
            refused[name] = spark.read.format("delta").load(str(folder)).count()
    return {"rows": row.result_rows, "events": row.event_count or 0, **refused}


def _settings(spark: SparkSession) -> dict[str, str | None]:
    names = ("spark.sql.shuffle.partitions", "spark.driver.memory")
    return {name: spark.conf.get(name, None) for name in names}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
