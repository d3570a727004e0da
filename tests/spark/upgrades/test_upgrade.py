"""An upgrade over another line of Spark and a patch of Delta: open sessions whole, the lineage before kept."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sessionizer.control.execution import execute
from sessionizer.control.records.operation_record import Ending, read_operations
from sessionizer.control.records.process_records import request_stop
from sessionizer.control.records.supervision_records import DesiredState, read_desired
from sessionizer.errors import (
    EngineChanged,
    LeaseHeld,
    NotAccepted,
    OperationPending,
    PlanChanged,
    ReplayDiffers,
    StreamMovedOn,
)
from sessionizer.home.data_files import list_names
from sessionizer.lineage.fingerprint import (
    DELTA,
    FINGERPRINT_FILE,
    SPARK,
    present_fingerprint,
    read_fingerprint,
    require_same_engine,
    write_fingerprint,
)
from sessionizer.lineage.kept_spec import SPEC_FILE
from sessionizer.spark.state.commands.moves import ApplyRunner
from sessionizer.state.commands.upgrades import Upgrade
from sessionizer.state.lineages.origin import ORIGIN_FILE, lineage_before
from sessionizer.state.proof.result import list_kept_pages
from sessionizer.stream_spec.decisions import document_of
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import assert_as_defined, assert_path_as_defined, landed, table_rows
from support.faults.bad_clicks import line
from support.histories.real_stream import BesideADriver
from support.places import REPOSITORY, known, opened
from support.processes.driver_process import DriverProcess, run_to_end
from support.processes.in_process import catch_up, drain
from support.processes.kafka_broker import KafkaBroker
from support.releases.environments import CUTS_ELSEWHERE, release_with, type_with
from support.streams.click_files import ClickFiles, write_aside, write_click_files
from support.streams.kafka_clicks import Brought, brought_to_delta, brought_to_kafka
from support.streams.stage import Stage, clicks_spec
from support.verbs.begun_restore import approved, carry_out


def done_by(found: ApplyRunner) -> str:
    done = execute(approved(found), found)
    assert done.outcome is Ending.DONE
    return str(done.lineage_to)


@pytest.fixture
def stage(spark: SparkSession, tmp_path: Path) -> Stage:
    """A stream with one open session, whose lineage another line of Spark is noted to have made."""
    stage = with_a_click(spark, tmp_path, clicks_spec())
    note_made_by(stage, SPARK, "4.1.9")
    return stage


def with_a_click(spark: SparkSession, root: Path, spec: dict[str, Any]) -> Stage:
    stage = Stage.begun(root, spec)
    (stage.feed / "0.json").write_bytes(line(0))
    catch_up(spark, stage)
    return stage


def note_made_by(stage: Stage, program: str, version: str) -> None:
    assert stage.lineage
    born = present_fingerprint()
    write_fingerprint(stage.stream_home, stage.lineage, replace(born, versions={**born.versions, program: version}))


def upgrading(spark: SparkSession, stage: Stage, command: Upgrade | None = None) -> ApplyRunner:
    home, spec = stage.stream_home, stage.spec()
    return ApplyRunner(spark=spark, home=home, command=command or Upgrade(), spec=spec, savepoints=home.savepoints)


@pytest.mark.parametrize(("sql", "is_same"), [("upper((user_id))", True), ("lower(user_id)", False)])
def test_spark_finds_an_expression_that_is_only_written_otherwise(
    spark: SparkSession, tmp_path: Path, sql: str, is_same: bool
) -> None:
    mapping = clicks_spec()["mapping"]
    stage = with_a_click(spark, tmp_path, {**clicks_spec(), "mapping": {**mapping, "key": "upper(user_id)"}})
    stage.write_spec({**clicks_spec(), "mapping": {**mapping, "key": sql}})
    (found,) = upgrading(spark, stage).look().decision.differences
    assert found.name == "mapping.key"
    assert found.verdict == ("in place" if is_same else "partial")
    if is_same:
        assert done_by(upgrading(spark, stage)) == stage.lineage
        assert not upgrading(spark, stage).look().is_needed


@pytest.mark.long
def test_without_the_open_sessions_it_goes_on_from_the_same_place(spark: SparkSession, tmp_path: Path) -> None:
    stage = with_a_click(spark, tmp_path, clicks_spec())
    home, before = stage.stream_home, stage.lineage
    found = upgrading(spark, stage, Upgrade(stateless=True))
    plan = found.look()
    assert plan.is_possible
    assert "LOST: about 1 open session." in "\n".join(plan.decision.lines())
    assert done_by(found) == stage.lineage != before
    (stage.feed / "1.json").write_bytes(line(1))
    catch_up(spark, stage)
    drain(spark, stage)
    (session,) = table_rows(stage.table("sessions"))
    assert session["event_count"] == 1, "the event after the upgrade alone: the one before it is not read again"
    assert len(list(opened(home.savepoints).iterdir())) == 1, "the way back"


def test_an_upgrade_of_the_engine_keeps_open_sessions_and_the_lineage_before(spark: SparkSession, stage: Stage) -> None:
    home, before = stage.stream_home, stage.lineage
    with pytest.raises(NotAccepted):
        done_by(upgrading(spark, stage))
    assert (read_operations(home)[-1].outcome, stage.lineage) == (Ending.ABANDONED, before)

    after = done_by(upgrading(spark, stage, Upgrade(accept=(SPARK,))))
    assert (stage.lineage, lineage_before(home, after)) == (after, before)
    noted = known(FINGERPRINT_FILE.of(home, after).require())
    assert noted.versions[SPARK] == spark.version
    require_same_engine(home, after)
    with pytest.raises(EngineChanged):
        require_same_engine(home, str(before))

    note_made_by(stage, DELTA, "4.4.99")
    assert done_by(upgrading(spark, stage)) == after, "a patch release is taken in place"
    assert not upgrading(spark, stage).look().is_needed

    (stage.feed / "1.json").write_bytes(line(1))
    catch_up(spark, stage)
    drain(spark, stage)
    (session,) = table_rows(stage.table("sessions"))
    assert session["event_count"] == 2, "the event before the upgrade and the one after it"


def first_read(root: Path, count: int, first: int, **rules: Any) -> tuple[Stage, ClickFiles, list[Path]]:
    """A stream of which a driver has read the first files of clicks: the stream, the rows of all, and the files."""
    stage, (rows, files) = Stage.set_up(root / "stream", clicks_spec(**rules)), write_aside(root, count, rate=12)
    stage.bring(files[:first])
    run_to_end(stage, "first", until="caught-up")
    return stage, rows, files


def names_read(stage: Stage) -> set[str]:
    return {name for batch in CheckpointLog(stage.checkpoint).committed() for name in batch.files}


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_bad_release_is_not_activated(tmp_path: Path) -> None:
    stage, clicks, files = first_read(tmp_path, 7, 5, idle_after=None)
    home, before = stage.stream_home, stage.lineage
    release = release_with(CUTS_ELSEWHERE, tmp_path / "release")
    with DriverProcess.start(stage, "old", until="stopped") as driver:
        shown = type_with(release, "upgrade", stage, "--prove", "--json")
        plan = json.loads(shown.stdout)
        assert (plan["possible"], plan["steps"][0]) == (True, "Prove")

        ended = type_with(release, "upgrade", stage, "--prove", "--approve", plan["digest"])
        assert ended.returncode == ReplayDiffers.exit_code, ended.stderr[-4_000:]
        assert (stage.lineage, read_operations(home), read_desired(home).state) == (before, [], DesiredState.RUNNING)
        (page,) = list_kept_pages(home)
        assert "unexplained" in (home.control / "proofs" / f"{page}.html").read_text()
        assert list(opened(home.proofs).iterdir()) == []
        assert not driver.ended

        stage.bring(files[5:])
        driver.wait_for(lambda: names_read(stage) >= {file.name for file in files}, "reading on")
        request_stop(home, driver.uid, "the test is over")
        assert driver.wait() == 0
    assert read_fingerprint(home, str(before)).code == present_fingerprint().code
    run_to_end(stage, "last")
    assert_as_defined(stage, clicks)


REFUSED = {error.exit_code for error in (OperationPending, StreamMovedOn, PlanChanged, LeaseHeld)}


def upgrade(stage: Stage, *flags: str) -> tuple[int, str]:
    ended = type_with(REPOSITORY, "upgrade", stage, *flags)
    return ended.returncode, ended.stdout


@pytest.mark.long
@pytest.mark.timeout(900)
def test_one_of_two_plans_is_carried_out(tmp_path: Path) -> None:
    stage, files, clicks = first_read(tmp_path, 4, 2)
    home, before = stage.stream_home, str(stage.lineage)
    stage.write_spec({**clicks_spec(), "trigger_interval": "2 seconds"})
    kinds = ((), ("--new-lineage",))
    digests = [json.loads(upgrade(stage, *kind, "--json")[1])["digest"] for kind in kinds]
    with ThreadPoolExecutor() as users:
        running = [
            users.submit(upgrade, stage, *kind, "--approve", digest)
            for kind, digest in zip(kinds, digests, strict=True)
        ]
        codes = [each.result()[0] for each in running]
    assert 0 in codes
    assert set(codes) - {0} < REFUSED
    (done,) = (record for record in read_operations(home) if record.outcome is Ending.DONE)
    assert stage.lineage == done.lineage_to
    assert read_desired(home).state is DesiredState.RUNNING
    assert set(list_names(home.lineages)) == {before, done.lineage_to}, "nothing is left of the other"
    record = known(SPEC_FILE.of(home, str(stage.lineage)).require())
    assert record.document == document_of(stage.spec())

    stage.bring(clicks[2:])
    run_to_end(stage, "last")
    assert_path_as_defined(stage, files)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_live_driver_reads_on_while_a_replaying_upgrade_makes_its_lineage(tmp_path: Path) -> None:
    stage, files, clicks = first_read(tmp_path, 9, 2, idle_after=None)
    home, before, flags = stage.stream_home, str(stage.lineage), ("--replay", "--key-groups", "6")
    with ThreadPoolExecutor() as users, DriverProcess.start(stage, "old", until="stopped") as driver:
        plan = json.loads(upgrade(stage, *flags, "--json")[1])
        assert plan["steps"][:3] == ["WriteSavepoint", "StartLineage", "Compare"]
        assert "DeleteLaterRows" in plan["steps"]
        running = users.submit(upgrade, stage, *flags, "--approve", plan["digest"])
        driver.wait_for(lambda: list_names(home.savepoints) != [], "the savepoint")
        stage.bring(clicks[2:4])
        driver.wait_for(lambda: names_read(stage) >= {file.name for file in clicks[:4]}, "reading on")
        stage.bring(clicks[4:6])
        assert running.result()[0] == 0
        assert driver.wait() == 0
    origin = known(ORIGIN_FILE.of(home, str(stage.lineage)).require())
    left = CheckpointLog(home.checkpoint(before)).committed()
    assert origin.batch_id < len(left) - 1, "the driver had read on"
    stage.bring(clicks[6:])
    run_to_end(stage, "last")
    assert_path_as_defined(stage, files)


@pytest.fixture(params=["kafka", "delta"])
def brought(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Brought:
    if request.param == "delta":
        return brought_to_delta(spark, tmp_path)
    broker: KafkaBroker = request.getfixturevalue("kafka_broker")
    return brought_to_kafka(broker, request.getfixturevalue("kafka_topic"))


@pytest.mark.long
def test_a_replaying_upgrade_reads_a_topic_and_a_table_again(
    spark: SparkSession, tmp_path: Path, brought: Brought
) -> None:
    """Beside a stream of the same source, which reads the same rows in the same batches and is not upgraded."""
    source, bring = brought
    spec = {**clicks_spec(idle_after=None), "source": source}
    upgraded, steady = (Stage.begun(tmp_path / name, spec) for name in ("upgraded", "steady"))
    files = iter(write_click_files(tmp_path / "clicks", 12, rate=12).values())

    def read() -> None:
        bring([row for rows in islice(files, 4) for row in rows])
        for stage in (upgraded, steady):
            catch_up(spark, stage)

    read()
    command, home = Upgrade(replay=True, key_groups=6, canary=0), upgraded.stream_home
    before, now, savepoints = landed(upgraded).sessions, upgraded.spec(), home.savepoints
    record = carry_out(
        BesideADriver(spark=spark, home=home, command=command, spec=now, savepoints=savepoints, meanwhile=read)
    )
    assert (record.outcome, record.lineage_to) == (Ending.DONE, upgraded.lineage)
    assert record.days, "sessions that the driver wrote meanwhile are deleted"
    assert landed(upgraded).sessions == before
    catch_up(spark, upgraded)
    read()
    for stage in (upgraded, steady):
        drain(spark, stage)
    assert landed(steady).sessions
    assert landed(upgraded) == landed(steady)
