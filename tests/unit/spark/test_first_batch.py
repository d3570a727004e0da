"""A history taken as the first batch, and what comes after it, against the definition of one stream over everything."""

import json
from collections import Counter
from dataclasses import replace
from itertools import chain, permutations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionizer.control.records.driver_records import PartitionPosition, PositionsRecord, count_unread, positions
from sessionizer.core.definition.event import Batch, Event
from sessionizer.core.definition.oracle import sessionize
from sessionizer.core.definition.rules import NEVER_MS, Clock
from sessionizer.core.wire import rows, schema
from sessionizer.core.wire.canonical import canonical_schema
from sessionizer.core.wire.codec import decode
from sessionizer.errors import SourceForbidden, SourceMissing
from sessionizer.home.json_record import add_stamp
from sessionizer.spark.driver.lookups import Oldest, add_retention
from sessionizer.spark.history.read import FirstBatch
from sessionizer.spark.history.seed_runner import spec_of_history
from sessionizer.spark.ingest.source import COMPRESSED_BYTES, RECORDS, TEXT_BYTES, batch_limits
from sessionizer.spark.ingest.topics import ASKED, ask_until_settled, kafka_settings, require_ids, topics_of
from sessionizer.spark.internals.kafka_admin import Fault, Topic
from sessionizer.spark.query.processor import GroupShare
from sessionizer.stream_spec.decisions import document_of, spec_fingerprint
from sessionizer.stream_spec.document.source import DeltaSource, FilesSource, KafkaSource, SocketSource, Source
from support.streams.in_memory_groups import PAYLOAD, InMemoryGroups, event_rows_of, event_table, row_of, session_rows
from support.streams.stage import Stage, clicks_spec
from support.streams.strategies import ORIGIN_MS, Log, logs

CANONICAL = canonical_schema(schema.event_schema(PAYLOAD, Clock.EVENT_TIME))


def tables_in(taken: pa.Table, kind: str) -> list[pa.Table]:
    return [decode(row["blob"]) for row in taken.to_pylist() if row["kind"] == kind]


def counted(taken: pa.Table, kind: str) -> int:
    return sum(row["row_count"] for row in taken.to_pylist() if row["kind"] == kind)


@settings(max_examples=200)
@given(
    log=logs([Clock.EVENT_TIME], drained=True),
    share=st.floats(0, 1),
    moment=st.integers(-50, 500),
    keeps_later=st.booleans(),
    key_groups=st.integers(1, 4),
)
def test_both_together_are_one_stream(log: Log, share: float, moment: int, keeps_later: bool, key_groups: int) -> None:
    cut = round(share * len(log.batches))
    came = tuple(chain.from_iterable(batch.events for batch in log.batches[:cut]))
    moment_ms = ORIGIN_MS + moment
    later = tuple(event for event in came if (event.event_time_ms or 0) > moment_ms)
    history = came if keeps_later else tuple(event for event in came if event not in later)
    live = after(log, cut, () if keeps_later else later)

    rules = replace(log.rules, emit_every_ms=0)
    taken = FirstBatch(rules, moment_ms, PAYLOAD, PAYLOAD, keeps_later).take(event_table(came, rules, 0))
    groups = InMemoryGroups(rules, key_groups)
    groups.begin_with(pa.concat_tables([CANONICAL.empty_table(), *tables_in(taken, rows.OPEN_EVENTS)]), moment_ms)
    for batch in live:
        groups.take(batch)

    aside = replace(rules, watermark_delay_ms=NEVER_MS)
    first = [Batch(history, 0, rules=aside), Batch((), 1, floor_ms=moment_ms, rules=rules)]
    expected = sessionize([*first, *live], rules)
    sessions, still_open = groups.settle()
    sessions += chain.from_iterable(map(session_rows, tables_in(taken, rows.SESSIONS)))
    assert Counter(sessions) == Counter(map(row_of, expected.closed))
    assert still_open == event_rows_of(admitted.event for admitted in expected.open_events)
    assert groups.late == event_rows_of(expected.late)
    assert groups.repeated + counted(taken, rows.REPEATED) == expected.duplicates_dropped
    begun = sessionize(first, rules)
    assert counted(taken, rows.OPEN_EVENTS) == len(begun.open_events)
    assert counted(taken, rows.SESSIONS) == len(begun.closed)
    assert counted(taken, rows.QUARANTINE) == len(begun.conflicting)
    assert counted(taken, rows.LATER) == len(came) - len(history)
    assert groups.conflicting.total() + counted(taken, rows.QUARANTINE) == len(expected.conflicting)


