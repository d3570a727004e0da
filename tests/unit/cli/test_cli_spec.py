"""The commands that show or check one thing: specs, tables, checkpoints, compactions."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sessionizer import errors
from sessionizer.cli.app import app
from sessionizer.cli.history import plan_lines, result_line
from sessionizer.cli.spec import NOT_LOOKED_AT
from sessionizer.home.stream_home import StreamHome
from sessionizer.spark.sinks.compaction import TableFiles, TablePlan, TableResult
from sessionizer.state.compaction.plan import CompactionPlan, Retention
from sessionizer.state.savepoints.listing import PruningVerdict
from sessionizer.stream_spec.spec_folder import survey_streams
from support.checkpoints.fabricated_checkpoints import QUERY_ID, Way, fabricated
from support.expected.file_accesses import folder_digest
from support.fixtures.platform import Captured, Main
from support.fixtures.reviewed import Reviewed
from support.processes.fabricated_platform import SPEC, Platform
from support.verbs.begun_restore import begun_restore, write_operation


def check(platform: Platform, *names: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(
        app, ["spec", "check", *names, "--streams", str(platform.streams), "--home", str(platform.home)]
    )
    return result.exit_code, result.stdout, result.stderr


def test_all_specs_are_checked_whatever_is_wrong_with_one(platform: Platform, reviewed: Reviewed) -> None:
    platform.add("aaa", SPEC.format(name="aaa") + "trigger_intervall: 5 seconds\n")
    platform.add("visits")
    code, out, err = check(platform)
    assert (code, out) == (errors.InvalidSpec.exit_code, f"ok  visits{NOT_LOOKED_AT}\n")
    assert "trigger_intervall" in err
    reviewed(err)
    assert "remedy: correct trigger_intervall in " in err


@pytest.mark.parametrize("copy", ["aaa", "visits_copy"])
def test_a_copy_is_refused_as_airflow_refuses_it_and_takes_no_stream_away(platform: Platform, copy: str) -> None:
    platform.add("visits")
    platform.add("other")
    platform.add(copy, SPEC.format(name="visits"))
    code, out, err = check(platform)
    found = survey_streams(platform.streams)
    assert (code, out) == (12, "".join(f"ok  {name}{NOT_LOOKED_AT}\n" for name in found.specs))
    assert set(found.specs) == {"visits", "other"}
    (problem,) = found.problems
    assert isinstance(problem, errors.DuplicateStream)
    assert f"error: {problem}\n" in err


def test_one_stream(platform: Platform) -> None:
    platform.add("visits")
    platform.add("broken", "name: broken\n")
    assert check(platform, "visits") == (0, f"ok  visits{NOT_LOOKED_AT}\n", "")


def test_all_problems_of_a_file_are_told_at_once(platform: Platform) -> None:
    wrong = SPEC.format(name="visits") + "trigger_intervall: 5 seconds\nkey_groups: 0\nmeasures: {key: max(page)}\n"
    platform.add("visits", wrong)
    code, _, err = check(platform)
    told = [line.split()[2] for line in err.splitlines() if line.startswith("error: ")]
    assert (code, told) == (errors.InvalidSpec.exit_code, ["trigger_intervall", "measures.key", "key_groups"])
    assert [line.split()[2] for line in err.splitlines() if line.startswith("remedy: ")] == told


def test_the_schema_is_printed_or_written(tmp_path: Path) -> None:
    printed = CliRunner().invoke(app, ["spec", "schema"]).stdout
    assert json.loads(printed)["title"] == "Stream spec"
    target = tmp_path / "schema.json"
    assert CliRunner().invoke(app, ["spec", "schema", "--write", str(target)]).exit_code == 0
    assert target.read_text() == printed
    failed = CliRunner().invoke(app, ["spec", "schema", "--write", str(tmp_path / "no" / "where")])
    assert isinstance(failed.exception, errors.UnwritablePath)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("path", ("lake/visits", "lake/visits")),
        ("path", ("lake/visits/", "{home}/lake/visits")),
        ("table", ("web.visits", "web.visits")),
    ],
)
def test_two_streams_of_one_table_are_told_before_one_starts(
    platform: Platform, field: str, values: tuple[str, str]
) -> None:
    """A spec was copied. The driver that comes second would be refused, and its supervisor give up."""
    platform.add("alone")
    for name, value in zip(("visits", "clicks"), values, strict=True):
        platform.add(name, f"{SPEC.format(name=name)}sink: {{{field}: {value.format(home=platform.home)}}}\n")
    code, passed, told = check(platform)
    assert (code, passed.split()[:2]) == (errors.InvalidSpec.exit_code, ["ok", "alone"])
    assert "'clicks'" in told
    assert "'visits'" in told
    assert check(platform, "clicks")[0] == errors.InvalidSpec.exit_code


def test_what_is_not_there_yet(platform: Platform) -> None:
    platform.add("visits")
    result = platform.call("tables", "visits")
    assert result.exit_code == 0
    assert result.stdout.count("not there yet") == 5


def test_open_sessions_are_listed_if_they_are_written(platform: Platform) -> None:
    platform.add(
        "visits", SPEC.format(name="visits") + "sink:\n  open_sessions_every: 5 minutes\n  table: web.sessions\n"
    )
    (*_, found) = json.loads(platform.call("tables", "visits", "--json").stdout)["tables"]
    assert (found["name"], found["catalog_name"]) == ("open_sessions", "web.sessions_open")
    assert "web.sessions_open" in found["spark_sql"]


def test_a_query_that_cannot_run_here_says_what_to_install(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    platform.add("visits", SPEC.format(name="visits") + "sink:\n  path: s3a://lake/visits\n")
    monkeypatch.setattr("sessionizer.cli.installation.find_spec", lambda name: None if name == "polars" else name)
    shown = platform.call("tables", "visits").stdout
    assert shown.count("polars`") == 5
    assert shown.count("duckdb.sql") == 5


def test_tables_elsewhere(platform: Platform) -> None:
    platform.add("visits", SPEC.format(name="visits") + "sink:\n  path: s3a://lake/visits\n")
    result = json.loads(platform.call("tables", "visits", "--json").stdout)
    assert result["tables"][0]["path"] == "s3a://lake/visits/sessions"
    assert result["tables"][0]["version"] is None


def test_tables_with_names_in_a_catalog(platform: Platform) -> None:
    platform.add("visits", SPEC.format(name="visits") + "sink:\n  table: lake.web.sessions\n")
    result = json.loads(platform.call("tables", "visits", "--json").stdout)
    assert {table["name"]: table["catalog_name"] for table in result["tables"]} == {
        "sessions": "lake.web.sessions",
        "quarantine": "lake.web.sessions_quarantine",
        "late_events": "lake.web.sessions_late_events",
        "sessions_daily": "lake.web.sessions_daily",
        "stream_history": "lake.web.sessions_history",
    }


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ((), "--start-at"),
        (("--leave-unread",), "--start-at"),
        (("--start-at", "somewhen"), "--start-at"),
        (("--accept-loss", "--start-at", "earliest"), "--start-at"),
        (("--accept-loss", "--leave-unread"), "--leave-unread"),
    ],
)
def test_what_does_not_go_together_is_named(platform: Platform, options: tuple[str, ...], field: str) -> None:
    platform.add("clicks")
    error = platform.call("switch", "clicks", *options).exception
    assert isinstance(error, errors.InvalidSpec)
    assert error.field == field


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fabricated(4).put(tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


def test_a_sound_checkpoint_is_described(main: Main, folder: Path, capsys: Captured) -> None:
    before = folder_digest(folder)
    assert main("checkpoint", "inspect", str(folder), "--deep", "--settings") == 0
    told = capsys.readouterr().out
    for part in (
        QUERY_ID, "0 to 3 are kept; 3 is over", "aggregation (stateStoreSave)", "partitions  2", "nothing is damaged",
        "spark.sql.shuffle.partitions=2", 'files, up to {"logOffset": 3}', "state format 2 (RocksDB, unsaferow)",
    ):  # fmt: skip
        assert part in told
    assert folder_digest(folder) == before


def test_a_damaged_one_is_named_with_its_remedy_and_the_exit_code_says_so(
    main: Main, folder: Path, capsys: Captured, reviewed: Reviewed
) -> None:
    fabricated(4).damaged("offsets/3", Way.EMPTIED).put(folder)
    assert main("checkpoint", "inspect", str(folder)) == errors.DamagedCheckpoint.exit_code
    told = capsys.readouterr()
    reviewed(told.out)
    assert "step        remove commits/3" in told.out
    assert "1 finding" in told.err
    assert main("checkpoint", "inspect", str(folder), "--json") == errors.DamagedCheckpoint.exit_code
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["file"], finding["effect"]) == ("offsets/3", "STOPS")
    assert finding["steps"] == ["remove offsets/3", "remove commits/3"]


def test_a_folder_that_is_none_is_refused(main: Main, tmp_path: Path) -> None:
    assert main("checkpoint", "inspect", str(tmp_path)) == errors.InvalidSpec.exit_code
    assert main("checkpoint", "inspect", str(tmp_path / "nowhere")) == errors.InvalidSpec.exit_code


def test_a_stream_that_never_ran_has_nothing_to_show(main: Main, platform: Platform, capsys: Captured) -> None:
    platform.add("clicks")
    for verb in (("show", "clicks"), ("timeline", "clicks"), ("compare", "clicks", "1", "2")):
        assert main("state", *verb, "--home", str(platform.home)) == errors.NothingToShow.exit_code
        assert "it never ran" in capsys.readouterr().err
    assert main("state", "show", "clicks", "--key", "k", "--group", "1") == errors.InvalidSpec.exit_code


FILES = TableFiles(files=8_641, bytes=512_000_000, old_files=12)


def test_nothing_is_compacted_while_a_command_is_not_over(platform: Platform, main: Main) -> None:
    platform.add("clicks")
    write_operation(StreamHome.of(platform.home, "clicks"), begun_restore())
    for option in ("--plan", "--yes"):
        code = main("compact", "clicks", option, "--home", str(platform.home), "--streams", str(platform.streams))
        assert code == errors.OperationPending.exit_code


def test_nothing_is_reported_while_a_command_is_not_over(platform: Platform, main: Main, capsys: Captured) -> None:
    platform.add("clicks")
    write_operation(StreamHome.of(platform.home, "clicks"), begun_restore())
    assert main("report", "clicks", "--home", str(platform.home), "--streams", str(platform.streams)) == 0
    told = capsys.readouterr()
    assert "restore" in told.out
    assert "Spark" not in told.err


def test_the_plan_and_the_results_in_words(reviewed: Reviewed) -> None:
    plan = CompactionPlan(
        stream="clicks",
        tables=(),
        retention=Retention(289, "savepoint s2 may bring rows back from then", is_short=True, out_of_reach=("s1",)),
        checkpoints=(PruningVerdict("l1", goes=True, because="its newest batch began 9 d ago"),),
        savepoints=(PruningVerdict("s2", goes=False, because="it is young"),),
    )
    tables = [
        TablePlan("sessions", "/tables/sessions", FILES),
        TablePlan("quarantine", "/tables/quarantine", skipped="it belongs to visits@0123456789abcdef"),
        TablePlan("late_events", "s3://tables/late_events", FILES, merges=False, warning="its log takes one writer"),
    ]
    results = [
        TableResult("sessions", "/tables/sessions", 8_641, 3, 498_000_000, 12),
        TableResult("late_events", "/tables/late_events", 20, 20, 1_000_000, 0, overtaken=True),
    ]
    reviewed([*plan_lines(plan, tables), *map(result_line, results)])
