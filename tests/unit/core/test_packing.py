"""Canonical rows divided into other key groups, and packed: nothing gets lost, whatever comes together."""

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionizer.core.definition.event import session_id
from sessionizer.core.definition.rules import Caps, Clock
from sessionizer.core.key_group.table_rows import RowOrigin, late_rows, quarantine_rows, session_rows
from sessionizer.core.wire import canonical as packing
from sessionizer.core.wire import schema
from sessionizer.core.wire.canonical import code_admissions, comes_back, log_of, pack_shares, read_typed_rows, shares
from sessionizer.core.wire.codec import decode, mark_admitted
from sessionizer.core.wire.schema import group_labels, spark_hash

GROUP = "new_group"


@pytest.fixture
def divided_at_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "DIVIDED_BYTES", 1)
        yield


def rows_of(events: list[tuple[str, int]]) -> pa.Table:
    """An event for each key and turn, in a log of a table for each turn, as canonical rows."""
    log = []
    for turn in sorted({turn for _, turn in events}):
        keys = [key for key, of in events if of == turn]
        columns = {
            schema.KEY: pa.array(keys, pa.string()),
            schema.CLIENT: pa.nulls(len(keys), pa.string()),
            schema.CLOCK: pa.array(range(len(keys)), pa.int64()),
            schema.EVENT_ID: pa.array([f"{key}{turn}{place}" for place, key in enumerate(keys)], pa.string()),
            schema.CLOSES: pa.array([False] * len(keys)),
            schema.TIMEOUT: pa.nulls(len(keys), pa.int64()),
            "payload_amount": pa.array([float("nan")] * len(keys), pa.float64()),
        }
        log.append(mark_admitted(pa.table(columns), turn, Caps(max_events=3)))
    return read_typed_rows(log, 0)


@pytest.mark.usefixtures("divided_at_once")
@settings(max_examples=100)
@given(
    events=st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 3)), min_size=1, max_size=40),
    at_a_time=st.integers(1, 7),
    seed=st.integers(),
    coded=st.booleans(),
)
def test_each_group_gets_its_rows_and_all_of_them(
    events: list[tuple[str, int]], at_a_time: int, seed: int, *, coded: bool
) -> None:
    rows, admissions = code_admissions(rows_of(events)) if coded else (rows_of(events), None)
    groups = [ord(key) % 3 for key in rows.column(schema.KEY).to_pylist()]
    grouped = rows.append_column(GROUP, pa.array(groups, pa.int32()))
    mixed = grouped.take(pa.array(random.Random(seed).sample(range(len(groups)), len(groups)), pa.int64()))
    of_group: dict[int, list[bytes]] = {}
    for share in shares(mixed.combine_chunks().to_batches(max_chunksize=at_a_time), GROUP, admissions):
        of_group.setdefault(share.group, []).append(share.blob)
    assert set(of_group) == set(groups)
    for group, found in of_group.items():
        log = pack_shares(random.Random(seed).sample(found, len(found)))
        assert log.whole
        tables = [decode(blob) for blob in log.blobs]
        assert log.events == [table.num_rows for table in tables]
        ids = Counter(name for table in tables for name in table.column(schema.EVENT_ID).to_pylist())
        ours = [name for name, of in zip(rows.column(schema.EVENT_ID).to_pylist(), groups, strict=True) if of == group]
        assert ids == Counter(ours)


def test_a_share_counts_its_events_and_those_that_no_group_can_keep() -> None:
    rows = rows_of([("a", 1), ("b", 1), ("c", 2)])
    keys = rows.set_column(rows.schema.get_field_index(schema.KEY), schema.KEY, pa.array(["a", None, "c"]))
    wrong = keys.set_column(rows.schema.get_field_index(schema.TIMEOUT), schema.TIMEOUT, pa.array([0, -5, 1]))
    (share,) = shares([_batch(wrong)], GROUP)
    assert share[2:] == (3, 1, 2)


def test_what_does_not_come_back_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of([("a", 1), ("b", 2)])
    (share,) = (found.blob for found in shares([_batch(rows)], GROUP))
    monkeypatch.setattr(packing, "log_of", lambda rows: log_of(rows)[:1])
    assert not pack_shares([share]).whole


