"""An erasure by a column of the payload: people in the sessions of other keys leave, and everyone else stays."""

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sessionizer.control.records.erasure_record import SECRET, read_erasures
from sessionizer.erasing.records import find_left
from sessionizer.errors import InvalidSpec, StillThere
from sessionizer.home.clock import epoch_ms
from sessionizer.home.home_identity import owner_name
from sessionizer.spark.sinks.tables import claim_tables
from sessionizer.spark.state.commands.erasures import EraseRunner
from sessionizer.spark.state.commands.moves import ApplyRunner
from sessionizer.spark.state.commands.restores import RestoreRunner
from sessionizer.state.commands.erasures import Erase
from sessionizer.state.commands.restores import Restore
from sessionizer.state.commands.upgrades import Apply
from sessionizer.state.savepoints.listing import complete_savepoint
from support.expected.landed import table_rows
from support.places import REPOSITORY, opened
from support.processes.in_process import catch_up
from support.releases.environments import type_with
from support.streams.click_files import write_aside
from support.streams.stage import Stage, clicks_spec
from support.verbs.begun_restore import carry_out
from support.verbs.restored_stream import save

COLUMN = "account"
PEOPLE = ("account-11", "account-23")
ACCOUNT = "concat('account-', pmod(hash(event_id), 40))"


def spec_with(**payload: str) -> dict[str, Any]:
    spec = clicks_spec()
    spec["mapping"] = {**spec["mapping"], "payload": {**spec["mapping"]["payload"], **payload}}
    return spec


@dataclass(frozen=True)
class Accounts:
    """A stream of clicks, each of which has an account, after four of its files and a savepoint."""

    spark: SparkSession
    stage: Stage

    def runner(self, column: str = COLUMN, people: tuple[str, ...] = PEOPLE, redact: str | None = None) -> EraseRunner:
        home = self.stage.stream_home
        command = Erase(keys="/people", column=column, redact=redact)
        return EraseRunner(spark=self.spark, home=home, command=command, people=people, folders=(home.savepoints,))

    def erase(self, runner: EraseRunner | None = None) -> None:
        runner = runner or self.runner()
        carry_out(runner)
        runner.finish()

    def open_events(self, savepoint: str) -> Counter[tuple[Any, ...]]:
        table = self.spark.read.format("delta").load(str(self.stage.stream_home.savepoints / savepoint / "open_events"))
        wanted = ("key", "event_id", "clock_ms", "closes", "timeout_ms", "payload_page", f"payload_{COLUMN}")
        return Counter(tuple(row) for row in table.select(*wanted).collect())

    def sessions(self) -> list[dict[str, Any]]:
        return sorted(table_rows(self.stage.table("sessions")), key=lambda row: str(row["session_id"]))

    def left(self) -> list[str]:
        return [f"{each.file} by {each.decoded_by}" for each in find_left(self.stage.stream_home, PEOPLE, ())]


