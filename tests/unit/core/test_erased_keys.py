"""Erased keys: which events, logs and texts hold one, by their digests alone."""

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.core.definition.erasure import ErasedOnce, digest_key, join_digests
from sessionizer.core.definition.rules import Caps, Clock
from sessionizer.core.wire import rows, schema
from sessionizer.core.wire.codec import decode, decode_log, encode, mark_admitted, mark_continued, tombstones
from sessionizer.core.wire.erased_keys import NOBODY_ERASED, ErasedKeys, refuse_erased

SECRET = b"a secret of the tests"
MOMENT = 1_000
KEYS = st.sampled_from(["ann", "bob", "bo", "ann\0", "Ä", "a b", ""])
TIMES = st.integers(MOMENT - 3, MOMENT + 3)


def erased(*values: str, column: str = schema.KEY, until_ms: int = MOMENT, redacts: tuple[str, ...] = ()) -> ErasedKeys:
    digests = join_digests(digest_key(SECRET, column, value) for value in values)
    return ErasedKeys(SECRET, (ErasedOnce(column, until_ms, digests, redacts),))


def events(given: Sequence[tuple[str | None, int]], clock: Clock = Clock.EVENT_TIME) -> pa.RecordBatch:
    columns: dict[str, list[object]] = {
        schema.KEY: [key for key, _ in given],
        schema.CLIENT: ["app" for _ in given],
        schema.CLOCK: [at for _, at in given],
        schema.TIE: [0 for _ in given],
        schema.EVENT_ID: [f"e{number}" for number in range(len(given))],
        schema.CLOSES: [False for _ in given],
        schema.TIMEOUT: [None for _ in given],
    }
    wanted = schema.event_schema([], clock)
    return pa.RecordBatch.from_pydict({name: columns[name] for name in wanted.names}, schema=wanted)


@given(st.lists(st.tuples(st.none() | KEYS, TIMES)), st.sets(KEYS))
def test_an_event_is_erased_if_its_key_is_and_it_happened_by_the_moment(
    happened: list[tuple[str | None, int]], gone: set[str]
) -> None:
    mask = erased(*gone).find_in_events(events(happened))
    found = [False] * len(happened) if mask is None else mask.to_pylist()
    assert found == [key in gone and at <= MOMENT for key, at in happened]


def test_the_same_value_of_another_column_or_another_secret_is_not_erased() -> None:
    batch = events([("app", MOMENT)])
    found = erased("app", column=schema.CLIENT).find_in_events(batch)
    assert found is not None
    assert found.to_pylist() == [True]
    assert erased("ann", column=schema.CLIENT).find_in_events(batch) is None
    other = ErasedKeys(b"another secret, as long", erased("app").erasures)
    assert other.find_in_events(batch) is None
    assert not NOBODY_ERASED


def test_a_column_of_the_payload_is_tested_if_the_events_have_it() -> None:
    batch = events([("ann", MOMENT), ("bob", MOMENT), ("cy", MOMENT)])
    by_account = erased("a1", column="account")
    assert by_account.find_in_events(batch) is None
    for kind in (pa.string(), pa.large_string()):
        found = by_account.find_in_events(batch.append_column("payload_account", pa.array(["a1", None, "a2"], kind)))
        assert found is not None
        assert found.to_pylist() == [True, False, False]


@pytest.mark.parametrize(("own", "found"), [(MOMENT, True), (MOMENT + 1, False), (0, False)])
def test_by_arrival_an_event_counts_by_its_own_time_if_it_has_one(own: int, found: bool) -> None:
    batch = events([("ann", MOMENT + 5)], Clock.PROCESSING_TIME)
    batch = batch.set_column(batch.schema.get_field_index(schema.TIE), schema.TIE, pa.array([own], pa.int64()))
    mask = erased("ann").find_in_events(batch)
    assert (mask is not None and mask.to_pylist() == [True]) is found