def after(log: Log, cut: int, again: tuple[Event, ...]) -> list[Batch]:
    """What the live source brings: ``again`` first, then the batches after the ``cut``."""
    rest = list(log.batches[cut:])
    return [Batch(again, ORIGIN_MS + 10_000), *rest] if again else rest


def test_a_seed_goes_on_by_the_spec_that_its_history_was_read_by(tmp_path: Path) -> None:
    """The command was killed after that, and its file was edited."""
    approved = Stage.set_up(tmp_path / "approved", clicks_spec()).spec()
    edited = Stage.set_up(tmp_path / "edited", clicks_spec(gap_timeout="5 seconds")).spec()
    assert spec_of_history(tmp_path, edited) == edited, "nothing was read"
    (tmp_path / "taken.json").write_text(json.dumps(add_stamp({"spec": document_of(approved)})))
    assert spec_fingerprint(spec_of_history(tmp_path, edited)) == spec_fingerprint(approved)


def files(encoding: Any, **options: str) -> FilesSource:
    columns = None if encoding == "text" else "a string"
    return FilesSource(format="files", path="feed", encoding=encoding, columns=columns, options=options)


def kafka(**options: str) -> KafkaSource:
    return KafkaSource(format="kafka", bootstrap_servers="b:1", topic="t", encoding="text", options=options)


DELTA = DeltaSource(format="delta", path="t")


@pytest.mark.parametrize(
    ("source", "limits"),
    [
        *((files(encoding), {"maxBytesPerTrigger": str(TEXT_BYTES)}) for encoding in ("json", "csv", "text")),
        *((source, {"maxBytesPerTrigger": str(COMPRESSED_BYTES)}) for source in (files("parquet"), DELTA)),
        (kafka(), {"maxOffsetsPerTrigger": str(RECORDS)}),
        (SocketSource(format="socket", host="h", port=1), {}),
    ],
    ids=["json", "csv", "text", "parquet", "delta", "kafka", "socket"],
)
def test_a_batch_is_limited_by_its_bytes_or_records(source: Source, limits: dict[str, str]) -> None:
    """Compressed files hold more events in a byte."""
    assert batch_limits(source) == limits


@pytest.mark.parametrize("option", ["maxFilesPerTrigger", "maxbytespertrigger"])
def test_a_limit_of_the_spec_is_the_only_one(option: str) -> None:
    """Spark refuses a file source with two."""
    limited = DELTA.model_copy(update={"options": {option: "10"}})
    for source in (files("json", **{option: "10"}), limited, kafka(maxOffsetsPerTrigger="10")):
        assert batch_limits(source) == {}


NOW = 1_790_000_000_000
HOUR = 3_600_000


def test_positions_are_those_of_the_progress() -> None:
    found = positions('{"my-clicks":{"1":20,"0":5}}', '{"my-clicks":{"0":9,"1":20}}')
    assert [(each.name, each.offset, each.newest) for each in found] == [("my-clicks-0", 5, 9), ("my-clicks-1", 20, 20)]
    assert count_unread(found) == {"my-clicks-0": 4, "my-clicks-1": 0}
    (new,) = positions('{"c":{"0":5}}', "null")
    assert (new.behind, count_unread((new,))) == (None, {}), "it has no newest offset yet"


@pytest.mark.parametrize("ends", ['{"logOffset":3}', "null", "None", "", "7", '{"reservoirVersion":{"a":"x"}}', "[]"])
def test_another_source_has_no_positions(ends: str) -> None:
    assert positions(ends, ends) == ()


@pytest.mark.parametrize(
    ("oldest", "first", "left", "lost_in_ms"),
    [
        (None, None, None, None),
        (100, None, 900, None),
        (100, Oldest(100, NOW - HOUR), 900, None),
        (100, Oldest(0, NOW - HOUR), 900, 9 * HOUR),
        (1_000, Oldest(900, NOW - HOUR), 0, 0),
    ],
    ids=["unknown", "the first look", "nothing was deleted", "a pace", "at the edge"],
)
def test_the_time_until_the_broker_deletes_unread_events(
    oldest: int | None, first: Oldest | None, left: int | None, lost_in_ms: int | None
) -> None:
    read = (PartitionPosition(name="c-0", offset=1_000, newest=1_500),)
    (found,) = add_retention(
        read, {} if oldest is None else {"c-0": oldest}, {} if first is None else {"c-0": first}, NOW
    )
    assert (found.left, found.lost_in_ms, found.behind) == (left, lost_in_ms, 500)


