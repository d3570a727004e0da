"""Savepoint, restore, rollback, compaction and deleted rows of a stream whose tables have names in a metastore."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.errors import InvalidSpec, StoreUnreachable
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import assert_as_defined, assert_landed, batches_of, landed
from support.stores.hive_metastore import NOBODY, HiveMetastore
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from support.expected.landed import Landed

pytestmark = pytest.mark.long

FILES = 4
SAVED_AFTER = 1
TABLES = ("web.sessions", "web.sessions_late_events", "web.sessions_quarantine")
DELETE = "DELETE FROM web.sessions WHERE client = 'acme'"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage.set_up(tmp_path, clicks_spec() | {"sink": {"table": TABLES[0]}})


@pytest.fixture
def metastore(tmp_path: Path) -> HiveMetastore:
    return HiveMetastore(tmp_path)


def counts(found: Landed) -> list[int]:
    return [found.sessions.total(), found.late.total(), found.quarantine.total()]


def test_a_stream_goes_back_and_forward_and_its_names_with_it(stage: Stage, metastore: HiveMetastore) -> None:
    files = write_click_files(stage.feed, FILES, rate=12)
    refused = metastore.run(stage, "run", "--until", "caught-up")
    assert refused.returncode == InvalidSpec.exit_code, refused.stderr[-4_000:]
    metastore.ask("CREATE SCHEMA web")
    metastore.done(stage, "run", "--until", "caught-up")
    before, first = landed(stage), stage.lineage
    assert first is not None
    assert_as_defined(stage, files)
    assert metastore.count(*TABLES) == counts(before)

    metastore.done(stage, "savepoint create", "--batch", str(SAVED_AFTER), "--id", "early")
    metastore.approved(stage, "restore", "early")
    assert landed(stage).sessions.total() < before.sessions.total()
    assert metastore.count(*TABLES) == counts(landed(stage))
    metastore.done(stage, "run", "--until", "caught-up")
    then = CheckpointLog(stage.stream_home.checkpoint(first)).committed()[: SAVED_AFTER + 1]
    since = CheckpointLog(stage.checkpoint).committed()[1:]
    rows = [row for name in sorted(files) for row in files[name]]
    assert_landed(stage, [*batches_of(then, files), *batches_of(since, files)], rows)

    metastore.approved(stage, "rollback")
    assert landed(stage) == before
    metastore.done(stage, "run", "--until", "drained")
    assert_as_defined(stage, files)
    whole = landed(stage)
    metastore.done(stage, "compact", "--yes")
    assert landed(stage) == whole
    assert metastore.count(*TABLES) == counts(whole)
    left = metastore.ask(DELETE, f"FROM {TABLES[0]} SELECT count(*)")[-1][0][0]
    assert 0 < left < whole.sessions.total()
    assert landed(stage).sessions.total() == left


def test_a_name_follows_a_moved_sink_and_no_other_stream_takes_it(
    stage: Stage, metastore: HiveMetastore, tmp_path: Path
) -> None:
    write_click_files(stage.feed, FILES, rate=12)
    metastore.ask("CREATE SCHEMA web")
    metastore.done(stage, "run", "--until", "caught-up")
    stage.write_spec(clicks_spec() | {"sink": {"table": TABLES[0], "path": "lake"}})
    write_click_files(stage.feed, FILES + 2, rate=12)
    metastore.done(stage, "run", "--until", "drained", "--apply")
    moved = f"FROM {TABLES[0]} SELECT count(*), count_if(input_file_name() LIKE '%/lake/sessions/%')"
    ((found, at_the_new_place),) = metastore.ask(moved)[0]
    assert found == at_the_new_place > 0

    metastore.done(stage, "report")
    daily, history = metastore.count("web.sessions_daily", "web.sessions_history")
    assert daily > 0
    assert history >= 0
    other = Stage.set_up(tmp_path / "other", clicks_spec() | {"sink": {"table": TABLES[0]}}, name="visits")
    assert metastore.run(other, "run", "--until", "caught-up").returncode == InvalidSpec.exit_code


def test_a_metastore_that_is_away_stops_a_start_and_no_restore(
    stage: Stage, metastore: HiveMetastore, tmp_path: Path
) -> None:
    files, away = write_click_files(stage.feed, FILES, rate=12), HiveMetastore(tmp_path, NOBODY)
    metastore.ask("CREATE SCHEMA web")
    metastore.done(stage, "run", "--until", "caught-up")
    before = landed(stage)
    refused = away.run(stage, "run", "--until", "drained")
    assert refused.returncode == StoreUnreachable.exit_code, refused.stderr[-4_000:]
    assert landed(stage) == before
    away.done(stage, "savepoint create", "--batch", str(SAVED_AFTER), "--id", "early")
    away.approved(stage, "restore", "early")
    assert landed(stage).sessions.total() < before.sessions.total()
    away.approved(stage, "rollback")
    assert landed(stage) == before
    metastore.done(stage, "run", "--until", "drained")
    assert_as_defined(stage, files)
