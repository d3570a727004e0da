"""Rows of two tables, paired by their key and compared value by value."""

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from sessionizer.errors import NothingToProve
from sessionizer.state.proof.comparison import (
    ComparedTable,
    DifferenceKind,
    TableComparison,
    compare_rows,
    merge_comparisons,
)
from sessionizer.state.proof.result import ReplayedBatches, choose_batches
from support.fixtures.reviewed import Reviewed
from support.places import known

TABLE = ComparedTable("rows", "rows", ("id",), ("written_at",))


def found(old: pa.Table, new: pa.Table, table: ComparedTable = TABLE) -> dict[tuple[str, tuple[str, ...]], int]:
    compared = compare_rows(old, new, table)
    return {(str(each.kind), each.columns): each.rows for each in compared.differences}


def rows(**columns: Any) -> pa.Table:
    return pa.table(columns)


def test_nulls_and_nan_are_values() -> None:
    old = rows(id=["a", None, "c"], value=[None, math.nan, 1.0])
    assert found(old, old) == {}
    assert found(old, rows(id=["a", None, "c"], value=[0.0, math.nan, None])) == {("columns_differ", ("value",)): 2}


def test_wall_clock_and_lineage_are_not_compared() -> None:
    assert found(rows(id=["a"], written_at=[1], lineage=["x"]), rows(id=["a"], written_at=[2], lineage=["y"])) == {}


def test_a_column_that_one_side_lacks_counts_as_null() -> None:
    old = rows(id=["a", "b"])
    assert found(old, rows(id=["a", "b"], more=pa.nulls(2, pa.int64()))) == {}
    assert found(old, rows(id=["a", "b"], more=[None, 3])) == {("columns_differ", ("more",)): 1}
    assert found(rows(id=["a", "b"], more=[None, 3]), old) == {("columns_differ", ("more",)): 1}


def test_a_column_of_another_type_is_compared_by_value() -> None:
    wide = pa.array([1, 2], pa.int64())
    assert found(rows(id=["a", "b"], n=pa.array([1, 2], pa.int32())), rows(id=["a", "b"], n=wide)) == {}
    assert found(rows(id=["a", "b"], n=["1", "two"]), rows(id=["a", "b"], n=wide)) == {("columns_differ", ("n",)): 1}


def test_values_inside_of_events_are_named_by_their_path() -> None:
    events = [[{"id": 1, "page": "a"}, {"id": 2, "page": None}], None, []]
    other = [[{"id": 1, "page": "a"}, {"id": 2, "page": "b"}], None, []]
    longer = [[{"id": 1, "page": "a"}], [], []]
    old = rows(id=["a", "b", "c"], events=events)
    assert found(old, rows(id=["a", "b", "c"], events=other)) == {("columns_differ", ("events.page",)): 1}
    assert found(old, rows(id=["a", "b", "c"], events=pa.array(longer, old.schema.field("events").type))) == {
        ("columns_differ", ("events",)): 2
    }
    (shown,) = compare_rows(old, rows(id=["a", "b", "c"], events=other), TABLE).differences[0].samples
    assert (shown.key, shown.old, shown.new) == (
        {"id": "a"}, {"events.page": '["a", null]'}, {"events.page": '["a", "b"]'},
    )  # fmt: skip


def test_a_field_that_events_gained_is_named() -> None:
    old, new = rows(id=["a"], events=[[{"id": 1}]]), rows(id=["a"], events=[[{"id": 1, "page": "b"}]])
    assert found(old, new) == {("columns_differ", ("events.page",)): 1}


def test_maps_are_compared_as_a_whole() -> None:
    kind = pa.map_(pa.string(), pa.int64())
    old = rows(id=["a", "b"], m=pa.array([[("x", 1)], None], kind))
    assert found(old, old) == {}
    assert found(old, rows(id=["a", "b"], m=pa.array([[("x", 2)], None], kind))) == {("columns_differ", ("m",)): 1}


def test_rows_of_one_key_are_paired_in_the_order_of_their_values() -> None:
    old = rows(id=["a", "a", "a"], n=[1, 2, 3])
    assert found(old, rows(id=["a", "a", "a"], n=[3, 1, 2])) == {}
    assert found(old, rows(id=["a", "a"], n=[1, 2])) == {("only_old", ()): 1}
    assert found(old, rows(id=["a", "a", "a", "a"], n=[1, 2, 3, 3])) == {("only_new", ()): 1}


def test_a_key_of_two_columns_keeps_nulls_apart() -> None:
    table = ComparedTable("rows", "rows", ("x", "y"), ())
    old = rows(x=["a", None, "a"], y=[None, "a", "a"])
    assert found(old, rows(x=[None, "a", "a"], y=["a", "a", None]), table) == {}
    assert found(old, rows(x=["a", "a"], y=["a", "b"]), table) == {("only_old", ()): 2, ("only_new", ()): 1}


