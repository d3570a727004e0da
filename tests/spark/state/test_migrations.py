"""A stream whose open events are migrated: the tables are those of old rules up to the cut, and new ones after it.

One stream, edited in four ways at once: a column renamed, another key, a type narrowed, events that leave.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from sessionizer.control.execution import execute
from sessionizer.control.records.operation_record import Ending
from sessionizer.core.definition.event import AdmittedEvent, Batch, Event
from sessionizer.core.definition.oracle import sessionize
from sessionizer.core.definition.outcome import Outcome
from sessionizer.core.definition.rules import NEVER_MS
from sessionizer.errors import MigrationRefused
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import list_names
from sessionizer.home.stream_home import GROUP_LOGS, OPEN_EVENTS, SavepointHome
from sessionizer.lineage.kept_spec import read_applied, waiting_migrations
from sessionizer.migrations.draft import Preview
from sessionizer.spark.query.assembly import rules_of
from sessionizer.spark.state.commands.moves import ApplyRunner
from sessionizer.spark.state.lineages.migrated_events import MigratedEvents, preview_migrations
from sessionizer.spark.state.open_events import reading_state
from sessionizer.spark.state.savepoints.saved_state import has_table, make_savepoint, recount, saved_events
from sessionizer.state.commands.upgrades import Apply
from sessionizer.state.lineages.committed_batch import LineageStep, read_committed_batch
from sessionizer.state.savepoints.listing import complete_savepoint, list_savepoints
from sessionizer.state.savepoints.manifest import Manifest
from sessionizer.state.savepoints.savepoint_writer import SavepointRequest
from support.expected.checkpoint_log import CheckpointLog
from support.processes.in_process import catch_up, drain
from support.streams.changing_stream import records_of
from support.streams.stage import Stage, clicks_spec
from support.verbs.begun_restore import approved
from support.verbs.reseeded_stream import SEED_BATCH
from support.verbs.scripted_runner import Killed

START_MS = 1_750_000_000_000
Click = tuple[str, str | None, int, str, str, str, float, str]
"""device, user, second, id, type, page, amount, client."""

BEFORE: Sequence[Sequence[Click]] = (
    (
        ("phone", "ann", 0, "a1", "view", "/", 1.25, "web"),
        ("phone", "ann", 1, "a2", "view", "/x", 2.0, "web"),
        ("tablet", "ann", 5, "t1", "view", "/", 0.5, "web"),
        ("kiosk", None, 3, "k1", "view", "/", 9.0, "web"),
        ("lab", "tim", 2, "l1", "view", "/", 7.0, "test"),
    ),
    (
        ("phone", "ann", 52, "a3", "view", "/y", 3.5, "web"),
        ("tablet", "ann", 55, "t2", "buy", "/z", 4.75, "web"),
        ("pc", "bob", 56, "b1", "view", "/", 1.0, "web"),
        ("lab", "tim", 57, "l2", "view", "/", 7.0, "test"),
        ("pc", "eve", 58, "e1", "view", "/", 1.0, "web"),
    ),
    (
        ("phone", "ann", 60, "s", "view", "/same", 1.0, "web"),
        ("tablet", "ann", 60, "s", "view", "/same", 1.0, "web"),
        ("phone", "ann", 61, "c", "view", "/one", 1.0, "web"),
        ("tablet", "ann", 61, "c", "view", "/two", 1.0, "web"),
        ("phone", "ann", 52, "a3", "view", "/y", 3.5, "web"),
        ("pc", "bob", 56, "b1", "view", "/other", 1.0, "web"),
    ),
)
AFTER: Sequence[Sequence[Click]] = (
    (
        ("car", "ann", 70, "n1", "view", "/", 1.0, "web"),
        ("pc", "bob", 71, "b2", "view", "/", 0.125, "web"),
        ("kiosk", None, 72, "k2", "view", "/", 0.0, "web"),
    ),
    (("car", "ann", 150, "n2", "view", "/", 1.0, "web"), ("pc", "eve", 151, "e2", "view", "/", 1.0, "web")),
)
IDS = ["users-instead-of-devices", "kind-from-type", "cents"]
KEY_GROUPS = 3
OLD_COLUMNS = ("type", "page", "amount", "who")
NEW_COLUMNS = ("page", "amount", "who", "kind")


def old_spec() -> dict[str, Any]:
    spec = clicks_spec(emit_every="5 minutes")
    payload = {"type": "type", "page": "page", "amount": "amount", "who": "user_id"}
    mapping = {"key": "device", "client": "client", "event_time": "timestamp_millis(ts)", "event_id": "event_id"}
    return {**spec, "mapping": {**mapping, "payload": payload}, "measures": {"total": "sum(amount)"}}


def new_spec() -> dict[str, Any]:
    spec = old_spec()
    payload = {"page": "page", "amount": "cast(amount * 100 as bigint)", "who": "user_id", "kind": "type"}
    mapping = {**spec["mapping"], "key": "coalesce(user_id, device)", "payload": payload}
    migrations = [
        {"id": "users-instead-of-devices", "key": "coalesce(who, key)"},
        {"id": "kind-from-type", "columns": {"kind": "type"}, "drop": ["type"]},
        {"id": "cents", "columns": {"amount": "cast(amount * 100 as bigint)"}, "where": "client <> 'test'"},
    ]
    # a column of another type needs another table
    return {**spec, "mapping": mapping, "migrations": migrations, "sink": {"path": "second"}, "key_groups": KEY_GROUPS}


def cents(amount: float) -> int:
    return int(amount * 100)


def event_of(click: Click, *, new: bool) -> Event:
    device, user, second, event_id, kind, page, amount, client = click
    at = START_MS + 1000 * second
    if new:
        payload: tuple[Any, ...] = (page, cents(amount), user, kind)
        return Event(user or device, client, at, event_id, payload=payload, columns=NEW_COLUMNS)
    return Event(device, client, at, event_id, payload=(kind, page, amount, user), columns=OLD_COLUMNS)


def migrate(admitted: AdmittedEvent) -> AdmittedEvent | None:
    event = admitted.event
    kind, page, amount, who = event.payload
    if event.client == "test":
        return None
    payload = (page, cents(float(str(amount))), who, kind)
    return replace(admitted, event=replace(event, key=str(who or event.key), payload=payload, columns=NEW_COLUMNS))


@dataclass(frozen=True)
class Divided:
    """Migrated events divided among key groups, of ``evaluated`` ones in all, and the columns that keep them."""

    by_group: dict[int, int]
    evaluated: int
    columns: list[str]


@dataclass(frozen=True)
class Migrated:
    stage: Stage
    lineages: tuple[str, str]
    files: dict[str, Sequence[Click]]
    saved: Manifest
    saved_without_rows: Manifest
    preview: Preview
    divided: Divided

    def expected(self) -> Outcome:
        batches: list[Batch] = []
        for number, lineage in enumerate(self.lineages):
            for batch in CheckpointLog(self.stage.stream_home.checkpoint(lineage)).committed():
                if number and batch.batch_id == SEED_BATCH:
                    continue
                clicks = [click for name in sorted(batch.files) for click in self.files.get(name, ())]
                events = tuple(event_of(click, new=bool(number)) for click in clicks)
                begins = bool(number) and not any(batch.migrate for batch in batches)
                batches.append(Batch(events, batch.at_ms, migrate=migrate if begins else None))
        batches.append(Batch((), batches[-1].arrived_at_ms + 1, floor_ms=NEVER_MS))
        return sessionize(batches, rules_of(self.stage.spec()))

    def records(self, spark: SparkSession, table: str) -> list[dict[str, Any]]:
        home = self.stage.stream_home
        places = (home.table_locations(None)[table], home.table_locations("second")[table])
        return [row for place in places for row in records_of(spark, place)]


def write(stage: Stage, number: int, clicks: Iterable[Click]) -> str:
    rows = [
        {
            "device": device, "user_id": user, "ts": START_MS + 1000 * second, "event_id": event_id, "type": kind,
            "page": page, "amount": amount, "client": client,
        }
        for device, user, second, event_id, kind, page, amount, client in clicks
    ]  # fmt: skip
    file = stage.feed / f"clicks-{number}.json"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(file, (START_MS / 1000 + number,) * 2)  # a source reads the oldest first
    return file.name


@pytest.fixture(scope="module")
def migrated(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Migrated:
    stage = Stage.begun(tmp_path_factory.mktemp("migrated"), old_spec())
    home, before = stage.stream_home, stage.lineage
    assert before
    files = {write(stage, number, clicks): clicks for number, clicks in enumerate(BEFORE)}
    catch_up(spark, stage)
    stage.write_spec(new_spec())
    command, spec = Apply(), stage.spec()
    runner = ApplyRunner(spark=spark, home=home, command=command, spec=spec, savepoints=home.savepoints)

    assert [line.partition(" ")[0] for line in runner.look().decision.migrations] == IDS
    scratch = MigratedEvents(spark, home, read_committed_batch(home), tuple(spec.migrations), home.seeds / "preview")
    preview, divided = preview_migrations(scratch), divide_counted(spark, scratch)
    operation = approved(runner)

    def die(step: str) -> None:
        if step == f"new lineage: {LineageStep.ACTIVATED}":
            raise Killed

    runner.say = die
    with pytest.raises(Killed):
        execute(operation, runner)
    again = ApplyRunner(spark=spark, home=home, command=command, spec=spec, savepoints=home.savepoints)
    done = execute(operation, again)
    assert done.outcome is Ending.DONE
    assert done.lineage_to == stage.lineage != before
    assert not again.look().is_needed
    request = SavepointRequest(home.savepoints, "after", "after")
    manifest = make_savepoint(spark, home, read_committed_batch(home), request, lambda _: None)
    bare = replace(request, id="bare", with_rows=False)
    without_rows = make_savepoint(spark, home, read_committed_batch(home), bare, lambda _: None)
    for number, clicks in enumerate(AFTER, len(files)):
        files[write(stage, number, clicks)] = clicks
        catch_up(spark, stage)
    drain(spark, stage)
    assert stage.lineage
    return Migrated(stage, (before, stage.lineage), files, manifest, without_rows, preview, divided)


def divide_counted(spark: SparkSession, decided: MigratedEvents) -> Divided:
    """Migrate decided events once more, and count how often Spark evaluates one."""
    evaluated = spark.sparkContext.accumulator(0)

    class Counted(MigratedEvents):
        def decided_events(self) -> DataFrame:
            def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                for batch in batches:
                    evaluated.add(batch.num_rows)
                    yield batch

            events = super().decided_events()
            return events.mapInArrow(count, events.schema)

    found = Counted(spark, decided.home, decided.committed, decided.pending, decided.folder).migrate(KEY_GROUPS)
    return Divided(dict(found.by_group), evaluated.value, found.shares.columns)


def test_the_tables_are_those_of_the_definition(spark: SparkSession, migrated: Migrated) -> None:
    expected, found = migrated.expected(), migrated.records(spark, "sessions")
    assert not expected.open_events
    assert Counter(
        (row["key"], row["started_at"] // 1000, row["ended_at"] // 1000, row["event_count"], row["session_id"])
        for row in found
    ) == Counter(
        (each.key, each.started_at_ms, each.ended_at_ms, each.event_count, each.session_id) for each in expected.closed
    )
    assert Counter(str(event["event_id"]) for row in found for event in row["events"]) == Counter(
        event.event_id for each in expected.closed for event in each.events
    )


def test_the_events_have_their_migrated_columns(spark: SparkSession, migrated: Migrated) -> None:
    second = migrated.stage.stream_home.table_locations("second")["sessions"]
    (ann,) = (
        row for row in records_of(spark, second) if row["key"] == "ann" and row["ended_at"] < (START_MS + 80_000) * 1000
    )
    shown = {event["event_id"]: (event["kind"], event["amount"]) for event in ann["events"]}
    assert shown["t2"] == ("buy", 475)
    assert shown["a3"] == ("view", 350)
    assert ann["total"] == sum(amount for _, amount in shown.values())


def test_what_was_over_and_what_conflicted_is_written_once(spark: SparkSession, migrated: Migrated) -> None:
    expected, (_, after) = migrated.expected(), migrated.lineages
    first = migrated.stage.stream_home.table_locations(None)
    finished = records_of(spark, first["sessions"])
    assert Counter(row["key"] for row in finished) == Counter(("phone", "tablet", "kiosk", "lab"))
    over = [row for row in finished if row["lineage"] == after]
    assert len(over) == migrated.preview.finished > 0
    assert {row["batch_id"] for row in over} == {SEED_BATCH}
    conflicting = [row for row in migrated.records(spark, "quarantine") if row["reason"] == "conflicting_duplicate"]
    assert len(conflicting) == len(expected.conflicting) == 2
    assert not list_names(migrated.stage.stream_home.lineage(after).migration), "nothing of the command is left"


def test_the_preview_counts_what_the_migrations_do(migrated: Migrated) -> None:
    found = migrated.preview
    # open at the cut: three events of phone, three of tablet, two of pc, one of lab
    assert (found.events, found.leave) == (9, 1)
    assert (found.keys_before, found.keys_after) == (4, 3)
    assert (found.merged_keys, found.split_keys, found.duplicates) == (1, 1, 2)
    (collision,) = found.collisions
    assert (collision.key, collision.before) == ("ann", ("phone", "tablet"))
    assert len(found.samples) == 9
    (left,) = (each for each in found.samples if each.after is None)
    assert left.before["event_id"] == "l2"
    shown = "\n".join(found.lines())
    assert all(count in shown for count in ("that merge: 1,", "that split: 1"))
    assert 'tablet t2: key "tablet" → "ann", type "buy" → none, amount 4.75 → 475, kind none → "buy"' in shown


def test_migrated_events_are_evaluated_once_and_kept_as_blobs(migrated: Migrated) -> None:
    found, preview = migrated.divided, migrated.preview
    assert sum(found.by_group.values()) == preview.events - preview.leave
    assert max(found.by_group) < KEY_GROUPS
    assert {"blob", "events"} < set(found.columns)
    assert "event_id" not in found.columns
    assert found.evaluated == preview.events, "each once"


def test_a_savepoint_without_rows_has_the_same_events(spark: SparkSession, migrated: Migrated) -> None:
    savepoints, manifests = migrated.stage.stream_home.savepoints, (migrated.saved, migrated.saved_without_rows)
    homes = [SavepointHome.of(savepoints, each.id) for each in manifests]
    assert [has_table(each, OPEN_EVENTS) for each in manifests] == [True, False]
    assert manifests[0].counts == manifests[1].counts
    with reading_state(spark):
        counted = [recount(spark, *each) for each in zip(homes, manifests, strict=True)]
        frames = [saved_events(spark, *each) for each in zip(homes, manifests, strict=True)]
        assert frames[0].schema == frames[1].schema
        rows, opened = (sorted(map(repr, frame.collect())) for frame in frames)
    assert counted[1] == {GROUP_LOGS: counted[0][OPEN_EVENTS]}
    assert rows == opened != []


def test_the_savepoint_before_the_upgrade_has_no_rows(migrated: Migrated) -> None:
    savepoints = migrated.stage.stream_home.savepoints
    (found,) = (each for each in list_savepoints(savepoints, epoch_ms()) if each.id.startswith("apply-"))
    _, manifest = complete_savepoint(savepoints, found.id, epoch_ms())
    assert (manifest.lineage, manifest.live) == (migrated.lineages[0], False)
    assert (has_table(manifest, GROUP_LOGS), has_table(manifest, OPEN_EVENTS)) == (True, False)


def test_the_lineage_and_its_savepoints_keep_which_were_applied(migrated: Migrated) -> None:
    home, (before, after) = migrated.stage.stream_home, migrated.lineages
    assert [each.id for each in read_applied(home, after)] == IDS
    assert read_applied(home, before) == ()
    assert [each.id for each in migrated.saved.migrations] == IDS
    assert waiting_migrations(home, after, migrated.stage.spec()) == ()
    edited = new_spec()
    edited["migrations"][0]["key"] = "who"
    migrated.stage.write_spec(edited)
    with pytest.raises(MigrationRefused, match="edited"):
        waiting_migrations(home, after, migrated.stage.spec())
    migrated.stage.write_spec(new_spec())