@pytest.fixture
def accounts(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Accounts:
    monkeypatch.setenv(SECRET, "a secret of the tests")
    stage = Stage.begun(tmp_path, spec_with(**{COLUMN: ACCOUNT}))
    stage.bring(write_aside(tmp_path, 5)[1][:4])
    catch_up(spark, stage)
    home = stage.stream_home
    claim_tables(spark, home.streamed_locations(None), owner_name(home.name, home.control_base), [str(stage.lineage)])
    save(spark, stage, "before")
    shutil.copytree(opened(home.savepoints), tmp_path / "vault")
    return Accounts(spark, stage)


def has_person(row: Mapping[str, Any]) -> bool:
    return any(event[COLUMN] in PEOPLE for event in row["events"])


def assert_no_other_column_will_do(accounts: Accounts) -> None:
    wrong = {"column": ("nothing", "amount", "user_id"), "redact": (COLUMN, "nothing", "key")}
    for option, name in [(option, name) for option, names in wrong.items() for name in names]:
        with pytest.raises(InvalidSpec) as refused:
            (accounts.runner(name) if option == "column" else accounts.runner(redact=name)).look()
        assert (refused.value.field, refused.value.value) == (f"--{option}", name)


def assert_no_start_and_no_migration_may_lose_the_column(accounts: Accounts) -> None:
    spark, stage, home = accounts.spark, accounts.stage, accounts.stage.stream_home
    for payload in ({}, {COLUMN: "amount"}):
        stage.write_spec(spec_with(**payload))
        with pytest.raises(InvalidSpec) as refused:
            catch_up(spark, stage)
        assert refused.value.field == f"mapping.payload.{COLUMN}"
    renamed = {"id": "rename", "columns": {"customer": COLUMN}, "drop": [COLUMN]}
    stage.write_spec({**spec_with(customer=ACCOUNT), "migrations": [renamed]})
    upgrade = ApplyRunner(spark=spark, home=home, command=Apply(), spec=stage.spec(), savepoints=home.savepoints)
    with pytest.raises(InvalidSpec) as refused:
        upgrade.look()
    assert refused.value.field == f"mapping.payload.{COLUMN}"


def test_events_leave_for_good_and_sessions_with_one_are_deleted_whole(accounts: Accounts) -> None:
    assert_no_other_column_will_do(accounts)
    before, held = accounts.sessions(), accounts.open_events("before")
    plan = accounts.runner().look().decision
    assert plan.rows["sessions"] == sum(map(has_person, before)) > 0
    assert plan.open_events == sum(count for row, count in held.items() if row[-1] in PEOPLE) > 0
    assert accounts.left()

    accounts.erase()
    assert accounts.left() == []
    assert accounts.sessions() == [row for row in before if not has_person(row)]
    save(accounts.spark, accounts.stage, "after")
    assert accounts.open_events("after") == Counter({row: n for row, n in held.items() if row[-1] not in PEOPLE})
    (noted,) = read_erasures(accounts.stage.stream_home)
    assert (noted.column, len(noted.erasure.digests)) == (COLUMN, 2 * 16)

    bring_back(accounts)
    assert accounts.left() == []
    assert "erased" in {row["reason"] for row in table_rows(accounts.stage.table("quarantine"))}
    assert_no_start_and_no_migration_may_lose_the_column(accounts)


def bring_back(accounts: Accounts) -> None:
    """Restore the savepoint of before, replay a file, and read a further one."""
    spark, stage, home = accounts.spark, accounts.stage, accounts.stage.stream_home
    saved, manifest = complete_savepoint(stage.root / "vault", "before", epoch_ms())
    restore = RestoreRunner(spark=spark, home=home, command=Restore(), savepoint=saved, manifest=manifest)
    carry_out(restore, savepoint="before")
    catch_up(spark, stage)
    clicks = sorted((stage.root / "clicks").iterdir())
    shutil.copy2(clicks[3], stage.feed / f"again-{clicks[3].name}")
    stage.bring(clicks[4:])
    catch_up(spark, stage)


REDACTED = ("device", "page")


def redacted(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    gone = dict.fromkeys(REDACTED)
    return [
        {**row, "events": [{**event, **(gone if event[COLUMN] in PEOPLE else {})} for event in row["events"]]}
        for row in rows
    ]


def test_redacted_columns_are_null_and_all_else_stays(accounts: Accounts) -> None:
    before, held = accounts.sessions(), accounts.open_events("before")
    runner = accounts.runner(redact="page, device")
    assert sum(runner.count_unredacted().values()) > 0
    accounts.erase(runner)
    assert accounts.sessions() == redacted(before) != before
    assert {place: count for place, count in runner.count_unredacted().items() if count} == {}
    log = opened(accounts.stage.table("sessions")) / "_delta_log"
    assert not [file for file in log.glob("*.json") if any(each in file.read_text() for each in PEOPLE)]
    save(accounts.spark, accounts.stage, "after")
    gone = Counter[tuple[Any, ...]]()
    for event, count in held.items():
        *first, page, account = event
        gone[*first, None if account in PEOPLE else page, account] += count
    assert accounts.open_events("after") == gone


@pytest.mark.long
def test_redacted_columns_stay_null_after_a_restore_and_beside_those_of_a_key(accounts: Accounts) -> None:
    before, runner = accounts.sessions(), accounts.runner(redact="page, device")
    accounts.erase(runner)
    bring_back(accounts)
    assert accounts.sessions() == redacted(accounts.sessions())
    assert {place: count for place, count in runner.count_unredacted().items() if count} == {}

    (person, *_) = sorted({row["key"] for row in before if any(event["amount"] for event in row["events"])})
    by_key = accounts.runner("key", (str(person),), "amount")
    rows = accounts.sessions()
    accounts.erase(by_key)
    for row in rows:
        if row["key"] == person:
            row["events"] = [{**event, "amount": None} for event in row["events"]]
    assert accounts.sessions() == rows
    assert sum(by_key.count_unredacted().values()) == 0


def erase(accounts: Accounts, keys: str, *options: str, people: Iterable[str] = ()) -> dict[str, Any]:
    flags = ("--keys", keys, "--column", COLUMN, "--json", *options)
    done = type_with(REPOSITORY, "erase", accounts.stage, *flags, text="\n".join(people))
    assert done.returncode in {0, StillThere.exit_code}, done.stderr
    return {**({} if "--approve" in options else json.loads(done.stdout)), "code": done.returncode}


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_typed_a_table_of_requests_is_erased_and_proven(accounts: Accounts) -> None:
    spark, place = accounts.spark, str(accounts.stage.root / "requests")
    shape = f"{COLUMN} string, requested_at timestamp, done map<string, timestamp>"
    rows = [(person, datetime(2026, 1, 1, tzinfo=UTC), None) for person in PEOPLE]
    requests = spark.createDataFrame([*rows, ("account-5", datetime(2200, 1, 1, tzinfo=UTC), None)], shape)
    requests.write.format("delta").save(place)
    plan = erase(accounts, place)
    assert (plan["people"], plan["column"]) == (2, COLUMN)
    erase(accounts, place, "--approve", plan["digest"])
    done = spark.read.format("delta").load(place).where(F.map_contains_key("done", accounts.stage.name))
    assert {row[COLUMN] for row in done.collect()} == set(PEOPLE)
    proof = erase(accounts, place, "--verify")
    assert (proof["code"], proof["values"], proof["files"]) == (0, 2, [])
    assert erase(accounts, "-", "--verify", people=["account-5"])["code"] == StillThere.exit_code


@pytest.mark.long
def test_typed_a_redaction_is_planned_and_what_is_left_is_counted(accounts: Accounts) -> None:
    redaction = ("--redact", "page, device")
    assert erase(accounts, "-", *redaction, people=["account-5"])["redacts"] == ["device", "page"]
    held = erase(accounts, "-", *redaction, "--verify", people=["account-5"])
    assert (held["code"], held["left"] > 0, bool(held["files"])) == (StillThere.exit_code, True, True)
