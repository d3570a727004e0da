"""Recorded batches replayed on a copy: the same rows by the same code, others by another, and the stream untouched."""

import functools
from pathlib import Path
from typing import Any, Final

import pytest
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionizer.checkpoint.log_entries import list_committed_batches, read_last_commit
from sessionizer.errors import NothingToProve, ReplayDiffers
from sessionizer.lineage.excluded_ranges import EXCLUDED_RANGES_FILE, ExcludedRange, ExcludedRanges
from sessionizer.spark.ingest import punctuation
from sessionizer.spark.proof.prove import ProofRequest, add_to_proof_table, prove_by_replay
from sessionizer.spark.sinks.write import Sinks
from sessionizer.state.proof.comparison import DifferenceKind
from sessionizer.state.proof.result import Proof, ProofVerdict
from sessionizer.stream_spec.decisions import document_of
from sessionizer.stream_spec.document.stream import StreamSpec
from support.expected.file_accesses import folder_digest
from support.faults.bad_clicks import line
from support.places import known, opened
from support.processes.driver_process import DriverProcess
from support.processes.in_process import catch_up, read_clicks
from support.processes.kafka_broker import KafkaBroker
from support.releases.environments import CUTS_ELSEWHERE, REFACTORING, Patch, prove_with, release_with
from support.streams.click_files import known_rows, many_clicks_spec, write_aside, write_click_files, write_many_clicks
from support.streams.kafka_clicks import kafka_spec, produce
from support.streams.stage import Stage, clicks_spec

MEASURES = {"spent": "sum(amount)", "pages": "count(page)"}
FLOOR_MS = 1_750_000_030_000


def written_spec(**rules: Any) -> dict[str, Any]:
    """Clicks whose files Spark would move away once it has read them."""
    spec = clicks_spec(1, **rules) | {"measures": MEASURES}
    spec["source"]["options"] |= {"cleanSource": "off"}
    return spec