def test_rows_of_a_large_group_come_back_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessionizer.core.wire.codec.WIDE_FROM_BYTES", 0)
    rows = rows_of([("a", 1), ("b", 1), ("a", 2)])
    disordered = rows.take(pa.array([2, 0, 1]))
    assert comes_back(disordered, log_of(disordered))


def _batch(rows: pa.Table) -> pa.RecordBatch:
    (batch,) = (
        rows.append_column(GROUP, pa.repeat(pa.scalar(0, pa.int32()), rows.num_rows)).combine_chunks().to_batches()
    )
    return batch


PAYLOAD = [pa.field("page", pa.string())]
NOON = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
WRITTEN = RowOrigin("first", 7, datetime(2026, 3, 2, 0, 0, 1, tzinfo=UTC))
ORIGIN = {"lineage": "first", "batch_id": 7}


def sessions() -> pa.RecordBatch:
    event = {"event_time": NOON, "event_id": "e1", "closes": True, "page": "/"}
    session = ("ada", None, NOON, NOON.replace(second=9), 1, "gap", "e1", [event])
    shape = schema.session_schema(PAYLOAD)
    return pa.RecordBatch.from_pylist([dict(zip(shape.names, session, strict=True))], shape)


def test_a_session_gets_its_id_day_and_duration() -> None:
    (row,) = session_rows(PAYLOAD, keep_events=True).rows(sessions(), WRITTEN).to_pylist()
    started_ms = int(NOON.timestamp() * 1000)
    assert row["session_id"] == session_id("ada", started_ms, "e1")
    assert (row["date"], row["duration_ms"]) == (date(2026, 3, 1), 9_000)
    assert [event["page"] for event in row["events"]] == ["/"]
    assert row.items() >= {**ORIGIN, "emitted_at": WRITTEN.at}.items()
    (without_events,) = session_rows(PAYLOAD, keep_events=False).rows(sessions(), WRITTEN).to_pylist()
    assert without_events == {name: value for name, value in row.items() if name != "events"}


def test_a_late_event_lies_in_the_day_of_its_own_time() -> None:
    event = {"key": "ada", "clock": int(NOON.timestamp() * 1000), "event_id": "e", "closes": False, "payload_page": "/"}
    batch = pa.RecordBatch.from_pylist([event], schema.event_schema(PAYLOAD, Clock.EVENT_TIME))
    (row,) = late_rows(PAYLOAD).rows(batch, WRITTEN).to_pylist()
    assert (row["event_time"], row["date"], row["page"]) == (NOON, date(2026, 3, 1), "/")
    assert row.items() >= {**ORIGIN, "noticed_at": WRITTEN.at}.items()


def test_a_refused_row_lies_in_the_day_it_was_refused() -> None:
    batch = pa.RecordBatch.from_pydict({"reason": ["null_key"], "_raw": ["{}"], "_position": ["file"]})
    (row,) = quarantine_rows().rows(batch, WRITTEN).to_pylist()
    assert (row["reason"], row["raw"], row["source_position"]) == ("null_key", "{}", "file")
    assert row.items() >= {**ORIGIN, "date": date(2026, 3, 2), "quarantined_at": WRITTEN.at}.items()


def test_the_hash_is_that_of_spark() -> None:
    """As `select hash(0), hash(1), hash(-1), hash(2147483647)` prints them."""
    numbers = np.array([0, 1, -1, 2**31 - 1], np.int32)
    assert spark_hash(numbers).tolist() == [933_211_791, -559_580_957, -1_604_776_387, 133_916_647]


@pytest.mark.parametrize("groups", [1, 2, 3, 16, 1000, 32_768])
def test_each_group_has_a_label_of_its_own_and_any_divisor_of_them_gets_as_many(groups: int) -> None:
    labels = group_labels(groups)
    assert len(set(labels.tolist())) == len(labels) == groups
    for partitions in (count for count in (1, 2, 3, 4, 8, 16, 250) if groups % count == 0):
        counts = np.bincount(np.mod(spark_hash(labels), partitions), minlength=partitions)
        assert counts.tolist() == [groups // partitions] * partitions
