"""Migrations of a stream: which are pending, and which edits of the list are refused."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from sessionizer.deployment.differences import MigrationEffects, OpenState, SinkColumns
from sessionizer.deployment.running_spec import require_continuable
from sessionizer.deployment.upgrade_plan import UpgradePlan
from sessionizer.deployment.verdicts import judge_field, spec_differences
from sessionizer.errors import InvalidSpec, MigrationRefused, NothingToSave
from sessionizer.home.json_record import parse_json
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.kept_spec import TYPES_FILE, KeptTypes, LineageSpec, read_applied
from sessionizer.migrations.declared import (
    AppliedMigration,
    compile_migration,
    compile_migrations,
    describe_migration,
    list_columns_after,
    migration_digest,
    pending_migrations,
    record_applied,
)
from sessionizer.migrations.draft import draft_migration
from sessionizer.state.commands.upgrades import Upgrade
from sessionizer.stream_spec.column_types import expression_type
from sessionizer.stream_spec.decisions import (
    Change,
    changes_between,
    decisions_of,
    document_of,
    list_decisions,
    spec_fingerprint,
)
from sessionizer.stream_spec.document.rules import Migration
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.effect import Verdict
from support.faults.damaged_files import field_damages
from support.fixtures.reviewed import Reviewed
from support.streams.stage import PAYLOAD_COLUMNS, Stage, clicks_spec

Many = list[dict[str, Any]]
A, B, C, D = (
    {"id": "a", "key": "coalesce(page, key)"},
    {"id": "b", "columns": {"device": "upper(device)"}},
    {"id": "c", "drop": ["page"]},
    {"id": "d", "where": "client <> 'test'"},
)


def migrations(*described: dict[str, Any]) -> list[Migration]:
    return [Migration.model_validate(each) for each in described]


def applied(*described: dict[str, Any]) -> tuple[AppliedMigration, ...]:
    return record_applied(migrations(*described), 7)


@pytest.mark.parametrize(
    ("declared", "had", "pending"),
    [
        ([], [], []),
        ([A, B], [], ["a", "b"]),
        ([A, B, C], [A], ["b", "c"]),
        ([A, B], [A, B], []),
        ([B, C, D], [A, B], ["c", "d"]),
        ([C, D], [A, B], ["c", "d"]),
        ([], [A, B], []),
        ([{**A, "drop": [], "columns": {}}], [A], []),
    ],
)
def test_those_that_wait_follow_those_that_were_applied(declared: Many, had: Many, pending: list[str]) -> None:
    found = pending_migrations("clicks", migrations(*declared), applied(*had))
    assert [each.id for each in found] == pending


@pytest.mark.parametrize(
    ("declared", "had", "refused", "told"),
    [
        ([{**A, "key": "page"}, B], [A], "a", "edited"),
        ([A, C], [A, B], "b", "removed"),
        ([A, C], [A, B, C], "b", "removed"),
        ([B, A], [A, B], "a", "moved"),
        ([D, A], [A], "d", "before 'a'"),
        ([A, D, B], [A, B], "d", "before 'b'"),
    ],
)
def test_an_applied_migration_stays_as_it_was(declared: Many, had: Many, refused: str, told: str) -> None:
    with pytest.raises(MigrationRefused) as raised:
        pending_migrations("clicks", migrations(*declared), applied(*had))
    assert (raised.value.migration, raised.value.exit_code) == (refused, 62)
    assert told in raised.value.cause


def test_the_record_of_an_applied_migration_comes_back() -> None:
    (record,) = applied(A)
    assert AppliedMigration.from_json(record.to_json()) == record
    assert migration_digest(migrations(A)[0]) == record.digest != migration_digest(migrations({**A, "key": "page"})[0])


@pytest.mark.parametrize(
    "described",
    [
        {"id": "a"},
        {"id": "A", "key": "page"},
        {"id": "a", "columns": {"page": "upper(page)"}, "drop": ["page"]},
        {"id": "a", "columns": {"key": "page"}},
        {"id": "a", "clouds": "page"},
    ],
)
def test_a_migration_that_says_nothing_or_two_things_is_refused(described: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Migration.model_validate(described)


def test_a_migration_becomes_assignments_to_every_column() -> None:
    (migration,) = migrations({"id": "m", "columns": {"kind": "type", "page": "lower(page)"}, "drop": ["type"]})
    found = compile_migration("clicks", migration, ["type", "page", "device"])
    payload = [(each.column, each.sql) for each in found.payload]
    assert payload == [("page", "lower(page)"), ("device", None), ("kind", "type")]
    assert (found.set_columns, found.dropped, found.key.sql) == (("kind", "page"), ("type",), None)
    assert describe_migration(migration) == "kind = type; page = lower(page); drops type"
    with pytest.raises(MigrationRefused, match="it drops 'type'"):
        compile_migration("clicks", migration, ["page"])


def test_one_migration_sees_the_columns_that_the_one_before_left() -> None:
    both = migrations(
        {"id": "a", "columns": {"kind": "type"}, "drop": ["type"]},
        {"id": "b", "columns": {"type": "upper(kind)"}, "drop": ["kind"]},
    )
    found = compile_migrations("clicks", both, ["page", "type"])
    assert [each.column for each in found[-1].payload] == ["page", "type"]
    assert list_columns_after(["page", "type"], found) == list_columns_after(["page"], found) == {"page", "type"}
    assert list_columns_after(["page", "type"], found[:1]) == {"page", "kind"}
    with pytest.raises(MigrationRefused, match="it drops 'kind'"):
        compile_migrations("clicks", [both[1], both[0]], ["page", "type"])


def spec(*described: dict[str, Any]) -> StreamSpec:
    return StreamSpec.model_validate({**clicks_spec(), "name": "clicks", "migrations": list(described)})


def test_a_spec_without_migrations_is_the_spec_that_it_was() -> None:
    document = document_of(spec())
    document.pop("migrations")
    assert changes_between(list_decisions(document), decisions_of(spec())) == ()
    assert spec_fingerprint(spec()) != spec_fingerprint(spec(A))
    with pytest.raises(ValidationError, match="no other migration"):
        spec(A, {**B, "id": "a"})


@pytest.mark.parametrize(
    ("before", "now", "verdict"),
    [
        ([], [A], Verdict.MIGRATE),
        ([A], [A, B], Verdict.MIGRATE),
        ([A, B], [B], Verdict.IN_PLACE),
        ([A], [], Verdict.IN_PLACE),
    ],
)
def test_a_start_takes_no_migration_and_an_upgrade_does(before: Many, now: Many, verdict: Verdict) -> None:
    pending = pending_migrations("clicks", migrations(*now), applied(*before))
    plan = plan_of(before, now, pending)
    assert ("migrations", verdict) in [(each.name, each.verdict) for each in plan.differences]
    steps = Upgrade().plan(plan).decision.steps
    assert (plan.anew, plan.is_possible, "WriteFinishedSessions" in steps) == (bool(pending), True, bool(pending))
    changes = changes_between(decisions_of(spec(*before)), decisions_of(spec(*now)))
    if verdict is Verdict.MIGRATE:
        with pytest.raises(InvalidSpec, match="Run `sessionizer upgrade clicks`"):
            require_continuable("clicks", changes)
    else:
        require_continuable("clicks", changes)


def test_the_digest_of_a_plan_covers_its_migrations() -> None:
    plan = plan_of([A], [A], ())
    assert not plan.changes_something
    migrating = plan_of([A], [A], migrations(A))
    assert migrating.is_possible
    assert migrating.digest != plan.digest


def test_a_difference_names_the_migrations_of_its_own_field() -> None:
    first = {"id": "a", "columns": {"place": "page", "key": "page"}, "drop": ["page"]}
    effects = MigrationEffects.of([first, {"id": "b", "key": "lower(key)", "columns": {"place": "upper(place)"}}])
    assert effects.ids_of == {"place": ["a", "b"], "key": ["a"], "page": ["a"], "mapping.key": ["b"]}
    found = judge_field("clicks", Change("mapping.key", "user", "lower(user)"), OpenState(3), effects)
    assert (found.verdict, found.reason.split()[-1]) == (Verdict.MIGRATE, "b")


def plan_of(before: Many, now: Many, pending: Sequence[Migration]) -> UpgradePlan:
    documents = (document_of(spec(*before)), document_of(spec(*now)))
    effects = MigrationEffects.of([each.model_dump(mode="json") for each in pending])
    found = tuple(spec_differences(*documents, OpenState(3), SinkColumns(), effects))
    described = tuple(describe_migration(each) for each in pending)
    return UpgradePlan("clicks", "20261123T143621-abe542", 7, "ab", found, migrations=described)


def test_an_odd_part_of_a_recorded_spec_is_damage_or_a_difference() -> None:
    now = document_of(spec(A, B))
    kept = LineageSpec(now, 1, 2).to_json()
    for what, odd in field_damages(json.dumps(kept).encode()):
        with suppress(ValueError):
            before = LineageSpec.from_json(parse_json(odd)).document
            try:
                list(spec_differences(before, now, OpenState(3), SinkColumns(), MigrationEffects.of(())))
            except Exception as error:
                error.add_note(what)
                raise AssertionError from error


def test_a_misspelt_key_of_a_migration_is_told_by_its_place(tmp_path: Path, reviewed: Reviewed) -> None:
    stage = Stage.set_up(tmp_path, {**clicks_spec(), "migrations": [A, {"id": "b", "drops": ["page"]}]})
    with pytest.raises(InvalidSpec) as raised:
        stage.spec()
    reviewed(raised.value)


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
def test_a_list_that_cannot_be_applied_is_refused(stage: Stage, cli: Callable[..., int], migrations: Many) -> None:
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
    columns = {"kind": "type", "page": "lower(page)"}
    key = "coalesce(lower(user_id), key)"
    assert drafted == {"migrations": [{"id": "next", "key": key, "columns": columns, "drop": ["type"]}]}


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
