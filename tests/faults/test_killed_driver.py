"""A driver killed at any moment of a batch, its Python, its JVM or both: the next one goes on, nothing is doubled."""

import time
from collections.abc import Callable
from enum import StrEnum
from itertools import count, cycle
from pathlib import Path
from random import Random

import pytest
from upath import UPath

from sessionizer.control.records.driver_records import HEARTBEAT_FILE
from sessionizer.control.records.operation_record import Ending, read_operations, require_no_operation
from sessionizer.control.records.process_records import ExitOutcome
from sessionizer.control.records.supervision_records import DesiredState, read_desired
from sessionizer.control.timeouts import STALE_AFTER_MS
from sessionizer.errors import StoreUnreachable
from sessionizer.fleet.finding import HealthWord
from sessionizer.fleet.streams import view_spec
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import list_names
from sessionizer.state.savepoints.listing import list_savepoints
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import assert_as_defined, assert_landed, batches_of, landed
from support.places import known
from support.processes.driver_process import DriverProcess, TypedCommand, kill_process, run_to_end
from support.stores.control_fixtures import AND_ON_HDFS_IN_THE_LONG_RUN, IN_EVERY_STORE, ON_A_PATH_AND_HDFS, new_folder
from support.stores.object_stores import ObjectStoreServer
from support.streams.click_files import write_click_files
from support.streams.moments import QUERY_STARTS, Moment, freeze_at
from support.streams.stage import Stage, clicks_spec

FILES = 24
EVERYTHING_LEFT = 1_000
"""Files per batch of the driver that finishes: how it got there is over, it need not take long."""


class Victim(StrEnum):
    PYTHON = "python"
    JVM = "jvm"
    BOTH = "both"


def kill(driver: DriverProcess, victim: Victim, stage: Stage) -> None:
    if victim is Victim.PYTHON:
        driver.kill_python()
    elif victim is Victim.BOTH:
        driver.kill_all()
    else:
        assert driver.kill_jvm() == 22
        ended = stage.exit_of(driver.uid)
        assert (ended.outcome, ended.terminal, ended.error_type) == (ExitOutcome.FAILED, False, "driver_jvm_died")


def kill_at(stage: Stage, moment: Moment, victim: Victim, uid: str) -> None:
    with DriverProcess.start(stage, uid) as driver:
        freeze_at(moment, driver, stage)
        kill(driver, victim, stage)


def finish(stage: Stage) -> None:
    stage.write_spec(clicks_spec(files_per_batch=EVERYTHING_LEFT))
    run_to_end(stage, "last", apply=True)


@AND_ON_HDFS_IN_THE_LONG_RUN
def test_killed_between_its_tables(tmp_path: Path, data: str | None) -> None:
    """The moment that only Delta's own memory of the batch makes harmless: some tables have it, others do not."""
    stage = Stage.set_up(tmp_path, clicks_spec(), data=data)
    files = write_click_files(stage.feed, FILES // 2)
    kill_at(stage, Moment.BETWEEN_TABLES, Victim.BOTH, "d0")
    health = view_spec(stage.spec(), stage.home).health
    assert (health.word, health.rule) == (HealthWord.DOWN, "no_driver")
    finish(stage)
    assert_as_defined(stage, files)


@pytest.mark.long
@IN_EVERY_STORE
def test_killed_at_every_moment_in_turn(tmp_path: Path, data: str | None) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec(), data=data)
    files = write_click_files(stage.feed, FILES)
    for number, moment, victim in zip(count(), Moment, cycle(Victim), strict=False):
        kill_at(stage, moment, victim, f"d{number}")
    finish(stage)
    assert_as_defined(stage, files)


@pytest.mark.long
@pytest.mark.parametrize("victim", Victim)
@pytest.mark.parametrize("moment", Moment)
def test_killed_twice_at(moment: Moment, victim: Victim, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec())
    files = write_click_files(stage.feed, FILES)
    kill_at(stage, moment, victim, "d0")
    kill_at(stage, moment, victim, "d1")
    finish(stage)
    assert_as_defined(stage, files)


@pytest.mark.long
@ON_A_PATH_AND_HDFS
def test_killed_time_and_again_before_anything_is_done(tmp_path: Path, data: str | None) -> None:
    """In the replay of a batch, and in the replay of that replay."""
    stage = Stage.set_up(tmp_path, clicks_spec(), data=data)
    files = write_click_files(stage.feed, FILES)
    kill_at(stage, Moment.BETWEEN_TABLES, Victim.BOTH, "d0")
    chance = Random(7)
    for number in range(1, 9):
        with DriverProcess.start(stage, f"d{number}") as driver:
            driver.wait_for_line(QUERY_STARTS)
            time.sleep(chance.uniform(0, 8))
            driver.kill_all()
    finish(stage)
    assert_as_defined(stage, files)


