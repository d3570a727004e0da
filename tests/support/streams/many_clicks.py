"""Millions of events, made in a moment: enough that one batch of them takes long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

FIRST_EVENT_MS = 1_700_000_000_000
USERS = 100_000


def many_clicks_spec(**options: str) -> dict[str, Any]:
    """A stream of what ``write_many_clicks`` writes; all of it may come in one batch, unless ``options`` say less."""
    return {
        "source": {
            "format": "files",
            "path": "feed",
            "encoding": "parquet",
            "columns": "event_id string, user_id string, ts bigint",
            "options": options or {"maxFilesPerTrigger": 1_000},
        },
        "mapping": {"key": "user_id", "event_time": "timestamp_millis(ts)", "event_id": "event_id"},
        "rules": {"watermark_delay": "10 seconds", "gap_timeout": "30 seconds", "emit_every": "5 seconds"},
        "key_groups": 4,
        "trigger_interval": "1 second",
    }


def write_many_clicks(folder: Path, events: int, files: int = 1) -> None:
    """``events`` events in ``files`` Parquet files, 10 ms apart."""
    users = np.random.default_rng(0)
    for number in range(files):
        ids = np.arange(number * events // files, (number + 1) * events // files)
        table = pa.table(
            {
                "event_id": pa.array(ids).cast(pa.string()),
                "user_id": pa.array(users.integers(0, USERS, len(ids))).cast(pa.string()),
                "ts": FIRST_EVENT_MS + ids * 10,
            }
        )
        pq.write_table(table, folder / f"part-{number:04d}.parquet")
