"""``sessionizer migration``: what needs no Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from sessionizer.errors import InvalidSpec, MigrationRefused, NothingToSave
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.kept_spec import TYPES_FILE, KeptTypes, LineageSpec, read_applied
from sessionizer.migrations.draft import draft_migration
from sessionizer.stream_spec.column_types import expression_type
from sessionizer.stream_spec.decisions import document_of
from support.streams.stage import PAYLOAD_COLUMNS, Stage, clicks_spec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

USERS = {"id": "users", "key": "coalesce(page, key)"}
KIND = {"id": "kind", "columns": {"kind": "type"}, "drop": ["type"]}


def spec_with(*migrations: dict[str, Any]) -> dict[str, Any]:
    return {**clicks_spec(), "migrations": list(migrations)}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A stream that has a lineage, which began with one migration in its spec."""
    stage = Stage.set_up(tmp_path, spec_with(USERS))
    stage.stream_home.prepare()
    lineage = start_lineage(stage.stream_home, spec=LineageSpec(document_of(stage.spec()), 1_750_000_000_000))
    types = KeptTypes("event_time").add_payload(dict.fromkeys(PAYLOAD_COLUMNS, "string"))
    TYPES_FILE.of(stage.stream_home, lineage).write(types)
    return stage


@pytest.fixture
def cli(stage: Stage, main: Callable[..., int]) -> Callable[..., int]:
    where = ("--home", str(stage.home), "--streams", str(stage.streams))
    return lambda verb, *arguments: main("migration", verb, "clicks", *arguments, *where)


def test_a_stream_that_begins_has_had_all_of_its_migrations(
    stage: Stage, cli: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert stage.lineage
    assert [each.id for each in read_applied(stage.stream_home, stage.lineage)] == ["users"]
    stage.write_spec(spec_with(USERS, KIND))
    assert cli("list", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [(each["id"], each["state"]) for each in found] == [("users", "applied"), ("kind", "pending")]
    assert cli("check", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"pending": ["kind"]}


@pytest.mark.parametrize(
    "migrations", [[{**USERS, "key": "page"}], [KIND, USERS], [USERS, {"id": "gone", "drop": ["nothing"]}]]
)
def test_a_list_that_cannot_be_applied_is_refused(
    stage: Stage, cli: Callable[..., int], migrations: list[dict[str, Any]]
) -> None:
    stage.write_spec(spec_with(*migrations))
    assert cli("check") == MigrationRefused.exit_code


def test_a_stream_that_never_ran_has_none(
    tmp_path: Path, main: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    stage = Stage.set_up(tmp_path / "other", clicks_spec())
    where = ("--home", str(stage.home), "--streams", str(stage.streams))
    assert main("migration", "list", "clicks", *where) == NothingToSave.exit_code
    assert "it never ran" in capsys.readouterr().err


def test_a_draft_carries_over_what_the_file_changes(stage: Stage) -> None:
    before = document_of(stage.spec())
    mapping = {**clicks_spec()["mapping"], "key": "lower(user_id)"}
    payload = {"kind": "type", "page": "lower(page)", "amount": "amount", "device": "device"}
    stage.write_spec({**spec_with(USERS), "mapping": {**mapping, "payload": payload}})
    drafted = yaml.safe_load(draft_migration("next", before, document_of(stage.spec())))
    assert drafted == {
        "migrations": [
            {
                "id": "next",
                "key": "coalesce(lower(user_id), key)",
                "columns": {"kind": "type", "page": "lower(page)"},
                "drop": ["type"],
            }
        ]
    }


def test_a_draft_changes_a_nested_type_and_a_retyped_key() -> None:
    before, now = (
        {"source": {"columns": columns}, "mapping": {"key": "u", "client": None, "payload": {"geo": "geo"}}}
        for columns in ("u double, geo struct<lat: double, cc: string>", "u bigint, geo struct<latitude: double>")
    )
    (drafted,) = yaml.safe_load(draft_migration("next", before, now))["migrations"]
    assert drafted["key"].count("try_cast") == 2
    geo = expression_type(drafted["columns"]["geo"][len("if(geo is null, null, ") : -1], {})
    assert geo is not None
    assert [name for name, _ in geo.parts] == ["latitude"]
    assert "geo.`lat`" in drafted["columns"]["geo"]


@pytest.mark.parametrize("name", ["Users", "2nd", "new name", "a" * 64])
def test_no_draft_has_an_id_that_the_check_refuses(cli: Callable[..., int], name: str) -> None:
    assert cli("new", name) == InvalidSpec.exit_code
