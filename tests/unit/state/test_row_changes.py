"""The rows that a restore deletes and brings back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.errors import InvalidSpec
from sessionizer.state.lineages.origin import NO_BATCH, NO_ROWS, BatchRange, Origin, Segment, batches_only_on, path_to
from sessionizer.state.restores.row_changes import RowChanges, RowsOfTable, changes_to, deletion_of_all
from support.histories.model_table import Row, select

ORIGINS = {
    "a": None,
    "b": Origin("rescale", 0, "a", 7),
    "c": Origin("restore", 0, "b", 3, "s"),
    "seeded": Origin("seed", 0, "c", NO_BATCH),
    "d": Origin("rescale", 0, "seeded", 2),
}


def test_a_path_leads_from_the_first_lineage_to_the_batch() -> None:
    assert path_to("c", 5, ORIGINS) == (Segment("a", 7), Segment("b", 3), Segment("c", 5))
    assert path_to("a", None, ORIGINS) == (Segment("a"),)
    assert path_to("d", 4, ORIGINS) == (Segment("seeded", 2), Segment("d", 4)), "a seed begins a path"
    assert path_to("stranger", 4, ORIGINS) == (Segment("stranger", 4),)


def test_a_circle_in_the_records_ends() -> None:
    circle = {"a": Origin("restore", 0, "b", 1), "b": Origin("restore", 0, "a", 2)}
    assert path_to("a", 3, circle) == (Segment("b", 1), Segment("a", 3))


def test_what_is_missing_is_on_the_target_alone() -> None:
    active = path_to("c", None, ORIGINS)
    assert batches_only_on(path_to("b", 9, ORIGINS), active) == (BatchRange("b", 3, 9),)
    assert batches_only_on(path_to("a", 9, ORIGINS), active) == (BatchRange("a", 7, 9),)
    assert batches_only_on(path_to("a", 6, ORIGINS), active) == ()
    assert batches_only_on(active, path_to("d", None, ORIGINS))[-1] == BatchRange("c", -1, None)


paths = st.lists(st.sampled_from("abcdef"), unique=True, max_size=5).flatmap(
    lambda names: st.tuples(
        *(st.builds(Segment, st.just(name), st.integers(0, 5)) for name in names[:-1]),
        *(st.builds(Segment, st.just(name), st.one_of(st.none(), st.integers(0, 5))) for name in names[-1:]),
    )
)
ALL_ROWS = frozenset(Row(lineage, batch, 0) for lineage in "abcdef" for batch in range(8))


def on(path: tuple[Segment, ...]) -> frozenset[Row]:
    ends = {segment.lineage: 99 if segment.until is None else segment.until for segment in path}
    return frozenset(row for row in ALL_ROWS if row.batch_id <= ends.get(row.lineage, -1))


@given(paths, paths)
def test_tables_that_held_one_path_hold_the_other_afterwards(
    target: tuple[Segment, ...], active: tuple[Segment, ...]
) -> None:
    changes = changes_to(target, active, "abcdef")
    before = on(active)
    after = (before - select(before, changes.deleted_rows)) | select(ALL_ROWS, changes.missing_rows)
    assert after == on(target)
    assert not select(before, changes.missing_rows)


@given(paths)
def test_rows_of_strangers_stay(target: tuple[Segment, ...]) -> None:
    stranger = Row("somebody", 3, 0)
    assert not select([stranger], changes_to(target, NO_ROWS, "abcdef").deleted_rows)


def test_a_stream_that_begins_anew_keeps_no_row() -> None:
    assert select(ALL_ROWS, deletion_of_all("abcdef").deleted_rows) == ALL_ROWS


def test_nothing_to_change_is_a_condition_too() -> None:
    assert (RowChanges(()).deleted_rows, RowChanges(()).missing_rows) == ("false", "false")


def test_an_id_that_would_leave_its_quotes_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="lineage"):
        _ = RowChanges((Segment("a' OR true --", 2),)).deleted_rows


def test_rows_of_all_days() -> None:
    rows = RowsOfTable("sessions", "/t", {"2026-11-22": 3, "2026-11-23": 4}, {"2026-11-21": 2})
    assert (rows.rows, rows.rows_back) == (7, 2)
