"""``sessionizer spec``: static checks and the schema."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sessionizer.cli.app import app
from sessionizer.cli.spec import NOT_LOOKED_AT
from sessionizer.errors import DuplicateStream, InvalidSpec, UnwritablePath
from sessionizer.stream_spec.spec_folder import survey_streams
from support.fixtures.reviewed import Reviewed
from support.processes.fabricated_platform import SPEC, Platform


def check(platform: Platform, *names: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(
        app, ["spec", "check", *names, "--streams", str(platform.streams), "--home", str(platform.home)]
    )
    return result.exit_code, result.stdout, result.stderr


def test_all_specs_are_checked_whatever_is_wrong_with_one(platform: Platform, reviewed: Reviewed) -> None:
    platform.add("aaa", SPEC.format(name="aaa") + "trigger_intervall: 5 seconds\n")
    platform.add("visits")
    code, out, err = check(platform)
    assert (code, out) == (InvalidSpec.exit_code, f"ok  visits{NOT_LOOKED_AT}\n")
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
    assert isinstance(problem, DuplicateStream)
    assert f"error: {problem}\n" in err


def test_a_misnamed_file(platform: Platform, reviewed: Reviewed) -> None:
    platform.add("other", SPEC.format(name="visits"))
    code, _, err = check(platform)
    assert code == InvalidSpec.exit_code
    reviewed(err)


def test_one_stream(platform: Platform) -> None:
    platform.add("visits")
    platform.add("broken", "name: broken\n")
    assert check(platform, "visits") == (0, f"ok  visits{NOT_LOOKED_AT}\n", "")


def test_all_problems_of_a_file_are_told_at_once(platform: Platform) -> None:
    wrong = SPEC.format(name="visits") + "trigger_intervall: 5 seconds\nkey_groups: 0\nmeasures: {key: max(page)}\n"
    platform.add("visits", wrong)
    code, _, err = check(platform)
    told = [line.split()[2] for line in err.splitlines() if line.startswith("error: ")]
    assert (code, told) == (InvalidSpec.exit_code, ["trigger_intervall", "measures.key", "key_groups"])
    assert [line.split()[2] for line in err.splitlines() if line.startswith("remedy: ")] == told


def test_the_schema_is_printed_or_written(tmp_path: Path) -> None:
    printed = CliRunner().invoke(app, ["spec", "schema"]).stdout
    assert json.loads(printed)["title"] == "Stream spec"
    target = tmp_path / "schema.json"
    assert CliRunner().invoke(app, ["spec", "schema", "--write", str(target)]).exit_code == 0
    assert target.read_text() == printed
    failed = CliRunner().invoke(app, ["spec", "schema", "--write", str(tmp_path / "no" / "where")])
    assert isinstance(failed.exception, UnwritablePath)


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
    assert (code, passed.split()[:2]) == (InvalidSpec.exit_code, ["ok", "alone"])
    assert "'clicks'" in told
    assert "'visits'" in told
    assert check(platform, "clicks")[0] == InvalidSpec.exit_code
