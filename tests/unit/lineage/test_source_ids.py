"""Which topics and tables a lineage knows by their ids, and which of them are others now."""

from typing import Any

import pytest

from sessionizer.errors import DamagedFile, SourceReplaced
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.excluded_ranges import ExcludedRange, ExcludedRanges, Records
from sessionizer.lineage.kept_spec import (
    SOURCE_IDS_FILE,
    choose_known_ids,
    note_source_ids,
    read_source_ids,
    require_same_source,
)

KAFKA = {"format": "kafka", "topic": "a,b"}
DELTA = {"format": "delta", "path": "lake/events"}
READ = {"a": {"0": 5, "1": 0}, "b": {"0": 0}}


@pytest.mark.parametrize(
    ("source", "offset", "known"),
    [
        (KAFKA, READ, {"a": "A"}),  # of b nothing was read
        (KAFKA, None, {}),
        (DELTA, {"reservoirId": "T", "reservoirVersion": 3}, {"lake/events": "T"}),
        (DELTA, None, {}),
        ({"format": "files", "path": "in"}, {"logOffset": 3}, {}),
        ({"format": "socket"}, 3, {}),
    ],
)
def test_only_what_was_read_has_an_identity(source: dict[str, Any], offset: Any, known: dict[str, str]) -> None:
    assert choose_known_ids({"a": "A", "b": "B"}, source, offset) == known


@pytest.mark.parametrize("now", [{"a": "A"}, {"a": "A", "b": "B"}, {}, {"b": "B"}])
def test_an_id_that_nobody_knows_is_no_other_one(now: dict[str, str]) -> None:
    require_same_source("clicks", {"a": "A"}, now)


def test_another_id_is_named() -> None:
    with pytest.raises(SourceReplaced) as caught:
        require_same_source("clicks", {"a": "A", "b": "B"}, {"a": "A", "b": "C"})
    assert (caught.value.name, caught.value.known, caught.value.now) == ("b", "B", "C")


def test_ids_are_kept_beside_those_of_topics_that_were_left(home: StreamHome) -> None:
    home.prepare()
    lineage = start_lineage(home)
    assert read_source_ids(home, lineage) == {}
    note_source_ids(home, lineage, {"a": "A"})
    note_source_ids(home, lineage, {})
    note_source_ids(home, lineage, {"b": "B"})
    assert read_source_ids(home, lineage) == {"a": "A", "b": "B"}


@pytest.mark.parametrize("content", ["{", '{"format": 1}', '{"format": 1, "ids": []}', '{"format": 99, "ids": {}}'])
def test_a_damaged_record_is_not_taken_for_none(home: StreamHome, content: str) -> None:
    home.prepare()
    lineage = start_lineage(home)
    SOURCE_IDS_FILE.of(home, lineage).path.write_text(content)
    with pytest.raises(DamagedFile):
        read_source_ids(home, lineage)


def test_ranges_of_a_topic_go_with_it() -> None:
    ranges = {topic: ExcludedRange(topic, records=Records(topic, 0, 3, 5)) for topic in "ab"}
    files = ExcludedRange("in/*", files=("file:/in/1",))
    excluded_ranges = ExcludedRanges((*ranges.values(), files))
    assert excluded_ranges.select_topics(["a"]).ranges == (ranges["a"],)
    assert excluded_ranges.drop_topics(["a"]).ranges == (ranges["b"], files)
