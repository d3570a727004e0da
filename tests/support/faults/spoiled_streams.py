"""What happens to a stream's source or checkpoint, on a stage of clicks, so that its query dies."""

import shutil
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from sessionizer.home.roots import uri_of
from support.faults.bad_clicks import click, line
from support.places import opened
from support.streams.stage import Stage, clicks_spec

CLICKS: Final = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("event_id", "user_id", "client")),
        pa.field("ts", pa.int64()),
        *(pa.field(name, pa.string()) for name in ("type", "page", "device")),
        pa.field("amount", pa.float64()),
        pa.field("timeout_s", pa.int32()),
    ]
)
DELTA_CLICKS: Final = clicks_spec() | {
    "source": {"format": "delta", "path": "feed", "options": {"maxFilesPerTrigger": 1}}
}
NEXT_COMMIT: Final = f"{1:020}.json"


def a_file(stage: Stage, number: int = 1) -> None:
    (stage.feed / f"{number}.json").write_bytes(line(number, "ann"))


def a_file_for_the_quarantine(stage: Stage, number: int = 1) -> None:
    """What it holds is appended to a table at once."""
    (stage.feed / f"{number}.json").write_bytes(b"no JSON")


def a_commit(stage: Stage, number: int = 1) -> None:
    _append(stage.feed, number)


def state_removed(stage: Stage) -> None:
    a_file(stage, 2)
    kept = [*opened(stage.checkpoint).glob("state/**/*.changelog"), *opened(stage.checkpoint).glob("state/**/*.zip")]
    assert kept
    for file in kept:
        file.unlink()


def commit_cut_short(stage: Stage) -> None:
    """As by a power cut on a file system that does not write through."""
    a_file(stage, 2)
    commits = stage.checkpoint / "commits"
    newest = max((file for file in opened(commits).iterdir() if file.name.isdigit()), key=lambda file: int(file.name))
    newest.write_text("")
    opened(commits / f".{newest.name}.crc").unlink(missing_ok=True)


def state_of_another_time_mode(stage: Stage) -> None:
    """As when a release with another way to tell the time has written it."""
    a_file(stage, 2)
    for file in opened(stage.checkpoint / "state" / "0" / "_metadata" / "v2").iterdir():
        if file.name.startswith("."):
            file.unlink()
        else:
            assert "EventTime" in file.read_text()
            file.write_text(file.read_text().replace("EventTime", "ProcessingTime"))


def state_is_no_folder_any_more(stage: Stage) -> None:
    state = stage.checkpoint / "state"
    opened(state).rename(stage.root / "state-elsewhere")
    opened(state).write_text("")
    a_file(stage, 2)


def batches_of_another(stage: Stage) -> None:
    """As of a query that reads the same checkpoint by another path."""
    offsets = stage.checkpoint / "offsets"
    newest = max(int(file.name) for file in opened(offsets).iterdir() if file.name.isdigit())
    for number in range(newest + 1, newest + 4):
        opened(offsets / str(number)).write_bytes(opened(offsets / str(newest)).read_bytes())
    a_file(stage, 2)


def rows_deleted(stage: Stage) -> None:
    DeltaTable(stage.feed).delete("event_id = 'ann-1'")


def column_of_another_type(stage: Stage) -> None:
    types = CLICKS.set(CLICKS.get_field_index("amount"), pa.field("amount", pa.string()))
    rows = pa.Table.from_pylist([click(2, "ann", amount="much")], types)
    write_deltalake(stage.feed, rows, mode="overwrite", schema_mode="overwrite")


def file_damaged(stage: Stage) -> None:
    """It is the next commit's, damaged before anybody sees that."""
    aside = stage.root / "aside"
    shutil.copytree(stage.feed, aside)
    _append(aside, 2)
    (file,) = {file.name for file in aside.glob("*.parquet")} - {file.name for file in stage.feed.glob("*.parquet")}
    (stage.feed / file).write_bytes(b"x" * (aside / file).stat().st_size)
    (aside / "_delta_log" / NEXT_COMMIT).rename(stage.feed / "_delta_log" / NEXT_COMMIT)


def log_truncated(stage: Stage) -> None:
    for number in range(2, 7):
        a_commit(stage, number)
    table = DeltaTable(stage.feed)
    table.create_checkpoint()
    for version in range(table.version()):
        (stage.feed / "_delta_log" / f"{version:020}.json").unlink()


def table_of_another(stage: Stage) -> None:
    write_deltalake(uri_of(stage.table("sessions")), pa.table({"key": ["ann"]}))
    owner = {"sessionizer.owner": "visits@0123456789ab"}
    DeltaTable(uri_of(stage.table("sessions"))).alter.set_table_properties(owner, raise_if_not_exists=False)


def _append(table: Path, number: int) -> None:
    write_deltalake(table, pa.Table.from_pylist([click(number, "ann")], CLICKS), mode="append")
