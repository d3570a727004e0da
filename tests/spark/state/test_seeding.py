"""A lineage that begins with a state, by a seed or an applied spec: killed, or wrong, it leaves the stream as it was.

With every open session, as the definition has a stream whose spec changes.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionizer.checkpoint.log_entries import EVENTS, read_begun_batch, read_last_commit, read_planned_batch
from sessionizer.cli.state_commands.course import is_done_already
from sessionizer.control.execution import execute
from sessionizer.control.operation import Operation
from sessionizer.control.records.operation_record import Ending, OperationStage, pending_operation
from sessionizer.core.definition.rules import Clock
from sessionizer.deployment.upgrade_plan import APPLY, UpgradeRequest, plan_upgrade
from sessionizer.errors import HalfWrittenBatch, InvalidSpec, PlanChanged, UnfaithfulState
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import list_names
from sessionizer.home.names import STREAMED
from sessionizer.home.roots import DataPath, uri_of
from sessionizer.lineage.batch_log import OpenSessions
from sessionizer.lineage.canary.canary_record import read_canary
from sessionizer.lineage.kept_spec import SPEC_FILE
from sessionizer.spark.internals.delta_log import last_version
from sessionizer.spark.state.commands.moves import ApplyRunner
from sessionizer.spark.state.lineages.new_lineage import DividedEvents, pack
from sessionizer.spark.state.open_events import FirstLog, KeptState, keep_logs
from sessionizer.state.commands.upgrades import Apply
from sessionizer.state.lineages.origin import ORIGIN_FILE, lineage_before
from sessionizer.state.savepoints.listing import list_savepoints
from sessionizer.stream_spec.decisions import document_of
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import landed
from support.places import known
from support.processes.in_process import catch_up, drain, read_clicks
from support.processes.kafka_broker import KafkaBroker
from support.streams.changing_stream import (
    assert_as_defined,
)
from support.streams.click_files import known_rows
from support.streams.kafka_clicks import Brought, brought_to_delta, brought_to_kafka
from support.streams.stage import Stage, clicks_spec
from support.streams.strategies import ALL_MODES, Log, examples_of, logs
from support.verbs.begun_restore import approved
from support.verbs.reseeded_stream import reseed, tell_reseeded
from support.verbs.scripted_runner import Killed


@pytest.fixture(scope="module")
def half_read(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """A stopped stream with open sessions. What is refused leaves it as it was, what is not has it go on."""
    return read_clicks(spark, tmp_path_factory.mktemp("half-read"), 3, rate=40)[0]


def test_a_state_that_came_out_wrong_is_not_gone_on_with(
    spark: SparkSession, half_read: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_one_share(divided: DividedEvents, folder: DataPath) -> None:
        (row,) = divided.shares.limit(1).collect()
        pack(replace(divided, shares=divided.shares.where(divided.shares["blob"] != row["blob"])), folder)

    monkeypatch.setattr("sessionizer.spark.state.lineages.new_lineage.pack", without_one_share)
    half_read.write_spec({**clicks_spec(), "key_groups": 3})
    before = half_read.lineage, list_names(half_read.stream_home.lineages)
    with pytest.raises(UnfaithfulState, match=r"key group \d .* \d+ open events .* \d+"):
        reseed(spark, half_read)
    half_read.write_spec(clicks_spec())
    assert (half_read.lineage, list_names(half_read.stream_home.lineages)) == before


def test_a_state_that_lost_something_on_its_way_is_not_gone_on_with(
    spark: SparkSession, half_read: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_one_group(spark: SparkSession, state: KeptState) -> FirstLog:
        whole = keep_logs(spark, state)
        (row,) = whole.rows.select("key_group").limit(1).collect()
        return FirstLog(whole.rows.where(whole.rows["key_group"] != row["key_group"]), whole.blobs)

    monkeypatch.setattr("sessionizer.spark.state.lineages.new_lineage.keep_logs", without_one_group)
    before = half_read.lineage, list_names(half_read.stream_home.lineages)
    with pytest.raises(UnfaithfulState, match=r"key group \d .* \d+ blobs .* 0"):
        reseed(spark, half_read)
    assert (half_read.lineage, list_names(half_read.stream_home.lineages)) == before


def test_what_is_open_is_known_before_the_first_batch(spark: SparkSession, half_read: Stage) -> None:
    home, old = half_read.stream_home, str(half_read.lineage)
    before = OpenSessions(home.lineage(old).open_sessions)
    last = read_last_commit(half_read.checkpoint)
    lineage = reseed(spark, half_read)
    now = OpenSessions(home.lineage(lineage).open_sessions)
    assert 0 < now.total <= before.total
    assert known(now.latest_due_ms) <= known(before.latest_due_ms)
    origin = known(ORIGIN_FILE.of(home, lineage).require())
    assert (origin.verb, origin.parent, origin.batch_id) == ("rescale", old, last)


def cut_short_after_writing(spark: SparkSession, stage: Stage) -> None:
    """Undo what came after the last batch that wrote, and that one's commit. A batch without data writes nothing."""
    log = CheckpointLog(stage.checkpoint)
    written = max(last_version(spark, uri_of(stage.table(name)), str(stage.lineage)) for name in STREAMED)
    for batch in sorted((each.batch_id for each in log.committed()), reverse=True):
        if batch >= written:
            log.forget_last_commit()
        if batch > written:
            log.forget_last_offsets()
    assert (read_begun_batch(stage.checkpoint), read_last_commit(stage.checkpoint)) == (written, written - 1)


