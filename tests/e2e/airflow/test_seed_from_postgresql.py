"""A stream begins with events that a real PostgreSQL keeps: asked for in the form, as the user of a connection."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sessionizer.control.records.operation_record import Ending, read_operations
from sessionizer.core.definition.event import Batch
from sessionizer.core.definition.rules import NEVER_MS
from sessionizer.spark.query.assembly import rules_of
from sessionizer.spark.session import spark_session
from sessionizer_demo.feed.generator import Row
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import assert_landed, batches_of, event_of, is_valid, landed
from support.pages.page_user import OperateForm
from support.places import MAIN
from support.processes.driver_process import run_to_end
from support.processes.live_airflow import OUR_DAGS, Platform, template_of
from support.processes.postgres import PostgresServer
from support.streams.click_files import write_click_files
from support.streams.stage import CLICK_COLUMNS, Stage, clicks_spec

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

CLICKS = clicks_spec()
SPEC = template_of(CLICKS)
SETTINGS = OUR_DAGS | {"SESSIONIZER_APPLICATION": MAIN, "SESSIONIZER_APPROVERS": "admin"}
FILES, KEPT = 4, 2
"""Of so many files the first are in the database, the others come afterwards."""
TABLE, CONNECTION = "visits", "shop"


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


def fill(postgres: PostgresServer, lines: Path, rows: Sequence[Row]) -> None:
    """What was valid, as a table: what is no JSON is no row of one."""
    lines.write_bytes(b"\n".join(row.value for row in rows))
    spark = spark_session("a shop", "local[1]")
    try:
        who = {"user": postgres.user, "password": postgres.password}
        spark.read.schema(CLICK_COLUMNS).json(str(lines)).write.jdbc(postgres.url, TABLE, properties=who)
    finally:
        spark.stop()


def connect(platform: Platform, postgres: PostgresServer) -> None:
    """As somebody who may does in Airflow, once."""
    connection = {"connection_id": CONNECTION, "conn_type": "postgres", "host": "127.0.0.1", "port": postgres.port}
    who = {"login": postgres.user, "password": postgres.password}
    platform.api.call("POST", "/api/v2/connections", {**connection, **who})


def files_with(root: Path, secret: str) -> list[str]:
    """Of all that Airflow, its jobs and the stream wrote: logs, plans, records, the metadata database."""
    return [str(file) for file in root.rglob("*") if file.is_file() and secret.encode() in file.read_bytes()]


def test_the_stream_begins_with_what_the_table_has_and_nobody_is_shown_the_password(
    platform: Platform, postgres: PostgresServer, tmp_path: Path
) -> None:
    root = platform.installation.root
    stage = Stage.set_up(root, CLICKS, home=platform.installation.platform_home)
    files = write_click_files(tmp_path / "waiting", FILES, rate=12)
    names = sorted(files)
    kept = [row for name in names[:KEPT] for row in files[name] if is_valid(row)]
    fill(postgres, tmp_path / "lines.json", kept)
    connect(platform, postgres)

    form = OperateForm(platform)
    run = form.ask(
        "seed", history=postgres.url, table=TABLE, connection=CONNECTION, live_from="now", backfill=True, why="moved"
    )
    shown = form.wait_for_plan(run)["body"].replace("\\", "")
    assert f"{len(kept):,} events" in shown
    assert TABLE in shown
    assert stage.lineage is None, "nobody approved it"
    form.answer(run, "Approve")
    assert form.wait_for_end(run, 400) == "success", form.errors(run, "carry_out")
    (record,) = read_operations(platform.home)
    assert (record.verb, record.by, record.outcome) == ("seed", "admin (Airflow)", Ending.DONE)
    assert record.lineage_to == stage.lineage
    assert landed(stage).sessions, "it was to fill them in"
    platform.parts.stop_all()
    assert files_with(root, postgres.password) == []

    for name in names[KEPT:]:
        (tmp_path / "waiting" / name).rename(stage.feed / name)
    run_to_end(stage, "drain")
    rules = rules_of(stage.spec())
    events = tuple(event_of(row.event) for row in kept)
    newest = max(event.event_time_ms or 0 for event in events)
    history = Batch(events, 1, rules=replace(rules, watermark_delay_ms=NEVER_MS))
    moment = Batch((), 2, floor_ms=newest - rules.watermark_delay_ms, rules=rules)
    live = batches_of(CheckpointLog(stage.checkpoint).committed()[1:], files)
    assert_landed(stage, [history, moment, *live], [row for name in names[KEPT:] for row in files[name]])