def test_the_record_is_read_as_it_was_written() -> None:
    record = PositionsRecord(at=NOW, lineage="a", batch_id=3, partitions=(PartitionPosition(name="c-0", offset=5),))
    told = record.to_json()
    assert told["partitions"][0] == {
        "name": "c-0", "offset": 5, "newest": None, "oldest": None, "lost_in_ms": None, "behind": None, "left": None,
    }  # fmt: skip
    assert PositionsRecord.from_json(told) == record


def timeouts(said_at_ms: int, **changes: int) -> bytes:
    told = [{"client": client, "timeout_ms": timeout_ms} for client, timeout_ms in changes.items()]
    return json.dumps({"timeouts": told, "said_at_ms": said_at_ms}).encode()


def test_of_several_changes_the_last_said_holds_and_of_several_floors_the_highest() -> None:
    said = (timeouts(1, acme=60, globex=7), timeouts(2, acme=10), timeouts(3, acme=30), json.dumps({}).encode())
    floors = (b'{"floor_ms": 5}', b'{"floor_ms": 9}', b'{"floor_ms": null}')
    for order in (*permutations(said), *permutations(floors)):
        share = GroupShare()
        for blob in order:
            share.take(rows.PUNCTUATION, blob)
        wanted = ({}, 9) if order[0] in floors else ({"acme": 30, "globex": 7}, 0)
        assert (share.changed_timeouts, share.floor_ms) == wanted


THERE = Topic("A", readable=True)
GONE = Fault("UnknownTopicOrPartitionException", "This server does not host this topic-partition.")
SHUT = Fault("TopicAuthorizationException", "Topic authorization failed.")


def source(**fields: object) -> KafkaSource:
    given = {"format": "kafka", "bootstrap_servers": "b:1", "topic": "a,b", "encoding": "text"}
    return KafkaSource.model_validate({**given, **fields})


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (GONE, SourceMissing),
        (Fault("InvalidTopicException", "no such name"), SourceMissing),
        (SHUT, SourceForbidden),
        (Fault("SaslAuthenticationException", "wrong password"), SourceForbidden),
        (Topic("B", readable=False), SourceForbidden),
    ],
)
def test_what_cannot_be_read_is_named(answer: Topic | Fault, error: type[SourceMissing | SourceForbidden]) -> None:
    without_id: dict[str, Topic | Fault] = {"a": THERE, "b": Topic(None, readable=True)}
    assert require_ids("clicks", "b:1", without_id) == {"a": "A"}
    with pytest.raises((SourceMissing, SourceForbidden)) as caught:
        require_ids("clicks", "b:1", {"a": THERE, "b": answer})
    assert type(caught.value) is error
    assert (caught.value.stream, caught.value.field, caught.value.name) == ("clicks", "source.topic", "b")
    assert caught.value.place == "b:1"


@pytest.mark.parametrize(("there_at", "asked"), [(1, 1), (2, 2), (ASKED + 1, ASKED)])
def test_a_topic_that_is_missing_is_asked_about_again(there_at: int, asked: int) -> None:
    assert topics_of(source(topic="b,a,b")) == ("b", "a"), "about each once"
    times: list[int] = []

    def ask() -> dict[str, Topic | Fault]:
        times.append(len(times) + 1)
        return {"a": THERE, "b": THERE if times[-1] >= there_at else GONE}

    answers = ask_until_settled(ask, pause_s=0)
    assert (len(times), answers["b"] == THERE) == (asked, there_at <= ASKED)
    shut: list[dict[str, Topic | Fault]] = [{"a": SHUT}]
    assert ask_until_settled(shut.pop, pause_s=0) == {"a": SHUT}, "nobody waits for a right"


def test_settings_are_those_of_the_reader_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLICKS_JAAS", "hunter2")
    options = {"kafka.security.protocol": "SASL_SSL", "Kafka.client.id": "c", "maxOffsetsPerTrigger": "5"}
    secret = {"kafka.sasl.jaas.config": "CLICKS_JAAS"}
    assert kafka_settings(source(options=options, options_from_environment=secret)) == {
        "bootstrap.servers": "b:1",
        "client.id": "c",
        "isolation.level": "read_committed",
        "sasl.jaas.config": "hunter2",
        "security.protocol": "SASL_SSL",
    }
    for option in ("kafka.isolation.level", "kafka.Isolation.Level"):
        settings = kafka_settings(source(options={option: "read_uncommitted"}))
        assert {name.lower(): value for name, value in settings.items()}["isolation.level"] == "read_uncommitted"