def test_a_batch_that_is_half_written_is_finished_first(spark: SparkSession, half_read: Stage) -> None:
    drain(spark, half_read)
    expected = landed(half_read)
    cut_short_after_writing(spark, half_read)
    before = half_read.lineage
    with pytest.raises(HalfWrittenBatch):
        reseed(spark, half_read)
    assert half_read.lineage == before
    catch_up(spark, half_read)
    assert landed(half_read) == expected


ROWS = 600
PARTS = 3


@pytest.fixture
def kafka(kafka_broker: KafkaBroker, kafka_topic: str) -> Brought:
    return brought_to_kafka(kafka_broker, kafka_topic)


@pytest.fixture
def delta(spark: SparkSession, tmp_path: Path) -> Brought:
    return brought_to_delta(spark, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["kafka", "delta"])
def test_the_source_goes_on_where_it_stood(
    spark: SparkSession, tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    source, bring = request.getfixturevalue(kind)
    moved, steady = (Stage.begun(tmp_path / name, {**clicks_spec(), "source": source}) for name in ("moved", "steady"))
    rows = known_rows(ROWS)
    size = ROWS // PARTS
    for part in range(PARTS):
        bring(rows[part * size : (part + 1) * size])
        if part:
            before = read_planned_batch(moved.checkpoint, read_last_commit(moved.checkpoint) or 0).ends[EVENTS]
            moved.write_spec({**clicks_spec(), "source": source, "key_groups": 4 + part})
            reseed(spark, moved, partitions=1 + part)
            assert read_planned_batch(moved.checkpoint, 0).ends[EVENTS] == before
        for stage in (moved, steady):
            catch_up(spark, stage)
    for stage in (moved, steady):
        drain(spark, stage)
    expected = landed(steady)
    assert expected.sessions
    assert expected.late
    assert landed(moved) == expected


OF_EACH_MODE = 2


def rich_logs(mode: Clock, count: int) -> list[Log]:
    """Logs of many events in several batches, among which ids repeat."""
    found = [log for log in examples_of(logs([mode], drained=True), 300) if is_rich(log)]
    assert len(found) >= count
    return found[:count]


def is_rich(log: Log) -> bool:
    events = [event for batch in log.batches for event in batch.events]
    ids = {(event.key, event.event_id) for event in events}
    return len(events) >= 20 and len(events) - len(ids) >= 5 and len(log.batches) >= 7


NUMBERS = [(0, 2), *((number, 4) for number in range(OF_EACH_MODE))]
"""Which log, and how many drivers go through it, each but the first in a lineage that was seeded."""
CASES = [(mode, *number) for mode in ALL_MODES for number in NUMBERS]


@pytest.mark.long
@pytest.mark.parametrize(("mode", "number", "drivers"), CASES)
def test_a_stream_that_was_reseeded_equals_the_definition(
    spark: SparkSession, tmp_path: Path, mode: Clock, number: int, drivers: int
) -> None:
    log = rich_logs(mode, OF_EACH_MODE)[number]
    told = tell_reseeded(spark, log, seed=number, drivers=drivers, root=tmp_path)
    assert len(told.editions) == drivers
    assert_as_defined(told)


def applying(spark: SparkSession, stage: Stage, *, anew: bool = False) -> ApplyRunner:
    """Whatever open sessions lack is accepted."""
    home, spec = stage.stream_home, stage.spec()
    lacking = plan_upgrade(home, (stage.lineage or "", 0), spec, UpgradeRequest(APPLY)).unaccepted
    command = Apply(new_lineage=anew, accept=tuple(each.name for each in lacking))
    return ApplyRunner(spark=spark, home=home, command=command, spec=spec, savepoints=home.savepoints)


def apply_anew(spark: SparkSession, stage: Stage, _: int) -> str:
    found, before = applying(spark, stage, anew=True), stage.lineage
    lineage = known(execute(approved(found), found).lineage_to)
    assert (stage.lineage, lineage_before(found.home, lineage)) == (lineage, before)
    canary = known(read_canary(found.home, lineage))
    assert (canary.verb, canary.before, canary.outcome) == (APPLY, before, None)
    assert canary.baseline.life.read > 0
    return lineage


def rich_log(batches: int) -> Log:
    found = examples_of(logs([Clock.EVENT_TIME], drained=True), 300)
    return next(
        log for log in found if len(log.batches) == batches and sum(len(batch.events) for batch in log.batches) >= 20
    )


@pytest.mark.long
@pytest.mark.parametrize(("drivers", "batches"), [(2, 4), (4, 8)])
def test_a_stream_that_goes_on_by_changed_specs_equals_the_definition(
    spark: SparkSession, tmp_path: Path, drivers: int, batches: int
) -> None:
    told = tell_reseeded(spark, rich_log(batches), seed=5, drivers=drivers, root=tmp_path, go_on=apply_anew)
    assert len(told.editions) == drivers
    assert_as_defined(told)


def test_what_needs_no_new_lineage_is_applied_in_place_and_a_kill_changes_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    mapping = clicks_spec()["mapping"]
    mapping = {**mapping, "payload": {**mapping["payload"], "units": "cast(amount as int)"}}
    stage, _ = read_clicks(spark, tmp_path, 1, {**clicks_spec(), "mapping": mapping})
    home, lineage = stage.stream_home, str(stage.lineage)
    for column, kind, said in (
        ("units", "bigint", r"mapping\.payload\.units is '.*bigint.* table sessions"),
        ("amount", "int", r"mapping\.payload\.amount is '.*\(int\)"),
    ):
        payload = {**mapping["payload"], column: f"cast(amount as {kind})"}
        stage.write_spec({**clicks_spec(), "mapping": {**mapping, "payload": payload}})
        with pytest.raises(InvalidSpec, match=said):
            applying(spark, stage).look().require_possible()

    stage.write_spec({**clicks_spec(gap_timeout="5 seconds"), "mapping": mapping})
    found = applying(spark, stage)
    begun = approved(found)

    def die(step: str) -> None:
        assert step.startswith("savepoint: apply-")
        raise Killed

    found.say = die
    with pytest.raises(Killed):
        execute(begun, found)
    pending = known(pending_operation(home))
    assert pending.step is OperationStage.STOPPED
    done = execute(Operation(home, pending, lambda: None), applying(spark, stage))
    assert (done.outcome, done.lineage_to, stage.lineage) == (Ending.DONE, lineage, lineage)
    noted = known(SPEC_FILE.of(home, lineage).require())
    assert noted.document == document_of(stage.spec())
    assert [savepoint.id for savepoint in list_savepoints(home.savepoints, epoch_ms())] == [f"apply-{pending.id}"]
    saved = Operation(home, replace(pending, step=OperationStage.SAVED), lambda: None)
    assert execute(saved, applying(spark, stage)).lineage_to == lineage, "killed after it"
    assert read_canary(home, lineage) is None
    assert not applying(spark, stage).look().is_needed
    assert is_done_already(home, APPLY, done.digest)

    stage.write_spec({**clicks_spec(), "key_groups": 6})
    found = applying(spark, stage)
    begun = approved(found)
    stage.write_spec({**clicks_spec(), "key_groups": 7})
    with pytest.raises(PlanChanged):
        execute(begun, applying(spark, stage))
    assert (begun.record.outcome, stage.lineage) == (Ending.ABANDONED, lineage)
