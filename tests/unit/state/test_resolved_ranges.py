"""Ranges of a source as people type them or as they were lost, and what they come to in the source as it is."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.checkpoint.files import SeenFile
from sessionizer.errors import InvalidSpec
from sessionizer.lineage.excluded_ranges import ExcludedRange, ExcludedRanges, Records
from sessionizer.state.restores.ranges import (
    FILES_ALLOWED,
    MOST_FILES,
    RECORDS_ALLOWED,
    VERSIONS_ALLOWED,
    FileNames,
    FileTimes,
    RecordTimes,
    Replay,
    Span,
    Versions,
    combine_ranges,
    coming_back_remarks,
    continuation_in_folder,
    drop_excluded_files,
    exclude_files,
    exclude_records,
    exclude_versions,
    first_whole_version,
    going_on_in_table,
    going_on_in_topics,
    parse_range,
    records_in_span,
    remarks_on_files,
)
from support.fixtures.reviewed import Reviewed
from support.places import known

FOLDER = "file:/srv/feed"
TEN = 1_795_428_000_000  # 2026-11-23T10:00 UTC
MINUTE = 60_000


def files(*names: str) -> list[SeenFile]:
    """One a minute, from ten o'clock on, as a checkpoint names them."""
    return [SeenFile(f"file:///srv/feed/{name}", TEN + place * MINUTE) for place, name in enumerate(names)]


@pytest.mark.parametrize(
    ("typed", "source", "wanted"),
    [
        ("clicks-7.json", "files", FileNames("clicks-7.json")),
        ("./2026-11-23/*.json", "files", FileNames("2026-11-23/*.json")),
        ("modified:2026-11-23T10:00/2026-11-23T10:10", "files", FileTimes(TEN, TEN + 10 * MINUTE)),
        ("clicks:0:1200-1300", "kafka", Records("clicks", 0, 1200, 1300)),
        ("clicks.eu-1:2026-11-23T10:00/2026-11-23T10:10", "kafka", RecordTimes("clicks.eu-1", TEN, TEN + 10 * MINUTE)),
        ("clicks.eu-1:12:7", "kafka", Records("clicks.eu-1", 12, 7, 8)),
        ("version:12-15", "delta", Versions(12, 15)),
        ("version:12", "delta", Versions(12, 13)),
    ],
)
def test_a_range_is_named_in_the_words_of_its_source(typed: str, source: str, wanted: object) -> None:
    assert parse_range(typed, source) == wanted


