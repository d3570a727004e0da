"""An upgrade on a copy: it has the open sessions and goes on by the new spec, and nothing of the stream is changed."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.spark.state.commands.apply import ApplyRunner, upgrade_copy
from sessionizer.state.commands.upgrade import Upgrade
from sessionizer.state.stream_copy import COPIES
from support.expected.folder_digest import settled_digest
from support.expected.landed import table_rows
from support.processes.in_process import catch_up, drain
from support.streams.stage import Stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sessionizer.state.stream_copy import StreamCopy

pytestmark = pytest.mark.long

START_MS = 1_750_000_000_000
USERS = ("ann", "bob", "eve")


def visits(*, renamed: bool) -> dict[str, Any]:
    """Visits in a sink of their own. Spark deletes each file that a batch has read."""
    migrations = [{"id": "place", "columns": {"place": "page"}, "drop": ["page"]}] if renamed else []
    return {
        "source": {
            "format": "files",
            "path": "feed",
            "encoding": "json",
            "columns": "user string, at bigint, id string, page string",
            "options": {"maxFilesPerTrigger": 1, "cleanSource": "delete"},
        },
        "mapping": {
            "key": "user",
            "event_time": "timestamp_millis(at)",
            "event_id": "id",
            "payload": {"place" if renamed else "page": "page"},
        },
        "rules": {
            "gap_timeout": "90 seconds",
            "watermark_delay": "1 second",
            "emit_every": "5 minutes",
            "idle_after": None,
        },
        "sink": {"path": "lake"},
        "migrations": migrations,
        "key_groups": 2,
        "trigger_interval": "1 second",
    }


def feed(stage: Stage, minute: int, *users: str) -> None:
    rows = [
        {"user": user, "at": START_MS + 60_000 * minute, "id": f"{user}-{minute}", "page": f"/{minute}"}
        for user in users
    ]
    file = stage.feed / f"{minute:03}.json"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(file, (START_MS / 1000 + minute,) * 2)  # a source reads the oldest first


@dataclass(frozen=True)
class Copied:
    """``before``: the files of the stream before the command."""

    stage: Stage
    copy: StreamCopy
    before: dict[str, str]


def files_of(stage: Stage) -> dict[str, str]:
    """The files of the stream, without those of copies."""
    found = settled_digest(stage.home)
    return {name: digest for name, digest in found.items() if f"/{COPIES}" not in name}


@pytest.fixture(scope="module")
def copied(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Copied:
    """A copy of a stream: a session is over and not written yet, two are open, and a column gets another name."""
    stage = Stage.begun(tmp_path_factory.mktemp("copied"), visits(renamed=False))
    for minute, users in enumerate((USERS, USERS[:2], USERS[:1], USERS[:1])):
        feed(stage, minute, *users)
    catch_up(spark, stage)
    stage.write_spec(visits(renamed=True))
    home, command = stage.stream_home, Upgrade(on_copy=True)
    runner = ApplyRunner(spark=spark, home=home, command=command, spec=stage.spec(), savepoints=home.savepoints)
    plan, before = runner.look(), files_of(stage)
    assert plan.is_possible
    return Copied(stage, upgrade_copy(runner, plan, "ann"), before)


def test_nothing_of_the_stream_is_changed(copied: Copied) -> None:
    assert files_of(copied.stage) == copied.before


def test_both_make_the_same_sessions_of_what_comes(spark: SparkSession, copied: Copied, tmp_path: Path) -> None:
    stage = copied.stage
    there = Stage(tmp_path, copied.copy.platform)
    shutil.copytree(copied.copy.specs, there.streams)
    feed(stage, 4, *USERS)
    fed = sorted(file.name for file in stage.feed.iterdir())
    drain(spark, there)
    assert sorted(file.name for file in stage.feed.iterdir()) == fed, "a copy takes no file of the source away"
    stage.write_spec(visits(renamed=False))
    drain(spark, stage)
    assert sessions_of(there) == sessions_of(stage) == EXPECTED
    places = {event["event_id"]: event["place"] for row in rows_of(there) for event in row["events"]}
    over = {event_id for event_id, place in places.items() if place is None}
    assert {"eve-0"} <= over <= {"eve-0", "bob-0", "bob-1"}, "a session that was over is written as it was"
    assert all(places[event_id] == f"/{event_id[-1]}" for event_id in places.keys() - over)


def rows_of(stage: Stage) -> list[dict[str, Any]]:
    return table_rows(Path(stage.stream_home.table_locations(stage.spec().sink.path)["sessions"]))


def sessions_of(stage: Stage) -> Counter[tuple[str, ...]]:
    return Counter(tuple(event["event_id"] for event in row["events"]) for row in rows_of(stage))


EXPECTED = Counter(
    [("ann-0", "ann-1", "ann-2", "ann-3", "ann-4"), ("bob-0", "bob-1"), ("bob-4",), ("eve-0",), ("eve-4",)],
)