@pytest.fixture(scope="module")
def stage(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """A stream of five batches and one that a punctuation brought."""
    stage, (_, files) = (
        Stage.begun(root := tmp_path_factory.mktemp("proved"), written_spec()),
        write_aside(root, 5, rate=12),
    )
    stage.bring(files[:2])
    caught_up(spark, stage)
    punctuation.move_watermark(stage.stream_home.punctuations(str(stage.lineage)), FLOOR_MS)
    stage.bring(files[2:])
    catch_up(spark, stage)
    return stage


def caught_up(spark: SparkSession, stage: Stage) -> Stage:
    catch_up(spark, stage)
    stage.record_spec()
    return stage


def proved(spark: SparkSession, stage: Stage, spec: dict[str, Any] | StreamSpec | None = None, **asked: Any) -> Proof:
    given = stage.spec() if spec is None else spec
    found = StreamSpec.model_validate({**given, "name": "clicks"}) if isinstance(given, dict) else given
    return prove_by_replay(spark, stage.stream_home, found, ProofRequest(**{"batches": 50, **asked}))


def assert_equal(proof: Proof) -> None:
    assert proof.verdict is ProofVerdict.EQUAL, list(proof.lines())
    assert proof.tables[0].identical > 0


def test_the_same_code_gives_the_same_rows_and_touches_nothing(spark: SparkSession, stage: Stage) -> None:
    before = folder_digest(stage.root)
    proof = proved(spark, stage)
    committed = sorted(list_committed_batches(stage.checkpoint))
    assert (proof.first, proof.last) == (committed[1], committed[-1])
    assert proof.verdict is ProofVerdict.EQUAL
    assert {table.table: (table.old, table.new) for table in proof.tables} == {
        table.table: (table.identical, table.identical) for table in proof.tables
    }
    assert all(table.identical for table in proof.tables)
    assert proof.events
    assert proof.release == ()
    opened(stage.stream_home.proofs).rmdir()  # empty: the copy is gone
    assert folder_digest(stage.root) == before


@pytest.mark.long
def test_a_changed_rule_explains_its_rows(spark: SparkSession, stage: Stage) -> None:
    proof = proved(spark, stage, written_spec(gap_timeout="5 seconds"), batches=3)
    sessions = proof.tables[0]
    assert proof.verdict is ProofVerdict.EXPLAINED
    assert sessions.explained
    assert {each.explained_by for each in sessions.differences} == {("rules.gap_timeout",)}
    assert all(not table.differences for table in proof.tables[1:])


@pytest.mark.long
def test_a_changed_timeout_explains_conflicting_duplicates(spark: SparkSession, tmp_path: Path) -> None:
    """Each user comes once, and each click twice, with two pages."""
    stage = Stage.set_up(tmp_path, written_spec())
    for number in range(7):
        twice = [line(number * 20, f"user-{number}", page=page) for page in ("/one", "/two")]
        (stage.feed / f"{number}.json").write_bytes(b"\n".join(twice))
        catch_up(spark, stage)
    stage.record_spec()
    *_, same = proved(spark, stage).tables
    assert (same.table, same.unexplained, same.explained) == ("conflicting_duplicates", 0, 0)
    assert same.identical >= 3
    proof = proved(spark, stage, written_spec(gap_timeout="25 seconds"))
    *_, shorter = proof.tables
    assert proof.verdict is ProofVerdict.EXPLAINED, list(proof.lines())
    assert "event.timeout_ms" in {column for each in shorter.differences for column in each.difference.columns}
    assert {each.explained_by for each in shorter.differences} == {("rules.gap_timeout",)}
    assert proof.tables[2].differences == ()


@pytest.mark.long
def test_a_changed_measure_explains_its_column_alone(spark: SparkSession, stage: Stage) -> None:
    changed = written_spec() | {"measures": MEASURES | {"spent": "sum(amount) + 1"}}
    (found,) = proved(spark, stage, changed, batches=2).tables[0].differences
    assert (found.difference.kind, found.difference.columns) == (DifferenceKind.COLUMNS, ("spent",))
    assert found.explained_by == ("measures.spent",)


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param({}, marks=pytest.mark.long),
        pytest.param({"source/options/maxFilesPerTrigger": "7"}, marks=pytest.mark.long),
        pytest.param({"source/columns": "{columns}, unused string"}, marks=pytest.mark.long),
        {"rules/client_timeouts": {"acme": "3 seconds"}},
    ],
    ids=["none", "option", "column", "timeout"],
)
def test_a_release_that_drops_rows_is_caught_whatever_edit_goes_with_it(
    spark: SparkSession, stage: Stage, monkeypatch: pytest.MonkeyPatch, edit: dict[str, Any]
) -> None:
    rows = Sinks._rows

    def fewer(self: Sinks, emitted: DataFrame, kind: str, batch_id: int) -> DataFrame:
        found = rows(self, emitted, kind, batch_id)
        return found.where(F.pmod(F.xxhash64("session_id"), F.lit(5)) > 0) if "session_id" in found.columns else found

    monkeypatch.setattr(Sinks, "_rows", fewer)
    spec = written_spec()
    for field, value in edit.items():
        *blocks, last = field.split("/")
        place = functools.reduce(lambda block, name: block[name], blocks, spec)
        place[last] = value.format(columns=place[last]) if last == "columns" else value
    proof = proved(spark, stage, spec, batches=3)
    assert proof.verdict is ProofVerdict.UNEXPLAINED
    found, *_ = (each for each in proof.tables[0].differences if not each.explained_by)
    assert found.difference.kind is DifferenceKind.ONLY_OLD
    assert 0 < found.difference.rows == proof.unexplained < proof.tables[0].old
    location = add_to_proof_table(spark, stage.stream_home, proof)
    added = spark.read.format("delta").load(location).where("explained_by = array() and kind <> 'identical'")
    (row,) = added.where(F.col("proof_id") == proof.id).collect()
    assert (row.verdict, row.table_name, row.rows) == ("unexplained", "sessions", proof.unexplained)