def test_nothing_against_something() -> None:
    some = rows(id=["a", "b"], events=[[{"id": 1}], []])
    assert found(some, some.slice(0, 0)) == {("only_old", ()): 2}
    assert found(some.slice(0, 0), some) == {("only_new", ()): 2}
    assert compare_rows(some.slice(0, 0), some.slice(0, 0), TABLE) == TableComparison()


def test_parts_add_up_and_survive_json() -> None:
    old = rows(id=[str(n) for n in range(40)], n=list(range(40)))
    new = rows(id=[str(n) for n in range(5, 45)], n=[n + (n % 3 == 0) for n in range(5, 45)])
    parts = [
        compare_rows(old.filter(pa.array([n % 4 == part for n in range(40)])),
                     new.filter(pa.array([n % 4 == part for n in range(5, 45)])), TABLE)
        for part in range(4)
    ]  # fmt: skip
    whole, merged = compare_rows(old, new, TABLE), merge_comparisons(parts)
    counts = [{(each.kind, each.columns): each.rows for each in one.differences} for one in (whole, merged)]
    assert (
        counts[0]
        == counts[1]
        == {(DifferenceKind.ONLY_OLD, ()): 5, (DifferenceKind.ONLY_NEW, ()): 5, (DifferenceKind.COLUMNS, ("n",)): 12}
    )
    assert (merged.old, merged.new, merged.identical) == (40, 40, 23)
    assert all(len(each.samples) <= 10 for each in merged.differences)
    assert TypeAdapter(TableComparison).validate_json(json.dumps(asdict(merged))) == merged


def test_long_values_are_cut_in_samples() -> None:
    compared = compare_rows(rows(id=["a"], t=["x" * 5_000]), rows(id=["a"], t=["y"]), TABLE)
    old = known(compared.differences[0].samples[0].old)
    assert len(str(old["t"])) < 300


VALUES = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2)), max_size=12)


@given(VALUES, VALUES)
def test_every_row_is_counted_once(old: list[tuple[str, int]], new: list[tuple[str, int]]) -> None:
    def table(values: list[tuple[str, int]]) -> pa.Table:
        return pa.table({"id": pa.array([v[0] for v in values], pa.string()),
                         "n": pa.array([v[1] for v in values], pa.int64())})  # fmt: skip

    compared = compare_rows(table(old), table(new), TABLE)
    of_kind: Mapping[DifferenceKind, int] = Counter({each.kind: each.rows for each in compared.differences})
    keys_old, keys_new = Counter(v[0] for v in old), Counter(v[0] for v in new)
    assert of_kind[DifferenceKind.ONLY_OLD] == (keys_old - keys_new).total()
    assert of_kind[DifferenceKind.ONLY_NEW] == (keys_new - keys_old).total()
    assert compared.identical + of_kind[DifferenceKind.COLUMNS] == (keys_old & keys_new).total()
    assert (not compared.differences) == (Counter(old) == Counter(new))


@pytest.mark.parametrize("value", [1.0000000001, -1.0])
def test_a_small_error_is_a_difference(value: float) -> None:
    assert found(rows(id=["a"], n=[1.0]), rows(id=["a"], n=[value])) == {("columns_differ", ("n",)): 1}


KEPT = range(40, 61)


def chosen(count: int = 10, first: int | None = None, *, gone: tuple[int, ...] = ()) -> ReplayedBatches:
    return choose_batches("clicks", KEPT, count, first, lambda batch: "it is gone" if batch in gone else None)


def test_the_newest_are_replayed() -> None:
    found = chosen(3)
    assert (found.ids, found.fork_at, found.note) == ((58, 59, 60), 57, None)


def test_no_more_than_are_kept() -> None:
    assert chosen(500).ids == tuple(range(41, 61)), "the oldest has no state before it"


def test_batches_from_one_on() -> None:
    assert chosen(4, 50).ids == (50, 51, 52, 53)
    assert chosen(400, 59).ids == (59, 60)


@pytest.mark.parametrize("first", [40, 12, 61])
def test_a_batch_that_is_not_kept_is_refused(first: int) -> None:
    with pytest.raises(NothingToProve, match="41 to 60"):
        chosen(3, first)


def test_a_choice_begins_after_an_obstacle() -> None:
    found = chosen(10, gone=(52, 55))
    assert (found.first, found.last) == (56, 60)
    assert "batch 55" in known(found.note)


def test_an_obstacle_is_refused_by_name(reviewed: Reviewed) -> None:
    with pytest.raises(NothingToProve) as raised:
        chosen(10, gone=(60,))
    reviewed(raised.value)
    with pytest.raises(NothingToProve) as raised:
        chosen(10, 50, gone=(52,))
    reviewed(raised.value)


@pytest.mark.parametrize("committed", [[], [7], [3, 4, 9]])
def test_a_replay_needs_a_batch_before(committed: list[int]) -> None:
    with pytest.raises(NothingToProve):
        choose_batches("clicks", committed, 5, None, lambda _: None)


def test_a_gap_ends_the_choice() -> None:
    assert choose_batches("clicks", [1, 2, 3, 7, 8, 9], 50, None, lambda _: None).ids == (8, 9)
