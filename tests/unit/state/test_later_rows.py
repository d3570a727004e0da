"""Which rows a restore takes back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.errors import InvalidSpec
from sessionizer.state.restores.later_rows import LaterRows, RowsOfTable, rows_after


def test_later_batches_of_the_lineage_and_all_of_those_that_came_after_it() -> None:
    parents = {"a": None, "b": "a", "c": "b", "d": "c", "left": "b"}
    assert rows_after("b", 7, parents) == LaterRows("b", 7, ("c", "d", "left"))


def test_what_was_there_before_the_lineage_stays() -> None:
    assert rows_after("c", 0, {"a": None, "b": "a", "c": "b"}) == LaterRows("c", 0)


def test_a_circle_in_the_records_ends() -> None:
    assert rows_after("a", 1, {"a": "b", "b": "a", "x": None}) == LaterRows("a", 1, ("x",))


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.one_of(st.none(), st.sampled_from("abcdefgh")), min_size=1))
def test_every_lineage_is_past_present_or_taken_back(parents: dict[str, str | None]) -> None:
    lineage = min(parents)
    later = rows_after(lineage, 3, parents)
    past: set[str] = set()
    parent = parents[lineage]
    while parent is not None and parent not in past | {lineage}:
        past.add(parent)
        parent = parents.get(parent)
    assert set(later.others) | past | {lineage} >= set(parents)
    assert not set(later.others) & (past | {lineage})


def test_the_condition_names_both() -> None:
    assert LaterRows("a", 2).condition == "(lineage = 'a' AND batch_id > 2)"
    assert LaterRows("a", 2, ("b", "c")).condition == "((lineage = 'a' AND batch_id > 2) OR lineage IN ('b', 'c'))"


def test_an_id_that_would_leave_its_quotes_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="lineage"):
        _ = LaterRows("a' OR true --", 2).condition


def test_rows_of_all_days() -> None:
    assert RowsOfTable("sessions", "/t", {"2026-11-22": 3, "2026-11-23": 4}).rows == 7
