"""Savepoint, restore, rollback, compaction and deleted rows of a stream whose tables have names in a metastore."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.errors import InvalidSpec, StoreUnreachable
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import assert_landed, batches_of, landed
from support.stores.hive_metastore import NOBODY, HiveMetastore, command, count, sql
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from support.streams.click_files import ClickFiles

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]

FILES = 4
SAVED_AFTER = 1
NAME = "default.clicks"
TABLES = (NAME, f"{NAME}_late_events", f"{NAME}_quarantine")
SAVE = ("savepoint create", "--batch", str(SAVED_AFTER), "--id", "early")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage.set_up(tmp_path, clicks_spec() | {"sink": {"table": NAME}})


@pytest.fixture
def metastore(tmp_path: Path) -> HiveMetastore:
    return HiveMetastore(tmp_path)


def counts(stage: Stage) -> list[list[list[int]]]:
    found = landed(stage)
    return [[[rows.total()]] for rows in (found.sessions, found.late, found.quarantine)]


def assert_restored(stage: Stage, files: ClickFiles, before: str, batches: int | None = None) -> None:
    """The tables hold what the definition makes of the batches up to the savepoint, and of those after the restore.

    ``batches``: number of those up to the savepoint in the lineage ``before``. None: all.
    """
    then = CheckpointLog(stage.stream_home.checkpoint(before)).committed()[:batches]
    since = CheckpointLog(stage.checkpoint).committed()[1:]
    rows = [row for name in sorted(files) for row in files[name]]
    assert_landed(stage, [*batches_of(then, files), *batches_of(since, files)], rows)


def test_a_stream_goes_back_and_forward_and_its_names_with_it(stage: Stage, metastore: HiveMetastore) -> None:
    files = write_click_files(stage.feed, FILES, rate=12)
    save = command(stage, "savepoint create", "--id", "late")
    assert metastore.ask(command(stage, "run", "--until", "caught-up"), command(stage, *SAVE), save) == [0, 0, 0]
    before, by_name, first = landed(stage), counts(stage), stage.lineage
    assert first is not None

    early = command(stage, "restore", "early", approved=True)
    done, *left, ran = metastore.ask(early, *count(*TABLES), command(stage, "run", "--until", "caught-up"))
    assert (done, ran) == (0, 0)
    assert left[0][0][0] < by_name[0][0][0]

    late = command(stage, "restore", "late", approved=True)
    done, *found = metastore.ask(late, *count(*TABLES))
    assert (done, found) == (0, by_name)
    assert landed(stage) == before
    rescale = command(stage, "rescale", "--partitions", "1", approved=True)
    rescaled, back, *found = metastore.ask(rescale, command(stage, "rollback", approved=True), *count(*TABLES))
    assert (rescaled, back, found) == (0, 0, by_name)
    drained, compacted, *found = metastore.ask(
        command(stage, "run", "--until", "drained"), command(stage, "compact", "--yes"), *count(*TABLES)
    )
    assert (drained, compacted, found) == (0, 0, counts(stage))
    assert_restored(stage, files, first)

    whole = landed(stage).sessions.total()
    _, rows = metastore.ask(sql("DELETE FROM default.clicks WHERE client = 'acme'"), sql("TABLE default.clicks"))
    assert 0 < len(rows) < whole
    assert landed(stage).sessions.total() == len(rows)


def test_a_name_follows_a_moved_sink_and_no_other_stream_takes_it(
    stage: Stage, metastore: HiveMetastore, tmp_path: Path
) -> None:
    write_click_files(stage.feed, FILES, rate=12)
    assert metastore.ask(command(stage, "run", "--until", "caught-up")) == [0]
    stage.write_spec(clicks_spec() | {"sink": {"table": NAME, "path": "lake"}})
    write_click_files(stage.feed, FILES + 2, rate=12)
    other = Stage.set_up(tmp_path / "other", clicks_spec() | {"sink": {"table": NAME}}, name="visits")
    write_click_files(other.feed, 1, rate=12)
    ran, told, rows, daily, refused = metastore.ask(
        command(stage, "run", "--until", "drained", "--apply"),
        command(stage, "report"),
        sql(f"FROM {NAME} SELECT input_file_name()"),
        *count(f"{NAME}_daily"),
        command(other, "run", "--until", "caught-up"),
    )
    assert (ran, told, refused) == (0, 0, InvalidSpec.exit_code)
    assert rows
    assert all("/lake/sessions/" in row[0] for row in rows)
    assert daily[0][0] > 0


def test_a_metastore_that_is_away_stops_a_start_and_no_restore(
    stage: Stage, metastore: HiveMetastore, tmp_path: Path
) -> None:
    files, away = write_click_files(stage.feed, FILES, rate=12), HiveMetastore(tmp_path, NOBODY)
    assert metastore.ask(command(stage, "run", "--until", "caught-up")) == [0]
    before, first = landed(stage), stage.lineage
    assert first is not None
    assert away.ask(command(stage, "run", "--until", "drained")) == [StoreUnreachable.exit_code]
    assert landed(stage) == before
    assert away.ask(command(stage, *SAVE), command(stage, "restore", "early", approved=True)) == [0, 0]
    assert landed(stage).sessions.total() < before.sessions.total()
    assert metastore.ask(command(stage, "run", "--until", "drained")) == [0]
    assert_restored(stage, files, first, SAVED_AFTER + 1)
