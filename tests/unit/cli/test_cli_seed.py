"""What `sessionizer seed` refuses before it starts Spark."""

from dataclasses import replace
from pathlib import Path

import pytest

from sessionizer.control.lease import acquire
from sessionizer.control.records.operation_record import pending_operation
from sessionizer.control.records.supervision_records import DesiredState, read_desired, write_desired
from sessionizer.errors import DriverStillRuns, InvalidSpec, PlanChanged, StreamBegun
from sessionizer.lineage.active import start_lineage
from support.expected.file_accesses import folder_digest
from support.fixtures.reviewed import Reviewed
from support.processes.fabricated_platform import Platform
from support.verbs.begun_restore import begun_restore, write_operation


@pytest.fixture
def archive(tmp_path: Path) -> str:
    folder = tmp_path / "archive"
    folder.mkdir()
    (folder / "1.json").write_text("{}")
    return str(folder)


def test_a_seed_by_another_plan_is_abandoned_unless_somebody_carries_it_out(platform: Platform, archive: str) -> None:
    home = platform.add("clicks")
    home.prepare()
    begun = replace(begun_restore(savepoint=""), verb="seed", lineage_from="", wanted=DesiredState.STOPPED)
    write_operation(home, begun)
    write_desired(home, DesiredState.MAINTENANCE, by="ann", why="seed")
    lease = acquire(home, f"seed-{begun.id}")
    error = platform.call("seed", "clicks", "--history", archive, "--wait", "1").exception
    assert isinstance(error, DriverStillRuns)
    assert (pending_operation(home), read_desired(home).state) == (begun, DesiredState.MAINTENANCE)

    lease.release()
    error = platform.call("seed", "clicks", "--history", archive, "--wait", "1").exception
    assert isinstance(error, PlanChanged)
    assert pending_operation(home) is None
    assert read_desired(home).state is DesiredState.STOPPED


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--history", "nowhere"), "--history is 'nowhere'. Use a folder of files, a Delta table, or 'source'"),
        (("--history", "source", "--live-from", "now"), "--live-from is 'now'. Omit it"),
        (("--history", "jdbc:postgresql://db/shop"), "--table is missing. Use the name of a table or view"),
        (("--table", "visits"), "--table is 'visits'. Omit it"),
        (("--query", "select 1"), "--query is 'select 1'. Omit it"),
        (("--history", "checkpoint:nowhere"), "--query is missing. Use a query of history"),
        (
            ("--history", "checkpoint:nowhere", "--query", "select 1"),
            "--history is 'checkpoint:nowhere'. Use checkpoint: and the checkpoint of a query",
        ),
        (("--live-from", "here"), "--live-from is 'here'. Use beginning, now, or JSON such as"),
        (("--until", "noon"), "--until is 'noon'. Use a moment in ISO 8601"),
        (("--until", "2999-01-01"), "--until is '2999-01-01'. Use a moment since 1970 that has passed"),
    ],
)
def test_options_that_cannot_be(platform: Platform, archive: str, options: tuple[str, ...], message: str) -> None:
    platform.add("clicks")
    given = options if options[0] == "--history" else ("--history", archive, *options)
    error = platform.call("seed", "clicks", *given).exception
    assert isinstance(error, InvalidSpec)
    assert message in str(error)


@pytest.mark.parametrize("url", ["jdbc:postgresql://db/shop?password=tell", "jdbc:postgresql://ann:tell@db/shop"])
def test_a_password_in_a_url_is_refused_and_not_said(platform: Platform, url: str, reviewed: Reviewed) -> None:
    platform.add("clicks")
    error = platform.call("seed", "clicks", "--history", url, "--table", "visits").exception
    assert isinstance(error, InvalidSpec)
    reviewed(error)
    assert "tell" not in str(error)


def test_a_stream_that_began_while_spark_started_is_not_seeded(
    platform: Platform, archive: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, where = platform.add("clicks"), ("--history", archive)
    home.prepare()
    home.prepare_data()
    began: list[tuple[str, dict[str, str]]] = []

    def started(*_: object, **__: object) -> None:
        lineage = start_lineage(home)
        began.append((lineage, folder_digest(home.root)))

    monkeypatch.setattr("sessionizer.cli.terminal.start_spark", started)
    monkeypatch.setattr("sessionizer.spark.sinks.examine.examine", lambda *_: None)
    refused = platform.call("seed", "clicks", *where, "--approve", "0" * 16).exception
    assert isinstance(refused, PlanChanged)
    error = platform.call("seed", "clicks", *where, "--approve", refused.now).exception
    ((lineage, before),) = began
    assert isinstance(error, StreamBegun)
    assert error.lineage == lineage
    assert folder_digest(home.root) == before
