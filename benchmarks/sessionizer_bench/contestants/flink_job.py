"""Flink's own sessions, in SQL: ``SESSION`` windows, state in RocksDB, incremental checkpoints, Parquet out.

It runs in an environment of its own, ``.tools/flink`` (``make .tools/flink/.ready``), and imports nothing of ours.

It does less than our query: it has one timeout for all sessions instead of each event's, no closing events, duplicates,
caps, order of events or quarantine, and no transaction log. Its files appear at checkpoints.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from pyarrow import compute, parquet
from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

GAP_S: Final = 60
"""The longest timeout of the workload ``large``. SQL takes one gap for all events."""
EVENTS: Final = "ARRAY<ROW<event_time TIMESTAMP_LTZ(6), event_id STRING, data STRING, is_last BOOLEAN>>"
KEPT: Final = {
    "flink": ("ARRAY_AGG(ROW(event_time, event_id, data, is_last))", EVENTS),
    "flink_counts": ("MAX(event_id)", "STRING"),
}
"""What a contestant keeps of a session's events: all of them, or one id."""


def main(job_file: Path) -> None:
    """Read the warm-up, then the measured events in the same JVM. Write ``result.json`` beside the job."""
    job = json.loads(job_file.read_text())
    folder = job_file.parent
    batches = [read(job, folder, part, number) for number, part in enumerate(("warm_up", "measured"))]
    result = {"batches": batches, "uncounted": 1, "diary": None, "tally": tally(folder / "tables" / "measured")}
    job_file.with_name("result.json").write_text(json.dumps(result))


def read(job: dict[str, Any], folder: Path, part: str, number: int) -> dict[str, Any]:
    """Run the query over one file, and return it as one batch."""
    source = Path(job["flink"]["input"]) / f"{part}.parquet"
    environment = new_environment(job, folder)
    for statement in tables(source, folder / "tables" / part, KEPT[job["contestant"]][1]):
        environment.execute_sql(statement)
    began_ms = time.time() * 1000
    environment.execute_sql(insert(KEPT[job["contestant"]][0])).wait()
    ended_ms = time.time() * 1000
    return {
        "id": number,
        "rows": parquet.read_metadata(source).num_rows,
        "started_ms": began_ms,
        "ended_ms": ended_ms,
        "durations_ms": {},
        "state_bytes": 0,
        "state_metrics": {},
    }


def new_environment(job: dict[str, Any], folder: Path) -> TableEnvironment:
    """Return a streaming environment of two subtasks in this process's JVM."""
    settings = Configuration()
    for name, value in {
        "pipeline.jars": ";".join(f"file://{jar}" for jar in job["flink"]["jars"]),
        "pipeline.object-reuse": "true",
        "parallelism.default": str(job["flink"]["cores"]),
        "state.backend.type": "rocksdb",
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.dir": f"file://{folder / 'checkpoint'}",
        # A job that has read everything would wait up to 10 s for its last checkpoint, which is no work.
        "execution.checkpointing.checkpoints-after-tasks-finish": "false",
        "taskmanager.memory.managed.size": "1g",
        "table.local-time-zone": "UTC",
        "rest.address": "127.0.0.1",
        "rest.bind-address": "127.0.0.1",
    }.items():
        settings.set_string(name, value)
    chosen = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(settings)
    return TableEnvironment.create(chosen.build())


def tables(source: Path, table: Path, kept_type: str) -> tuple[str, str]:
    """Return the statements that declare the source, with our watermark delay, and the table of sessions."""
    columns = (
        "user_id STRING, event_time TIMESTAMP_LTZ(6), event_id STRING, data STRING, is_last BOOLEAN, timeout_s INT"
    )
    at = "at_ms AS CAST(event_time AS TIMESTAMP_LTZ(3)), WATERMARK FOR at_ms AS at_ms - INTERVAL '30' SECOND"
    of_source = f"WITH ('connector' = 'filesystem', 'path' = 'file://{source}', 'format' = 'parquet')"
    of_table = f"WITH ('connector' = 'filesystem', 'path' = 'file://{table}', 'format' = 'parquet')"
    session = "user_id STRING, started_at TIMESTAMP_LTZ(3), ended_at TIMESTAMP_LTZ(3), event_count BIGINT"
    return (
        f"CREATE TABLE arrived ({columns}, {at}) {of_source}",
        f"CREATE TABLE sessions ({session}, events {kept_type}) {of_table}",
    )


def insert(kept: str) -> str:
    """Return the query."""
    return f"""
        INSERT INTO sessions
        SELECT user_id, MIN(at_ms), MAX(at_ms), COUNT(*), {kept}
        FROM TABLE(SESSION(TABLE arrived PARTITION BY user_id, DESCRIPTOR(at_ms), INTERVAL '{GAP_S}' SECOND))
        GROUP BY user_id, window_start, window_end
    """  # noqa: S608  nothing of a user


def tally(table: Path) -> dict[str, int]:
    """Return the numbers of sessions and of events in them. Fewer events than were read: some came too late.

    The files since the last checkpoint are complete, and keep the names of uncommitted ones.
    """
    files = [file for file in table.rglob("*part-*") if file.is_file()]
    counts = [parquet.read_table(file, columns=["event_count"])["event_count"] for file in files]
    return {"rows": sum(map(len, counts)), "events": sum(compute.sum(each).as_py() or 0 for each in counts)}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
