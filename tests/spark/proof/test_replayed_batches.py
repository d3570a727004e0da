"""Recorded batches replayed on a copy: the same rows by the same code, others by another, and the stream untouched."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from sessionizer.checkpoint.batch_logs import list_committed_batches
from sessionizer.deployment.running_spec import new_record
from sessionizer.errors import NothingToProve
from sessionizer.lineage.kept_spec import write_lineage_spec
from sessionizer.spark.ingest import punctuation
from sessionizer.spark.proof.prove import ProofRequest, prove_by_replay
from sessionizer.spark.proof.tables import add_to_proof_table
from sessionizer.spark.sinks.write import Sinks
from sessionizer.state.proof.comparison import DifferenceKind
from sessionizer.state.proof.result import ProofVerdict
from sessionizer.stream_spec.document.stream import StreamSpec
from support.expected.folder_digest import folder_digest
from support.faults.bad_clicks import line
from support.places import opened
from support.processes.in_process import catch_up
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.state.proof.result import Proof

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
    stage = Stage.set_up(tmp_path_factory.mktemp("proved"), written_spec())
    write_click_files(stage.feed, 5, rate=12)
    later = stage.root / "later"
    later.mkdir()
    for file in sorted(stage.feed.iterdir())[2:]:
        file.rename(later / file.name)
    catch_up(spark, stage)
    assert stage.lineage
    write_lineage_spec(stage.stream_home, stage.lineage, new_record(stage.stream_home, stage.spec()))
    punctuation.move_watermark(stage.stream_home.punctuations(stage.lineage), FLOOR_MS)
    for file in sorted(later.iterdir()):
        file.rename(stage.feed / file.name)
    catch_up(spark, stage)
    return stage


def proved(spark: SparkSession, stage: Stage, spec: dict[str, Any] | None = None, **asked: Any) -> Proof:
    given = spec or written_spec()
    return prove_by_replay(
        spark, stage.stream_home, StreamSpec.model_validate({**given, "name": "clicks"}), ProofRequest(**asked)
    )


def test_the_same_code_gives_the_same_rows_and_touches_nothing(spark: SparkSession, stage: Stage) -> None:
    before = folder_digest(stage.root)
    proof = proved(spark, stage, batches=50)
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
    assert stage.lineage
    write_lineage_spec(stage.stream_home, stage.lineage, new_record(stage.stream_home, stage.spec()))
    *_, same = proved(spark, stage, batches=50).tables
    assert (same.table, same.unexplained, same.explained) == ("conflicting_duplicates", 0, 0)
    assert same.identical >= 3
    proof = proved(spark, stage, written_spec(gap_timeout="25 seconds"), batches=50)
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
        {},
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
    assert [
        (row.verdict, row.table_name, row.rows) for row in added.where(F.col("proof_id") == proof.id).collect()
    ] == [("unexplained", "sessions", proof.unexplained)]


def test_a_batch_whose_files_are_gone_is_refused_by_name(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    newest, *_ = sorted(stage.feed.iterdir(), reverse=True)
    newest.rename(tmp_path / newest.name)
    try:
        with pytest.raises(NothingToProve, match=newest.name):
            proved(spark, stage, first=1, batches=50)
        shorter = proved(spark, stage, batches=50)
        assert shorter.first > 1
        assert newest.name in "".join(shorter.notes)
        assert shorter.verdict is ProofVerdict.EQUAL
    finally:
        (tmp_path / newest.name).rename(newest)
