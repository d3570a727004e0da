"""What each file of a checkpoint says, and the checksums that tell whether it is as it was written."""

import json
import os
import struct
import zlib

import pytest
from upath import UPath

from sessionizer.checkpoint.files import files_of, hadoop_says
from sessionizer.checkpoint.log_entries import commit_entry, offset_entry, source_kind
from sessionizer.checkpoint.state_files import version_files
from sessionizer.cli.inspect.timeline import advance, list_kept_batches
from sessionizer.inspection.checkpoint_read import read_checkpoint, read_logs, spark_says
from sessionizer.inspection.inspect import inspect
from support.checkpoints.fabricated_checkpoints import FIRST_MS, WATERMARK_MS, fabricated
from support.fixtures.reviewed import Reviewed

ABOUT = '{"batchWatermarkMs":7,"batchTimestampMs":9,"conf":{"spark.sql.shuffle.partitions":"2"}}'


def test_a_checkpoint_that_is_not_on_this_machine_is_listed_and_read() -> None:
    folder = UPath("memory://bucket/checkpoint")
    held = fabricated(2)
    for name, content in held.contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    files = files_of(folder)
    assert files.sizes == {name: len(content) for name, content in held.contents.items()}
    assert all(files.read(name) == content for name, content in held.contents.items())
    found = inspect(folder)
    assert found is not None
    assert found.findings == ()
    assert inspect(UPath("memory://bucket/nothing")) is None


def test_hadoop_tells_where_a_file_was_changed(reviewed: Reviewed) -> None:
    content = os.urandom(1300)
    parts = [zlib.crc32(content[start : start + 512]) for start in range(0, 1300, 512)]
    checksums = b"crc\x00" + struct.pack(">I3I", 512, *parts)
    assert hadoop_says(content, checksums) is None
    changed = content[:600] + bytes([content[600] ^ 1]) + content[601:]
    reviewed(hadoop_says(changed, checksums))
    reviewed(hadoop_says(content[:500], checksums))
    with pytest.raises(ValueError, match="no file of checksums"):
        hadoop_says(content, b"else")


def test_spark_tells_length_and_change(reviewed: Reviewed) -> None:
    told = {"algorithm": "CRC32C", "value": 0x92C80A31 - 2**32, "mainFileSize": 4}
    assert spark_says(b"abcd", json.dumps(told).encode()) is None
    assert spark_says(b"abc", json.dumps(told).encode()) == "it has 3 bytes, and had 4"
    reviewed(spark_says(b"abce", json.dumps(told).encode()))


def test_offsets_of_sources_by_place_and_by_name() -> None:
    by_place = offset_entry(3, f'v1\n{ABOUT}\n{{"logOffset":3}}\n-')
    assert (by_place.watermark_ms, by_place.at_ms) == (7, 9)
    assert by_place.settings == {"spark.sql.shuffle.partitions": "2"}
    assert by_place.ends == {"0": {"logOffset": 3}, "1": None}
    by_name = offset_entry(3, f'v2\n{ABOUT}\nevents:{{"topic":{{"0":5}}}}')
    assert by_name.ends == {"events": {"topic": {"0": 5}}}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "empty"),
        ("v1", "ends after its version"),
        (f"v9\n{ABOUT}\n-", "its version is 'v9'"),
        ("v1\n{}\n-", "lacks the clock"),
        (f"v1\n{ABOUT}", "names no source"),
        (f'v1\n{ABOUT}\n{{"logOf', "offset of source 0 is no JSON"),
    ],
)
def test_what_is_no_offsets_is_told(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        offset_entry(0, text)


def test_commits_of_both_forms() -> None:
    assert commit_entry(1, 'v1\n{"nextBatchWatermarkMs":5}').next_watermark_ms == 5
    told = commit_entry(1, 'v2\n{"nextBatchWatermarkMs":5,"stateUniqueIds":{"0":[["a","b"],["c","d"]]}}')
    assert told.state_ids == {0: [["a", "b"], ["c", "d"]]}


def test_sources_are_told_by_their_offsets(reviewed: Reviewed) -> None:
    ends = [None, {"logOffset": 1}, {"clicks": {"0": 3}}, {"reservoirId": "x", "reservoirVersion": 2}, 17]
    reviewed([source_kind(end) for end in ends])


def test_a_checkpoint_tells_what_it_is() -> None:
    read = read_checkpoint(fabricated(4, partitions=3).files())
    assert (read.begun, read.committed, read.state_format) == (3, 3, 2)
    assert [(each.common_name, each.partitions) for each in read.operators.values()] == [("aggregation", 3)]
    assert len(read.stores) == 3
    assert read_checkpoint(fabricated(4, format=1).files()).state_format == 1


def test_a_timeline_says_what_each_batch_read_and_wrote() -> None:
    files = fabricated(3, ends=lambda batch: {"clicks": {"0": 10 * (batch + 1), "1": 5 * batch}}).files()
    batches = list_kept_batches(*read_logs(files), version_files(files), files)
    assert [batch.batch_id for batch in batches] == [0, 1, 2]
    assert [batch.read["0"] for batch in batches] == [None, "15 records", "15 records"]
    assert [batch.at_ms for batch in batches] == [FIRST_MS, FIRST_MS + 1000, FIRST_MS + 2000]
    assert batches[1].next_watermark_ms == WATERMARK_MS + 2000
    assert all(batch.change_bytes > 0 and batch.whole_bytes == 0 for batch in batches)


def test_how_far_sources_came() -> None:
    assert advance({"logOffset": 3}, {"logOffset": 3}) == "nothing"
    assert advance({"logOffset": 3}, {"logOffset": 5}) == "files"
    assert advance({"t": {"0": 3}}, {"t": {"0": 2003}}) == "2,000 records"
    assert advance(None, {"reservoirId": "x", "reservoirVersion": 7}) == "up to version 7"
    assert advance(4, 9) is None
