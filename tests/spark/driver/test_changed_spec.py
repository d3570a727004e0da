"""A spec that is changed between two drivers: what holds from the next batch on, and what must not start."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.causes.table import CAUSES
from sessionizer.checkpoint.names import offset_log
from sessionizer.control.records.process_records import EXIT_FILE
from sessionizer.deployment.running_spec import choose_spec, note_spec
from sessionizer.errors import DamagedFile, InvalidSpec, UnreadableLineage
from sessionizer.home.data_files import remove_tree
from sessionizer.lineage.checkpoint_record import CHECKPOINT_FILE
from sessionizer.lineage.kept_spec import SPEC_FILE
from sessionizer.spark.sinks.examine import require_continuity
from sessionizer.stream_spec.decisions import decisions_of
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import read_spec_file
from support.expected.checkpoint_log import CheckpointLog
from support.faults.bad_clicks import line
from support.places import opened
from support.processes.driver_process import DriverProcess
from support.processes.in_process import catch_up
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from sessionizer.deployment.running_spec import RunningSpec

OTHER_GROUPS = {"key_groups": 5}
OTHER_GAP = {"rules": {**clicks_spec()["rules"], "gap_timeout": "31 seconds"}}
OTHER_FOLDER = {"source": {**clicks_spec()["source"], "path": "elsewhere"}}
OTHER_BATCHES = clicks_spec(files_per_batch=7)


def options(**given: str) -> dict[str, Any]:
    """The source with other options."""
    return {**clicks_spec()["source"], "options": {**clicks_spec()["source"]["options"], **given}}


@pytest.fixture(scope="module")
def begun(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """A stream whose only batch emitted a session and left an open one."""
    stage = Stage.set_up(tmp_path_factory.mktemp("begun"), clicks_spec())
    (stage.feed / "clicks.json").write_bytes(line(0, "early") + b"\n" + line(600, "late"))
    catch_up(spark, stage)
    go_on(spark, stage, {})
    return stage


@pytest.fixture
def stage(begun: Stage, tmp_path: Path) -> Stage:
    return begun.copied_to(tmp_path)


def go_on(spark: SparkSession, stage: Stage, changes: dict[str, Any], *, apply: bool = True) -> RunningSpec:
    """What a driver does before its query starts."""
    stage.write_spec({**clicks_spec(), **changes})
    assert stage.lineage
    running = choose_spec(stage.stream_home, read_spec_file(stage.streams, stage.name), apply=apply)
    require_continuity(spark, running, stage.stream_home, stage.lineage)
    note_spec(stage.stream_home, stage.lineage, running)
    return running


def cut_short(stage: Stage) -> int:
    """The last batch has written and not committed; returns its id."""
    log = CheckpointLog(stage.checkpoint)
    log.forget_last_commit()
    return log.begun()[-1].batch_id


def contents(folders: list[Path]) -> dict[Path, bytes]:
    """Every file below ``folders``."""
    return {file: file.read_bytes() for folder in folders for file in folder.rglob("*") if file.is_file()}


def test_rules_may_change_when_every_batch_is_over(spark: SparkSession, stage: Stage) -> None:
    go_on(spark, stage, OTHER_GAP)
    assert stage.lineage
    noted = SPEC_FILE.of(stage.stream_home, stage.lineage).require()
    assert noted is not None
    assert noted.document["rules"]["gap_timeout"] == "31 seconds"


@pytest.mark.parametrize("changes", [OTHER_GAP, OTHER_GROUPS, OTHER_FOLDER])
def test_what_nobody_applied_does_not_hold(spark: SparkSession, stage: Stage, changes: dict[str, Any]) -> None:
    cut_short(stage)
    running = go_on(spark, stage, changes, apply=False)
    assert decisions_of(running.spec) == decisions_of(StreamSpec.model_validate({**clicks_spec(), "name": "clicks"}))
    assert running.pending


def test_another_number_of_key_groups_is_refused(spark: SparkSession, stage: Stage) -> None:
    for _ in range(2):
        with pytest.raises(InvalidSpec, match=r"key_groups is 5\. Run .sessionizer rescale"):
            go_on(spark, stage, OTHER_GROUPS)
    go_on(spark, stage, {})


def test_other_rules_are_refused_for_a_batch_that_has_written(spark: SparkSession, stage: Stage) -> None:
    batch_id = cut_short(stage)
    with pytest.raises(
        InvalidSpec, match=rf"rules\.gap_timeout is '31 seconds'\. .* '30 seconds' .* batch {batch_id},"
    ):
        go_on(spark, stage, OTHER_GAP)
    go_on(spark, stage, OTHER_BATCHES)
    catch_up(spark, stage)
    go_on(spark, stage, OTHER_GAP)


def test_other_rules_hold_for_a_batch_that_has_not_written(spark: SparkSession, stage: Stage) -> None:
    offsets = offset_log(stage.checkpoint)
    last = CheckpointLog(stage.checkpoint).begun()[-1].batch_id
    opened(offsets / str(last + 1)).write_bytes(opened(offsets / str(last)).read_bytes())
    go_on(spark, stage, OTHER_GAP)


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("source.path", {"source": {**clicks_spec()["source"], "path": "elsewhere"}}),
        ("source.format", {"source": {"format": "delta", "path": "feed"}}),
    ],
)
def test_another_source_is_refused(spark: SparkSession, stage: Stage, field: str, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec, match=rf"{field} is '.*'\. Run .sessionizer switch"):
        go_on(spark, stage, changes)


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("sink.path", {"sink": {"path": "elsewhere"}}),
        ("sink.keep_events", {"sink": {"keep_events": False}}),
        ("measures.pages", {"measures": {"pages": "count(page)"}}),
        ("source.options.lineSep", {"source": options(lineSep="|")}),
    ],
)
def test_other_tables_are_refused_for_a_batch_that_has_written(
    spark: SparkSession, stage: Stage, field: str, changes: dict[str, Any]
) -> None:
    batch_id = cut_short(stage)
    with pytest.raises(InvalidSpec, match=rf"{field} is .* finished batch {batch_id},"):
        go_on(spark, stage, changes)
    go_on(spark, stage, {"source": options(maxFilesPerTrigger="9")})


def test_a_lineage_whose_record_was_removed_takes_what_the_file_says(spark: SparkSession, stage: Stage) -> None:
    assert stage.lineage
    SPEC_FILE.of(stage.stream_home, stage.lineage).path.unlink()
    running = go_on(spark, stage, OTHER_GAP, apply=False)
    assert running.spec == stage.spec()
    assert go_on(spark, stage, {}, apply=False).pending


def test_a_stream_that_never_ran_a_batch_may_have_other_key_groups(spark: SparkSession, stage: Stage) -> None:
    remove_tree(offset_log(stage.checkpoint))
    go_on(spark, stage, OTHER_GROUPS)


def test_a_record_that_is_damaged_is_not_guessed(spark: SparkSession, stage: Stage) -> None:
    assert stage.lineage
    SPEC_FILE.of(stage.stream_home, stage.lineage).path.write_text("{")
    with pytest.raises(DamagedFile):
        go_on(spark, stage, {})


@pytest.mark.long
def test_a_driver_goes_by_what_it_had_until_told_and_refuses_what_it_cannot_take(stage: Stage) -> None:
    """A crash deploys nothing; ``--apply`` does, and what a lineage cannot take ends the driver before its query."""
    stage.write_spec({**clicks_spec(), **OTHER_GROUPS, **OTHER_GAP})
    with DriverProcess.start(stage, "crash", until="caught-up") as driver:
        assert driver.wait() == 0, driver.said[-4_000:]
        assert "spec changed: rules.gap_timeout, key_groups" in driver.said
        assert "not applied: rules.gap_timeout: '30 seconds' → '31 seconds'" in driver.said
    batches = CheckpointLog(stage.checkpoint).begun()
    with DriverProcess.start(stage, "other", until="caught-up", apply=True) as driver:
        assert driver.wait() == InvalidSpec.exit_code
        assert "key_groups is 5. Run" in driver.said
    ended = EXIT_FILE.of(stage.stream_home, "other").read()
    assert ended
    assert (ended.error_type, ended.terminal) == ("ChangeRefused", True)
    assert CheckpointLog(stage.checkpoint).begun() == batches


def test_a_checkpoint_of_another_release_is_refused_before_anything_is_changed(stage: Stage) -> None:
    assert stage.lineage
    record = CHECKPOINT_FILE.of(stage.stream_home, stage.lineage).path
    written = record.read_text()
    kept = [stage.stream_home.root / name for name in ("lineages", "tables", "control/lineages")]
    for uid, text, said in (
        ("earlier", None, "it has no checkpoint.json"),
        ("later", json.dumps({**json.loads(written), "checkpoint_format": 99}), "its checkpoint has format 99"),
    ):
        record.unlink()
        if text is not None:
            record.write_text(text)
        before = contents(kept)
        with DriverProcess.start(stage, uid, until="caught-up") as driver:
            assert driver.wait() == UnreadableLineage.exit_code, driver.said[-4_000:]
            assert said in driver.said
            assert CAUSES["UnreadableLineage"].remedy.partition(" …")[0] in driver.said
            assert "starting Spark" not in driver.said
        ended = EXIT_FILE.of(stage.stream_home, uid).read()
        assert ended
        assert (ended.error_type, ended.terminal) == ("UnreadableLineage", True)
        assert contents(kept) == before
        record.write_text(written)