def test_a_batch_whose_files_are_gone_is_refused_by_name(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    newest, *_ = sorted(stage.feed.iterdir(), reverse=True)
    newest.rename(tmp_path / newest.name)
    try:
        with pytest.raises(NothingToProve, match=newest.name):
            proved(spark, stage, first=1)
        shorter = proved(spark, stage)
        assert shorter.first > 1
        assert newest.name in "".join(shorter.notes)
        assert shorter.verdict is ProofVerdict.EQUAL
    finally:
        (tmp_path / newest.name).rename(newest)


@pytest.mark.long
def test_batches_of_a_topic(spark: SparkSession, kafka_broker: KafkaBroker, kafka_topic: str, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, kafka_spec(kafka_broker.bootstrap_servers, kafka_topic))
    rows = known_rows(900)
    produce(kafka_broker, kafka_topic, rows[:600])
    caught_up(spark, stage)
    produce(kafka_broker, kafka_topic, rows[600:])
    caught_up(spark, stage)
    produce(kafka_broker, kafka_topic, known_rows(50))  # that no batch has read: nor does a replay
    proof = proved(spark, stage)
    assert_equal(proof)
    assert proof.events + 200 >= len(rows)
    assert proof.events < len(rows)


@pytest.mark.long
def test_batches_on_an_arrival_clock(spark: SparkSession, tmp_path: Path) -> None:
    spec = clicks_spec(time_mode="processing_time", idle_after=None, gap_timeout="2 seconds", max_events=20)
    assert_equal(proved(spark, read_clicks(spark, tmp_path, 6, spec).stage))


@pytest.mark.long
def test_a_file_that_is_left_out(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.begun(tmp_path, clicks_spec())
    write_click_files(stage.feed, 5, rate=12)
    uris = tuple(f"file:{file}" for file in sorted(stage.feed.iterdir())[2:3])
    out = ExcludedRanges((ExcludedRange("one", files=uris),))
    EXCLUDED_RANGES_FILE.of(stage.stream_home, str(stage.lineage)).write(out)
    proof = proved(spark, caught_up(spark, stage))
    assert_equal(proof)
    refused = spark.read.format("delta").load(str(stage.table("quarantine"))).where("reason = 'excluded'").count()
    assert proof.tables[2].identical >= refused > 0


@pytest.mark.long
def test_a_batch_of_which_rows_are_gone_is_left_out_by_name(spark: SparkSession, tmp_path: Path) -> None:
    stage = read_clicks(spark, tmp_path, 5).stage
    newest = read_last_commit(stage.checkpoint)
    sessions = DeltaTable.forPath(spark, str(stage.table("sessions")))
    first = known(sessions.toDF().where(f"batch_id = {newest}").first())
    sessions.delete(f"session_id = '{first.session_id}'")
    proof = proved(spark, stage, batches=3)
    assert_equal(proof)
    (note,) = proof.notes
    assert note.startswith(f"sessions: batches {newest} ")


@pytest.mark.long
def test_a_replay_takes_no_file_away(spark: SparkSession, tmp_path: Path) -> None:
    """Spark removes a batch's files when it begins the next one: those of the newest batch are there."""
    spec = clicks_spec()
    spec["source"]["options"] |= {"cleanSource": "delete"}
    stage = read_clicks(spark, tmp_path, 5, spec).stage
    there = sorted(file.name for file in stage.feed.iterdir())
    proof = proved(spark, stage)
    assert proof.verdict is ProofVerdict.EQUAL
    assert proof.notes, "the files of the batches before are gone"
    assert sorted(file.name for file in stage.feed.iterdir()) == there


def migrated_spec(stage: Stage, migration: dict[str, Any], **mapping: str) -> StreamSpec:
    document = document_of(stage.spec())
    document["mapping"] |= mapping
    return StreamSpec.model_validate({**document, "migrations": [{"id": "one", **migration}]})


@pytest.mark.long
def test_open_events_that_a_migration_leaves_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    """The fork is seeded, and its batches have other numbers: all the same each row comes out."""
    stage = read_clicks(spark, tmp_path, 6, clicks_spec() | {"measures": {"spent": "sum(amount)"}}).stage
    proof = proved(spark, stage, migrated_spec(stage, {"columns": {"page": "page"}}), batches=3)
    assert proof.holds, list(proof.lines())
    sessions = proof.tables[0]
    assert sessions.identical > 0
    assert {each.difference.columns for each in sessions.differences} <= {("batch_id",)}
    assert all(not table.differences for table in proof.tables[1:])


@pytest.mark.long
def test_open_events_that_move_to_another_key(spark: SparkSession, tmp_path: Path) -> None:
    stage = read_clicks(spark, tmp_path, 6).stage
    proof = proved(spark, stage, migrated_spec(stage, {"key": "upper(key)"}, key="upper(user_id)"), batches=3)
    assert proof.verdict is ProofVerdict.EXPLAINED, list(proof.lines())
    differences = [each.difference for each in proof.tables[0].differences]
    new = [each for each in differences if each.kind is DifferenceKind.ONLY_NEW]
    assert sum(each.rows for each in new) > 0
    assert all(str(sample.new["key"]).isupper() for each in new for sample in each.samples if sample.new)


@pytest.mark.long
def test_a_running_stream_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    stage, (_, files) = Stage.set_up(tmp_path, clicks_spec(idle_after="2 seconds")), write_aside(tmp_path, 9, rate=12)
    stage.bring(files[:4])
    with DriverProcess.start(stage, "a", until="stopped") as driver:
        driver.wait_for(
            lambda: bool(stage.lineage) and len(list_committed_batches(stage.checkpoint)) >= 6, "six batches"
        )
        stage.bring(files[4:])
        before = read_last_commit(stage.checkpoint)
        proof = proved(spark, stage, batches=5)
        driver.wait_for(lambda: (read_last_commit(stage.checkpoint) or 0) > (before or 0), "going on")
        assert not driver.ended
    assert proof.verdict is ProofVerdict.EQUAL, list(proof.lines())


UNPACK: Final = "spark/sinks/unpack.py"
ROWS: Final = "                    yield shape.rows(rows, origin)\n"
BAD: Final = {
    "drops rows": Patch(UNPACK, ROWS, ROWS.replace("rows,", "rows.slice(1),")),
    "doubles rows": Patch(UNPACK, ROWS, ROWS + ROWS),
    "cuts elsewhere": CUTS_ELSEWHERE,
    "rounds a measure": Patch(
        "spark/sinks/guarded_aggregates.py",
        "        return _drop_impossible_years(found)\n",
        "        return _drop_impossible_years(found).withColumn('spent', F.round('spent', 0))\n",
    ),
    "takes another key": Patch(
        "spark/ingest/guard.py",
        '        optional(mapping.key, "string").alias(schema.KEY),\n',
        '        F.substring(optional(mapping.key, "string"), 1, 2).alias(schema.KEY),\n',
    ),
    "dies at batch 3": Patch(
        "spark/sinks/write.py",
        "        emitted.persist(StorageLevel.DISK_ONLY)\n",
        "        emitted.persist(StorageLevel.DISK_ONLY)\n        assert batch_id != 3, 'no'\n",
    ),
}


@pytest.fixture(scope="module")
def released(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    spec = clicks_spec() | {"measures": {"spent": "sum(amount)"}}
    return read_clicks(spark, tmp_path_factory.mktemp("released"), 6, spec).stage


@pytest.mark.long
@pytest.mark.parametrize("kind", BAD)
def test_a_bad_release_does_not_pass(released: Stage, tmp_path: Path, kind: str) -> None:
    code, told = prove_with(release_with(BAD[kind], tmp_path), released)
    assert code == ReplayDiffers.exit_code
    if kind == "dies at batch 3":
        assert (told["verdict"], told["died"]["batch_id"]) == ("died", 3)
        return
    assert told["verdict"] == "unexplained"
    assert told["unexplained"] > 0
    found = {(each["difference"]["kind"], *each["difference"]["columns"]) for each in told["tables"][0]["differences"]}
    if kind == "rounds a measure":
        assert found == {("columns_differ", "spent")}
    else:
        assert {"drops rows": ("only_old",), "doubles rows": ("only_new",)}.get(kind, ("only_new",)) in found


@pytest.mark.long
@pytest.mark.timeout(3_000)
def test_a_refactoring_over_a_million_events_passes(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path / "many", many_clicks_spec(maxFilesPerTrigger="1"))
    write_many_clicks(stage.feed, 1_200_000, files=12)
    caught_up(spark, stage)
    code, told = prove_with(release_with(REFACTORING, tmp_path), stage, "--batches", "40", within_s=2_400)
    assert (code, told["verdict"], told["unexplained"]) == (0, "equal", 0)
    assert told["events"] >= 1_000_000
    sessions = told["tables"][0]
    assert sessions["old"] == sessions["new"] == sessions["identical"] > 100_000
