"""A spec that is changed between two drivers: what holds from the next batch on, and what must not start."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from sessionizer.causes.table import CAUSES
from sessionizer.checkpoint.log_entries import offset_log
from sessionizer.control.records.process_records import EXIT_FILE
from sessionizer.deployment.running_spec import RunningSpec, choose_spec, note_spec
from sessionizer.errors import DamagedFile, InvalidSpec, UnreadableLineage
from sessionizer.home.data_files import remove_tree
from sessionizer.home.roots import uri_of
from sessionizer.lineage.fingerprint import CHECKPOINT_FILE
from sessionizer.lineage.kept_spec import SPEC_FILE
from sessionizer.spark.sinks.examine import require_continuity
from sessionizer.stream_spec.decisions import decisions_of
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import read_spec_file
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import table_rows
from support.faults.bad_clicks import line
from support.places import known, opened
from support.processes.driver_process import run_to_end
from support.processes.in_process import catch_up, drain
from support.streams.stage import Stage, clicks_spec

OTHER_GROUPS = {"key_groups": 5}
OTHER_GAP = {"rules": {**clicks_spec()["rules"], "gap_timeout": "31 seconds"}}
OTHER_FOLDER = {"source": {**clicks_spec()["source"], "path": "elsewhere"}}
OTHER_BATCHES = clicks_spec(files_per_batch=7)


def options(**given: str) -> dict[str, Any]:
    return {**clicks_spec()["source"], "options": {**clicks_spec()["source"]["options"], **given}}


@pytest.fixture(scope="module")
def begun(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """A stream whose only batch emitted a session and left an open one."""
    stage = Stage.begun(tmp_path_factory.mktemp("begun"), clicks_spec())
    (stage.feed / "clicks.json").write_bytes(line(0, "early") + b"\n" + line(600, "late"))
    catch_up(spark, stage)
    return stage


@pytest.fixture
def stage(begun: Stage, tmp_path: Path) -> Stage:
    return begun.copied_to(tmp_path)


def go_on(spark: SparkSession, stage: Stage, changes: dict[str, Any], *, apply: bool = True) -> RunningSpec:
    stage.write_spec({**clicks_spec(), **changes})
    lineage = str(stage.lineage)
    running = choose_spec(stage.stream_home, read_spec_file(stage.streams, stage.name), apply=apply)
    require_continuity(spark, running, stage.stream_home, lineage)
    note_spec(stage.stream_home, lineage, running)
    return running


def cut_short(stage: Stage) -> int:
    """The last batch has written and not committed; returns its id."""
    log = CheckpointLog(stage.checkpoint)
    log.forget_last_commit()
    return log.begun()[-1].batch_id


def contents(folders: list[Path]) -> dict[Path, bytes]:
    return {file: file.read_bytes() for folder in folders for file in folder.rglob("*") if file.is_file()}


def test_rules_may_change_when_every_batch_is_over(spark: SparkSession, stage: Stage) -> None:
    go_on(spark, stage, OTHER_GAP)
    noted = known(SPEC_FILE.of(stage.stream_home, str(stage.lineage)).require())
    assert noted.document["rules"]["gap_timeout"] == "31 seconds"


@pytest.mark.parametrize("changes", [OTHER_GAP, OTHER_GROUPS, OTHER_FOLDER])
def test_what_nobody_applied_does_not_hold(spark: SparkSession, stage: Stage, changes: dict[str, Any]) -> None:
    cut_short(stage)
    running = go_on(spark, stage, changes, apply=False)
    assert decisions_of(running.spec) == decisions_of(StreamSpec.model_validate({**clicks_spec(), "name": "clicks"}))
    assert running.pending


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (OTHER_GROUPS, r"key_groups is 5\. Run .sessionizer rescale"),
        (OTHER_FOLDER, r"source.path is '.*'\. Run .sessionizer switch"),
        ({"source": {"format": "delta", "path": "feed"}}, r"source.format is '.*'\. Run .sessionizer switch"),
    ],
)
def test_what_another_command_changes_is_refused(
    spark: SparkSession, stage: Stage, changes: dict[str, Any], said: str
) -> None:
    for _ in range(2):
        with pytest.raises(InvalidSpec, match=said):
            go_on(spark, stage, changes)
    go_on(spark, stage, {})


def test_other_rules_are_refused_for_a_batch_that_has_written(spark: SparkSession, stage: Stage) -> None:
    said = rf"rules\.gap_timeout is '31 seconds'\. .* '30 seconds' .* batch {cut_short(stage)},"
    with pytest.raises(InvalidSpec, match=said):
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


def test_a_lineage_whose_record_was_removed_takes_what_the_file_says_and_none_guesses(
    spark: SparkSession, stage: Stage
) -> None:
    record = SPEC_FILE.of(stage.stream_home, str(stage.lineage)).path
    record.unlink()
    running = go_on(spark, stage, OTHER_GAP, apply=False)
    assert running.spec == stage.spec()
    assert go_on(spark, stage, {}, apply=False).pending
    record.write_text("{")
    with pytest.raises(DamagedFile):
        go_on(spark, stage, {})


def test_a_stream_that_never_ran_a_batch_may_have_other_key_groups(spark: SparkSession, stage: Stage) -> None:
    remove_tree(offset_log(stage.checkpoint))
    go_on(spark, stage, OTHER_GROUPS)


@pytest.mark.long
def test_a_driver_goes_by_what_it_had_until_told_and_refuses_what_it_cannot_take(stage: Stage) -> None:
    """A crash deploys nothing; ``--apply`` does, and what a lineage cannot take ends the driver before its query."""
    stage.write_spec({**clicks_spec(), **OTHER_GROUPS, **OTHER_GAP})
    said = run_to_end(stage, "crash", until="caught-up")
    assert "spec changed: rules.gap_timeout, key_groups" in said
    assert "not applied: rules.gap_timeout: '30 seconds' → '31 seconds'" in said
    batches = CheckpointLog(stage.checkpoint).begun()
    said = run_to_end(stage, "other", until="caught-up", apply=True, code=InvalidSpec.exit_code)
    assert "key_groups is 5. Run" in said
    ended = known(EXIT_FILE.of(stage.stream_home, "other").read())
    assert (ended.error_type, ended.terminal) == ("ChangeRefused", True)
    assert CheckpointLog(stage.checkpoint).begun() == batches


def test_a_checkpoint_of_another_release_is_refused_before_anything_is_changed(stage: Stage) -> None:
    record = CHECKPOINT_FILE.of(stage.stream_home, str(stage.lineage)).path
    written = record.read_text()
    kept = [stage.stream_home.root / name for name in ("lineages", "tables", "control/lineages")]
    for uid, text, words in (
        ("earlier", None, "it has no checkpoint.json"),
        ("later", json.dumps({**json.loads(written), "checkpoint_format": 99}), "its checkpoint has format 99"),
    ):
        record.unlink()
        if text is not None:
            record.write_text(text)
        before = contents(kept)
        said = run_to_end(stage, uid, until="caught-up", code=UnreadableLineage.exit_code)
        assert words in said
        assert CAUSES["UnreadableLineage"].remedy.partition(" …")[0] in said
        assert "starting Spark" not in said
        ended = known(EXIT_FILE.of(stage.stream_home, uid).read())
        assert (ended.error_type, ended.terminal) == ("UnreadableLineage", True)
        assert contents(kept) == before
        record.write_text(written)


def spec_with(payload: Mapping[str, str], **others: Any) -> dict[str, Any]:
    spec = clicks_spec()
    return {**spec, "mapping": {**spec["mapping"], "payload": dict(payload)}, **others}


def run_by(spark: SparkSession, stage: Stage, payload: Mapping[str, str], *lines: bytes, **others: Any) -> None:
    stage.write_spec(spec_with(payload, **others))
    (stage.feed / f"{len(list(stage.feed.iterdir()))}.json").write_bytes(b"\n".join(lines))
    catch_up(spark, stage)


def payloads(stage: Stage) -> list[dict[str, Any]]:
    (session,) = table_rows(stage.table("sessions"))
    ours = {"event_time", "event_id", "closes"}
    return [{name: value for name, value in event.items() if name not in ours} for event in session["events"]]


@pytest.fixture
def fresh(tmp_path: Path) -> Stage:
    return Stage.set_up(tmp_path, clicks_spec())


def test_columns_may_come_and_go_and_change_places_while_sessions_are_open(spark: SparkSession, fresh: Stage) -> None:
    for number, columns in enumerate(("type page", "page type", "type amount page", "amount type", "page amount type")):
        payload = {name: name for name in columns.split()}
        run_by(spark, fresh, payload, line(number, page=f"/{number}", amount=float(number)))
    drain(spark, fresh)
    assert payloads(fresh) == [
        {"type": "view", "page": "/0", "amount": None},
        {"type": "view", "page": "/1", "amount": None},
        {"type": "view", "page": "/2", "amount": 2.0},
        {"type": "view", "page": None, "amount": 3.0},
        {"type": "view", "page": "/4", "amount": 4.0},
    ]


PAGE_AS_NUMBER = "cast(length(page) as int)"
CHANGES_THAT_CANNOT_BE: dict[str, tuple[Any, ...]] = {
    "text to number": ({"page": "page"}, {"page": PAGE_AS_NUMBER}, "mapping.payload.page is 'int'. Use string"),
    "text, gone, number": ({"page": "page"}, {}, {"page": PAGE_AS_NUMBER}, "page is 'int'. Use string"),
    "narrowed": ({"n": "timeout_s * 1L"}, {"n": "timeout_s"}, "mapping.payload.n is 'int'. Use bigint"),
    "inside a struct": (
        {"at": "named_struct('page', page, 'n', 1)"},
        {"at": "named_struct('n', 'one')"},
        "mapping.payload.at is 'string'. Use int at n,",
    ),
    "widened, which the tables cannot": ({"n": "timeout_s"}, {"n": "timeout_s * 1L"}, "Use int, the type in the table"),
}
CHANGES = [
    pytest.param(name, marks=() if name == "text to number" else pytest.mark.long) for name in CHANGES_THAT_CANNOT_BE
]


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_cannot_be_is_refused_before_anything_is_written(
    spark: SparkSession, fresh: Stage, name: str
) -> None:
    *before, last, said = CHANGES_THAT_CANNOT_BE[name]
    for number, payload in enumerate(before):
        run_by(spark, fresh, payload, line(number))
    left = versions(fresh)
    with pytest.raises(InvalidSpec) as caught:
        run_by(spark, fresh, {**last, "another": "1"}, line(9))
    assert said in str(caught.value)
    assert versions(fresh) == left
    run_by(spark, fresh, before[0], line(8))
    drain(spark, fresh)
    assert len(payloads(fresh)) == len(before) + 2


def versions(stage: Stage) -> dict[str, int]:
    return {name: DeltaTable(uri_of(stage.table(name))).version() for name in ("sessions", "quarantine", "late_events")}


def test_another_time_mode_is_refused(spark: SparkSession, fresh: Stage) -> None:
    run_by(spark, fresh, {}, line(0))
    rules = {**clicks_spec()["rules"], "time_mode": "processing_time"}
    with pytest.raises(InvalidSpec, match=r"rules\.time_mode is 'processing_time'. Use 'event_time'"):
        run_by(spark, fresh, {}, line(1), rules=rules)


@pytest.mark.long
def test_a_table_that_may_widen_takes_a_wider_type(spark: SparkSession, fresh: Stage) -> None:
    run_by(spark, fresh, {"n": "timeout_s", "at": "named_struct('n', timeout_s)"}, line(0, timeout_s=20))
    for name in ("sessions", "late_events"):
        location = fresh.table(name)
        spark.sql(f"alter table delta.`{location}` set tblproperties ('delta.enableTypeWidening' = 'true')")
    wider = {"at": "named_struct('n', timeout_s * 10000000000)", "n": "timeout_s * 10000000000"}
    run_by(spark, fresh, wider, line(1, timeout_s=20))
    drain(spark, fresh)
    (session,) = spark.read.format("delta").load(str(fresh.table("sessions"))).collect()
    assert [(event.n, event.at.n) for event in session.events] == [(20, 20), (200_000_000_000, 200_000_000_000)]


@pytest.mark.long
def test_a_driver_says_which_column_and_what_is_in_reach(spark: SparkSession, fresh: Stage) -> None:
    run_by(spark, fresh, {"page": "page"}, line(0))
    fresh.write_spec(spec_with({"page": PAGE_AS_NUMBER}))
    said = run_to_end(fresh, "other", until="caught-up", apply=True, code=InvalidSpec.exit_code)
    assert "mapping.payload.page is 'int'. Use string" in said
    assert "Traceback" not in said