@given(st.lists(st.lists(st.tuples(KEYS, TIMES), min_size=1), max_size=4), st.sets(KEYS), st.randoms())
def test_a_log_keeps_all_other_events_as_they_were_admitted(
    batches: list[list[tuple[str, int]]], gone: set[str], chance: object
) -> None:
    caps = Caps(*range(1, len(Caps._fields) + 1))
    tables = [mark_admitted(pa.Table.from_batches([events(each)]), number, caps) for number, each in enumerate(batches)]
    tables[3::3] = map(mark_continued, tables[3::3])
    log = [encode(table) for table in tables]
    deleted = [chance.random() < 0.3 for table in tables for _ in range(table.num_rows)]  # type: ignore[attr-defined]
    if deleted:
        log.append(encode(tombstones(pa.array(deleted).to_numpy(zero_copy_only=False))))
    kept = erased(*gone).clean_log(log)
    left = [row for table in decode_log(kept) for row in table.to_pylist()]
    rows_before = [row for table in decode_log(log) for row in table.to_pylist()]
    assert left == [row for row in rows_before if not (row["key"] in gone and row["clock"] <= MOMENT)]
    thresholds = {(table.schema.metadata or {}).get(b"late_before_ms") for table in map(decode, kept)}
    assert thresholds <= {str(number).encode() for number in range(4)} | {None}
    if not any(key in gone and at <= MOMENT for each in batches for key, at in each):
        assert kept == log


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ('{"user_id": "ann", "ts": 1', True),
        ("ann;1;x", True),
        ("user:ann", True),
        ('{"user_id": "anna"}', False),
        ("joann", False),
        ("", False),
    ],
)
def test_a_text_holds_a_value_between_punctuation(text: str, held: bool) -> None:
    assert erased("ann").are_in_text(text) is held


def guarded(*given: tuple[str | None, int | None, str | None, str | None]) -> pa.RecordBatch:
    """Rows of key, clock, reason and text, as the guard leaves them."""
    batch = events([(key, at or 0) for key, at, _, _ in given])
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns[schema.CLOCK] = pa.array([at for _, at, _, _ in given], pa.int64())
    reason, raw, position = rows.QUARANTINE_COLUMNS
    columns[reason] = pa.array([each[2] for each in given], pa.string())
    columns[raw] = pa.array([each[3] for each in given], pa.string())
    columns[position] = pa.array(["a.json" if each[2] else None for each in given], pa.string())
    return pa.RecordBatch.from_pydict(columns)


def test_a_row_of_an_erased_key_is_refused_without_its_text() -> None:
    batch = guarded(
        ("ann", MOMENT, None, None),
        ("bob", MOMENT, None, None),
        ("ann", MOMENT + 1, None, None),
        ("ann", MOMENT, "null_event_id", '{"user_id": "ann"}'),
        (None, None, "malformed", '{"user_id": "ann", "t'),
        (None, None, "malformed", '{"user_id": "anna", "t'),
        ("ann", MOMENT + 1, "future_event_time", '{"user_id": "ann"}'),
    )
    found = refuse_erased(batch, erased("ann"))
    reasons = ["erased", None, None, "erased", "erased", "malformed", "future_event_time"]
    assert found.column("reason").to_pylist() == reasons
    assert [text is None for text in found.column("_raw").to_pylist()] == [True, True, True, True, True, False, False]
    assert found.column("_position").to_pylist()[3] is None
    assert refuse_erased(batch, erased("nobody")).equals(batch)


def test_an_event_that_tombstones_hide_does_not_stay_in_the_log() -> None:
    table = mark_admitted(pa.Table.from_batches([events([("ann", 1), ("bob", 1)])]), 0, None)
    log = [encode(table), encode(tombstones(pa.array([True, False]).to_numpy(zero_copy_only=False)))]
    kept = erased("ann").clean_log(log)
    assert [row["key"] for blob in kept for row in decode(blob).to_pylist()] == ["bob"]


def test_redacted_columns_become_null_and_the_events_stay() -> None:
    batch = events([("ann", MOMENT), ("bob", MOMENT), ("ann", MOMENT + 1)])
    batch = batch.append_column("payload_page", pa.array(["a", "b", "c"]))
    redacted = erased("ann", redacts=("page", "absent"))
    kept = redacted.clean(batch)
    assert kept.column("payload_page").to_pylist() == [None, "b", "c"]
    assert kept.drop_columns("payload_page").equals(batch.drop_columns("payload_page"))
    assert redacted.clean(kept) is kept
    assert redacted.find_in_events(batch) is None
    log = [encode(mark_admitted(pa.Table.from_batches([batch]), 0, None))]
    (cleaned,) = redacted.clean_log(log)
    assert decode(cleaned).column("payload_page").to_pylist() == [None, "b", "c"]
    assert redacted.clean_log([cleaned])[0] is cleaned


def test_a_refused_row_of_a_redacted_key_loses_its_text() -> None:
    batch = guarded(("ann", MOMENT, None, None), ("ann", MOMENT, "null_event_id", '{"user_id": "ann"}'))
    batch = batch.append_column("payload_page", pa.array(["a", "b"]))
    found = refuse_erased(batch, erased("ann", redacts=("page",)))
    assert found.column("reason").to_pylist() == [None, "erased"]
    assert found.column("_raw").to_pylist() == [None, None]
    assert found.column("payload_page").to_pylist() == [None, None]
