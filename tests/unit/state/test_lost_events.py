"""Position in a source that lost events: each event is read, or named as lost."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.lineage.excluded_ranges import Records
from sessionizer.state.lineages.lost_events import continuation_in_folder, going_on_in_table, going_on_in_topics
from support.fixtures.reviewed import Reviewed

TABLE = {"sourceVersion": 1, "reservoirId": "T", "reservoirVersion": 3, "index": 2, "isStartingVersion": True}


def test_what_retention_removed_is_named() -> None:
    found = going_on_in_topics({"t": {"0": 3, "1": 4}}, {"t": {"0": 5, "1": 0}}, {"t": {"0": 7, "1": 4}}, ())
    assert found.offset == {"t": {"0": 5, "1": 4}}
    assert found.lost == (str(Records("t", 0, 3, 5)),)
    assert found.lost == ("2 records: offsets 3 to 4 of partition 0 of t",)


def test_nothing_is_lost_of_a_topic_that_has_it_all() -> None:
    found = going_on_in_topics({"t": {"0": 3}}, {"t": {"0": 1}}, {"t": {"0": 7}}, ())
    assert (found.offset, found.lost) == ({"t": {"0": 3}}, ())


@pytest.mark.parametrize("replaced", [["t"], []])
def test_a_topic_made_anew_is_read_from_its_beginning(replaced: list[str], reviewed: Reviewed) -> None:
    """A position behind its end tells of one without ids."""
    found = going_on_in_topics({"t": {"0": 5, "1": 9}}, {"t": {"0": 0}}, {"t": {"0": 4}}, replaced)
    assert found.offset == {"t": {"0": 0}}
    reviewed([line.split(",")[0] for line in found.lost])


def test_the_same_topic_may_end_before_the_position() -> None:
    """A transaction that is open holds the end back: nothing is lost, and nothing is read twice."""
    found = going_on_in_topics({"t": {"0": 5}}, {"t": {"0": 0}}, {"t": {"0": 4}}, (), ["t"])
    assert (found.offset, found.lost) == ({"t": {"0": 5}}, ())


def test_a_partition_that_was_added_begins_where_it_begins() -> None:
    found = going_on_in_topics({"t": {"0": 3}}, {"t": {"0": 0, "1": 2}}, {"t": {"0": 3, "1": 6}}, ())
    assert found.offset == {"t": {"0": 3, "1": 2}}
    assert found.lost == (str(Records("t", 1, 0, 2)),)


@st.composite
def partitions(draw: st.DrawFn) -> tuple[int, int, int]:
    """Position, earliest and latest of a partition that was never made anew."""
    position = draw(st.integers(0, 12))
    earliest = draw(st.integers(0, 20))
    return position, earliest, draw(st.integers(max(position, earliest), 25))


@given(st.lists(partitions(), min_size=1, max_size=4))
def test_each_record_is_read_or_named(drawn: list[tuple[int, int, int]]) -> None:
    offset, earliest, latest = ({"t": {str(n): each[what] for n, each in enumerate(drawn)}} for what in range(3))
    found = going_on_in_topics(offset, earliest, latest, ())
    assert found.offset is not None
    for number, (position, begin, end) in enumerate(drawn):
        read = range(found.offset["t"][str(number)], end)
        gone = set(range(position, end)) - set(read)
        assert set(read) <= set(range(begin, end)), "only what is there"
        assert set(read) <= set(range(position, end)), "nothing a second time"
        named = [str(Records("t", number, min(gone), max(gone) + 1))] if gone else []
        assert [line for line in found.lost if f"partition {number} of" in line] == named


@pytest.mark.parametrize(
    ("versions", "holes", "goes_on", "lost"),
    [
        (range(8), {}, None, []),
        (range(3, 8), {}, None, []),
        (range(5, 8), {}, 5, [3, 4]),
        (range(8), {4: 2}, 5, [3, 4]),
        ([3, 4, 6, 7], {}, 6, [3, 4, 5]),
        (range(8), {7: 1}, 8, [3, 4, 5, 6, 7]),
        (range(3), {}, None, []),
    ],
)
def test_versions_that_a_table_has_lost_are_named(
    versions: list[int], holes: dict[int, int], goes_on: int | None, lost: list[int]
) -> None:
    found = going_on_in_table(TABLE, set(versions), holes, replaced=False)
    on: dict[str, Any] = {"reservoirVersion": goes_on, "index": -1, "isStartingVersion": False}
    assert found.offset == (TABLE if goes_on is None else {**TABLE, **on})
    assert [int(line.split(":")[0].removeprefix("version ")) for line in found.lost] == lost


def test_a_table_goes_on_after_the_oldest_state_that_can_be_read() -> None:
    found = going_on_in_table(TABLE, {5, 6, 7}, {}, replaced=False, oldest=5)
    assert found.offset == {**TABLE, "reservoirVersion": 6, "index": -1, "isStartingVersion": False}
    assert [line.split(":")[0] for line in found.lost] == ["version 3", "version 4", "version 5"]
    assert going_on_in_table(TABLE, set(range(3, 8)), {}, replaced=False, oldest=3).lost == ()


def test_a_table_made_anew_is_read_whole() -> None:
    found = going_on_in_table(TABLE, {0, 1}, {}, replaced=True)
    assert found.offset is None
    assert "from 3" in found.lost[0]


def test_files_that_a_begun_batch_no_longer_finds_are_named() -> None:
    assert continuation_in_folder(None, ["file:/in/b", "file:/in/a"], ["file:/in/b"]).lost == ("file file:/in/a",)