@pytest.mark.parametrize(
    ("typed", "source", "allowed"),
    [
        ("", "files", FILES_ALLOWED),
        ("/srv/feed/clicks-7.json", "files", FILES_ALLOWED),
        ("modified:2026-11-23T10:00", "files", FILES_ALLOWED),
        ("modified:2026-11-23T10:10/2026-11-23T10:00", "files", FILES_ALLOWED),
        ("modified:ten/eleven", "files", "a moment in ISO 8601"),
        ("clicks:0", "kafka", RECORDS_ALLOWED),
        ("clicks:0:1300-1200", "kafka", RECORDS_ALLOWED),
        ("clicks:0:1200-1200", "kafka", RECORDS_ALLOWED),
        ("clicks:0:1200-", "kafka", RECORDS_ALLOWED),
        ("clicks:2026-11-23T10:10/2026-11-23T10:00", "kafka", RECORDS_ALLOWED),
        ("clicks:ten/eleven", "kafka", "a moment in ISO 8601"),
        ("clicks-7.json", "kafka", RECORDS_ALLOWED),
        ("12-15", "delta", VERSIONS_ALLOWED),
        ("version:15-12", "delta", VERSIONS_ALLOWED),
        ("lines", "socket", "Omit it, because a socket cannot be read again"),
    ],
)
def test_what_is_no_range_of_the_source_is_refused_with_what_is_allowed(typed: str, source: str, allowed: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        parse_range(typed, source)
    assert refused.value.field == "--exclude"
    assert allowed in refused.value.allowed


def test_a_pattern_takes_the_files_that_are_there_and_were_not_read_before() -> None:
    there = files("a-1.json", "a-2.json", "b-1.json", "day=1/a-3.json", "a%204.json")
    found, stay = exclude_files("a*", FileNames("a*"), FOLDER, there, {"file:///srv/feed/a-1.json"})
    assert found.files == ("file:/srv/feed/a%204.json", "file:/srv/feed/a-2.json")
    assert stay == 1
    assert str(found) == "a* (2 files)"
    assert found.holds("file:/srv/feed/a-2.json")
    assert found.holds("file:///srv/feed/a-2.json")
    assert not found.holds("file:/srv/feed/a-1.json"), "the savepoint has read it"
    below, _ = exclude_files("*a-3.json", FileNames("*a-3.json"), FOLDER, there, ())
    assert below.files == ("file:/srv/feed/day=1/a-3.json",)
    named, _ = exclude_files("a 4.json", FileNames("a 4.json"), FOLDER, there, ())
    assert named.files == ("file:/srv/feed/a%204.json",)


def test_a_name_with_a_bracket_in_it_is_a_name() -> None:
    found, _ = exclude_files("a[1].json", FileNames("a[1].json"), FOLDER, files("a[1].json", "a1.json"), ())
    assert found.files == ("file:/srv/feed/a1.json", "file:/srv/feed/a[1].json")


def test_files_are_told_by_the_time_of_their_last_change() -> None:
    there = files("0.json", "1.json", "2.json", "3.json")
    found, _ = exclude_files("x", FileTimes(TEN + MINUTE, TEN + 3 * MINUTE), FOLDER, there, ())
    assert found.files == ("file:/srv/feed/1.json", "file:/srv/feed/2.json")


def test_a_range_without_a_file_to_read_again_is_refused(reviewed: Reviewed) -> None:
    there = files("a-1.json", "a-2.json")
    with pytest.raises(InvalidSpec) as raised:
        exclude_files("c-*", FileNames("c-*"), FOLDER, there, ())
    reviewed(raised.value)
    with pytest.raises(InvalidSpec) as raised:
        exclude_files("a-*", FileNames("a-*"), FOLDER, there, [file.uri for file in there])
    reviewed(raised.value)
    many = [SeenFile(f"{FOLDER}/{number}", TEN) for number in range(MOST_FILES + 1)]
    with pytest.raises(InvalidSpec) as raised:
        exclude_files("*", FileNames("*"), FOLDER, many, ())
    reviewed(raised.value)


ENDS = {"clicks": {"0": 500, "1": 700, "10": 3}}
BEGINS = {"clicks": {"0": 120, "1": 0}}


def test_records_are_those_between_the_savepoint_and_the_end_of_the_partition() -> None:
    whole = Records("clicks", 0, 120, 500)
    found = exclude_records("clicks:0:120-500", whole, BEGINS, ENDS)
    assert str(found) == "clicks:0:120-500 (380 records: offsets 120 to 499 of partition 0 of clicks)"
    assert found.holds("clicks-0-120")
    assert found.holds("clicks-0-499")
    for other in ("clicks-0-119", "clicks-0-500", "clicks-1-120", "clicks-0-0-120", "x-clicks-0-120", "clicks-0", ""):
        assert not found.holds(other), other
    one = exclude_records("clicks:10:2", Records("clicks", 10, 2, 3), None, ENDS)
    assert str(one) == "clicks:10:2 (1 record: offset 2 of partition 10 of clicks)"


@pytest.mark.parametrize(
    ("wanted", "allowed"),
    [
        (Records("clicks", 0, 100, 200), "clicks:0:120-500 or a part of it: only these are read again"),
        (Records("clicks", 0, 400, 501), "clicks:0:120-500 or a part of it: only these are read again"),
        (Records("clicks", 2, 0, 1), "a partition of the source: clicks:0, clicks:1, clicks:10"),
        (Records("views", 0, 0, 1), "a partition of the source: clicks:0, clicks:1, clicks:10"),
    ],
)
def test_records_beyond_that_are_refused_with_what_is_there(wanted: Records, allowed: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        exclude_records("typed", wanted, BEGINS, ENDS)
    assert refused.value.allowed == allowed


SINCE = {"clicks": {"0": 100, "1": 650, "10": 3}}
UNTIL = {"clicks": {"0": 200, "1": 700, "10": 3}}


def test_records_of_a_time_are_those_of_each_partition_that_are_read_again(reviewed: Reviewed) -> None:
    typed, wanted = "clicks:2026-11-23T10:00/2026-11-23T10:10", RecordTimes("clicks", TEN, TEN + 10 * MINUTE)
    found, remarks = records_in_span(typed, wanted, Span(SINCE, UNTIL, BEGINS), ENDS)
    assert [each.records for each in found] == [Records("clicks", 0, 120, 200), Records("clicks", 1, 650, 700)]
    assert {each.typed for each in found} == {typed}
    reviewed(remarks)
    whole, none = records_in_span(typed, wanted, Span(SINCE, UNTIL, None), ENDS)
    assert [each.records for each in whole] == [Records("clicks", 0, 100, 200), Records("clicks", 1, 650, 700)]
    assert none == []


@pytest.mark.parametrize(
    ("topic", "begins", "allowed"),
    [
        ("views", BEGINS, "a topic of the source: clicks"),
        ("clicks", {"clicks": {"0": 200, "1": 700}}, "a time with a record that would be read again (150 more records"),
        ("clicks", {"clicks": {"0": 900, "1": 900}}, "a time with a record that would be read again (150 more records"),
    ],
)
def test_a_time_without_a_record_to_read_again_is_refused(
    topic: str, begins: dict[str, dict[str, int]], allowed: str
) -> None:
    with pytest.raises(InvalidSpec) as refused:
        records_in_span("typed", RecordTimes(topic, TEN, TEN + 1), Span(SINCE, UNTIL, begins), ENDS)
    assert str(refused.value.allowed).startswith(allowed)


def test_a_topic_may_have_a_dash_and_a_number_in_its_name() -> None:
    found = ExcludedRange("x", records=Records("clicks-0", 1, 5, 9))
    assert found.holds("clicks-0-1-5")
    assert not found.holds("clicks-0-5")


ADDED = {7: ["file:/t/a.parquet"], 8: ["file:///t/b.parquet", "file:/t/c.parquet"], 9: [], 10: ["file:/t/d.parquet"]}


def test_versions_of_a_table_are_known_by_the_files_that_they_brought(reviewed: Reviewed) -> None:
    found = exclude_versions("version:8-10", Versions(8, 10), 7, ADDED)
    assert found.files == ("file:/t/b.parquet", "file:/t/c.parquet")
    assert found.holds("file:///t/b.parquet")
    for wanted in (Versions(6, 8), Versions(8, 12), Versions(9, 10)):
        with pytest.raises(InvalidSpec):
            exclude_versions("version", wanted, 7, ADDED)
    with pytest.raises(InvalidSpec) as raised:
        exclude_versions("version:6", Versions(6, 7), 7, ADDED)
    reviewed(raised.value)


@pytest.mark.parametrize(
    ("offset", "first"),
    [
        (None, None),
        ({"reservoirVersion": 7, "index": -1, "isStartingVersion": False}, 7),
        ({"reservoirVersion": 7, "index": 3, "isStartingVersion": False}, 8),
        ({"reservoirVersion": 7, "index": 3, "isStartingVersion": True}, 8),
    ],
)
def test_a_version_can_be_left_out_if_it_is_read_by_itself_and_whole(
    offset: dict[str, object] | None, first: int | None
) -> None:
    assert first_whole_version(offset) == first


def test_a_new_lineage_leaves_out_what_the_one_of_its_savepoint_did_and_what_is_asked_for(reviewed: Reviewed) -> None:
    first = ExcludedRange("a*", files=("file:/a",))
    second = ExcludedRange("b*", files=("file:/b",))
    found = combine_ranges(ExcludedRanges((first,)), [first, second], ["2 more of b*"])
    assert found.excluded_ranges == ExcludedRanges((first, second))
    reviewed(found.remarks)


def test_what_of_a_range_is_in_the_state_or_gone_is_told(reviewed: Reviewed) -> None:
    there, found = files("1.json"), ExcludedRange("*.json", files=("file:/srv/feed/1.json", "file:/srv/feed/2.json"))
    reviewed(remarks_on_files(found, 2, there))
    assert remarks_on_files(found, 0, files("1.json", "2.json")) == []


def test_a_file_that_is_gone_is_not_missed_if_it_is_left_out() -> None:
    replay = Replay("files", 3, ("file:///srv/feed/1.json", "file:///srv/feed/2.json"))
    excluded_ranges = ExcludedRanges((ExcludedRange("1.json", files=("file:/srv/feed/1.json",)),))
    assert drop_excluded_files(replay, excluded_ranges) == Replay("files", 3, ("file:///srv/feed/2.json",))


def test_what_comes_back_into_the_tables_is_told(reviewed: Reviewed) -> None:
    before = ExcludedRanges(
        (ExcludedRange("a*", files=("file:/a",)), ExcludedRange("c:0:5-9", records=Records("c", 0, 5, 9)))
    )
    assert coming_back_remarks("l1", before, before) == []
    wider = ExcludedRanges((ExcludedRange("*", files=("file:/a", "file:/b")),))
    reviewed(coming_back_remarks("l1", before, wider))
    reviewed(
        coming_back_remarks("l1", before, ExcludedRanges((ExcludedRange("c:0:0-9", records=Records("c", 0, 0, 9)),)))
    )


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
    for number, (position, begin, end) in enumerate(drawn):
        read = range(known(found.offset)["t"][str(number)], end)
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
