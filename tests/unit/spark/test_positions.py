"""Positions in a Kafka source: by Spark's progress, and with what retention has left."""

from __future__ import annotations

import pytest

from sessionizer.control.records.driver_records import PartitionPosition, PositionsRecord, count_unread, positions
from sessionizer.spark.driver.housekeeping.lookups import Oldest, add_retention

NOW = 1_790_000_000_000
HOUR = 3_600_000


def test_positions_are_those_of_the_progress() -> None:
    found = positions('{"my-clicks":{"1":20,"0":5}}', '{"my-clicks":{"0":9,"1":20}}')
    assert [(each.name, each.offset, each.newest) for each in found] == [("my-clicks-0", 5, 9), ("my-clicks-1", 20, 20)]
    assert count_unread(found) == {"my-clicks-0": 4, "my-clicks-1": 0}


@pytest.mark.parametrize("ends", ['{"logOffset":3}', "null", "None", "", "7", '{"reservoirVersion":{"a":"x"}}', "[]"])
def test_another_source_has_no_positions(ends: str) -> None:
    assert positions(ends, ends) == ()


def test_a_partition_that_is_new_has_no_newest_offset_yet() -> None:
    (found,) = positions('{"c":{"0":5}}', "null")
    assert (found.behind, count_unread((found,))) == (None, {})


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