CLUSTER = "local-cluster[2,1,1024]"
"""Two workers of one core and 1,024 MB each."""


@pytest.mark.long
def test_the_stream_outlives_an_executor(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec())
    files = write_click_files(stage.feed, 10)
    with DriverProcess.start(stage, "a", master=CLUSTER) as driver:
        for _ in range(2):
            freeze_at(Moment.BATCH_RUNS, driver, stage)
            kill_process(driver.executors()[0])
            driver.thaw()
        assert driver.wait() == 0, driver.said[-4_000:]
    assert_as_defined(stage, files)


SAVED_FILES, FILES_ON_S3 = 3, 6
RESTORE = ("restore",)
KILLED_AT = ("new lineage: seeded", "rows deleted", "new lineage: activated")


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_a_restore_killed_at_each_line_that_it_says_is_finished_by_the_same_command(
    tmp_path: Path, s3_folder: str
) -> None:
    """The stream has its source and all it owns in S3."""
    spec = clicks_spec()
    spec["source"]["path"] = f"{s3_folder}/feed"
    stage = Stage.set_up(tmp_path, spec, data=f"{s3_folder}/lake", control=f"{s3_folder}/control")

    def bring(some: list[Path]) -> None:
        for file in some:
            (UPath(f"{s3_folder}/feed") / file.name).write_bytes(file.read_bytes())

    files = write_click_files(tmp_path / "clicks", FILES_ON_S3)
    clicks = sorted((tmp_path / "clicks").iterdir())
    bring(clicks[:SAVED_FILES])
    run_to_end(stage, "first", until="caught-up")
    made = TypedCommand.start(stage, ("savepoint", "create"), "--id", "middle", "--hurry")
    assert made.end() == 0, made.said
    left = known(stage.lineage)
    then = CheckpointLog(stage.checkpoint).committed()
    bring(clicks[SAVED_FILES:])
    run_to_end(stage, "second", until="caught-up")
    later = landed(stage)

    digest = TypedCommand.answer(stage, RESTORE, "middle")["digest"]
    for line in KILLED_AT:
        typed = TypedCommand.start(stage, RESTORE, "middle", "--approve", digest)
        typed.wait_for(line)
        typed.kill()
        assert stage.lineage == left or line == KILLED_AT[-1], line
    home = stage.stream_home
    (begun,) = read_operations(home)
    for words in ((("carry-out",), begun.id), (RESTORE, "middle", "--approve", digest)):
        typed = TypedCommand.start(stage, *words)  # it may have been over when it was killed, and it is now
        assert typed.end() == 0, typed.said

    require_no_operation(home)
    assert [each.outcome for each in read_operations(home)] == [Ending.DONE]
    assert read_desired(home).state is DesiredState.RUNNING
    assert len(list_names(home.lineages)) == 2, "what was killed is gone"
    assert landed(stage).sessions.total() < later.sessions.total()
    run_to_end(stage, "last")
    since = CheckpointLog(stage.checkpoint).committed()[1:]
    rows = [row for name in sorted(files) for row in files[name]]
    assert_landed(stage, [*batches_of(then, files), *batches_of(since, files)], rows)


SILENT_S = 200.0
"""Longer than a supervisor waits for a beat. The driver looks at its tables once a minute."""


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_a_driver_goes_on_and_a_reader_gives_up(
    tmp_path: Path,
    object_store_servers: Callable[[str], ObjectStoreServer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = object_store_servers("s3")
    stage = Stage.set_up(tmp_path, clicks_spec(), data=f"{new_folder(server, monkeypatch)}/lake")
    files = write_click_files(tmp_path / "clicks", 6)
    clicks = sorted((tmp_path / "clicks").iterdir())

    def bring(some: list[Path]) -> None:
        for file in some:
            file.rename(stage.feed / file.name)

    bring(clicks[:2])
    with DriverProcess.start(stage, "live", until="stopped") as driver:
        driver.wait_for_line("batch 0")
        server.freeze()
        frozen_at = time.monotonic()
        bring(clicks[2:4])
        with pytest.raises(StoreUnreachable):
            list_savepoints(stage.stream_home.savepoints, epoch_ms())
        time.sleep(max(0.0, SILENT_S - (time.monotonic() - frozen_at)))
        beat = known(HEARTBEAT_FILE.of(stage.stream_home).read())
        assert epoch_ms() - beat.at < STALE_AFTER_MS // 2
        server.thaw()
        bring(clicks[4:])
        assert not driver.ended
    run_to_end(stage, "last")
    assert_as_defined(stage, files)
