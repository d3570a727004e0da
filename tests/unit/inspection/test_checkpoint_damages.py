"""Every file of a checkpoint, cut, emptied, flipped or gone, is named, with what follows and what to do."""

import io
import json
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from upath import UPath

from sessionizer.checkpoint.files import files_of, hadoop_file, hadoop_says
from sessionizer.checkpoint.log_entries import commit_entry, offset_entry, source_kind
from sessionizer.checkpoint.state_files import MOST_GONE, version_files
from sessionizer.cli.inspect.state import advance, list_kept_batches
from sessionizer.cli.inspect.words import finding_lines, inspection_lines
from sessionizer.inspection.checkpoint_read import read_checkpoint, read_logs, spark_says
from sessionizer.inspection.damages import CheckpointDamage, Effect, damages
from sessionizer.inspection.inspect import Inspection, inspect
from sessionizer.inspection.log_of_key import read_log_of_key
from support.checkpoints.fabricated_checkpoints import FIRST_MS, WATERMARK_MS, Held, Way, fabricated
from support.fixtures.reviewed import Reviewed
from support.places import known

BATCHES = 4
NEWEST = BATCHES - 1


def found_in(held: Held, *, deep: bool = False) -> dict[str, CheckpointDamage]:
    return {finding.file: finding for finding in damages(read_checkpoint(held.files(), deep=deep))}


def cases() -> list[tuple[int, str, Way]]:
    """Format, file, way: all but a flip that no checksum tells, and the newest commit, whose batch runs again."""
    return [
        (made, name, way)
        for made in (1, 2)
        for name in fabricated(BATCHES, format=made).names
        for way in Way
        if not (way is Way.FLIPPED and re.match(r"metadata|offsets|commits|sources|.*\.crc$", name))
        and (name, way) != (f"commits/{NEWEST}", Way.REMOVED)
    ]


@pytest.mark.parametrize("made", [1, 2])
def test_a_sound_one_has_no_damage(made: int) -> None:
    assert found_in(fabricated(BATCHES, format=made), deep=True) == {}


def test_every_damaged_file_is_named_with_what_to_do() -> None:
    all_cases = cases()
    assert len(all_cases) > 100
    for made, name, way in all_cases:
        found = found_in(fabricated(BATCHES, format=made).damaged(name, way))
        assert name in found, (made, name, way)
        finding = found[name]
        assert all((finding.wrong, finding.follows, finding.remedy))
        held = fabricated(BATCHES, format=made).damaged(name, way).contents
        assert all(step.file in held for step in finding.steps if step.source is None)


def test_a_flip_is_told_by_hadoops_checksums_where_there_are_some(reviewed: Reviewed) -> None:
    held = fabricated(BATCHES)
    name = "offsets/3"
    hidden = b"crc\x00\x00\x00\x02\x00" + b"\x00\x00\x00\x00"
    found = found_in(Held({**held.contents, "offsets/.3.crc": hidden}))
    reviewed(found[name].wrong)


@pytest.mark.parametrize("way", list(Way))
def test_the_newest_state_comes_again_from_its_batch(way: Way) -> None:
    held = fabricated(BATCHES)
    name = next(name for name in held.names if re.fullmatch(r"state/0/1/4_.*\.changelog", name))
    finding = found_in(held.damaged(name, way))[name]
    assert finding.effect is Effect.STOPS
    assert "commits/3" in [step.file for step in finding.steps]


def test_in_format_1_what_the_batch_made_goes_too_before_it_runs_again() -> None:
    held = fabricated(BATCHES, format=1)
    for name in ("offsets/3", "commits/3", "state/0/1/4.delta"):
        steps = {step.file for step in found_in(held.damaged(name, Way.CUT))[name].steps}
        assert {"commits/3", "state/0/0/4.delta", "state/0/1/4.delta"} <= steps
        assert not any("3.delta" in step for step in steps)


def test_an_older_state_without_a_snapshot_cannot_be_mended_by_hand() -> None:
    held = fabricated(BATCHES)
    name = next(name for name in held.names if re.fullmatch(r"state/0/1/2_.*\.changelog", name))
    finding = found_in(held.damaged(name, Way.CUT))[name]
    assert finding.effect is Effect.STOPS
    assert finding.steps == ()
    assert "restore" in finding.remedy


def test_logs_of_batches_long_over_stop_nothing() -> None:
    for name in ("offsets/0", "commits/1"):
        finding = found_in(fabricated(BATCHES).damaged(name, Way.CUT))[name]
        assert finding.effect is Effect.PAST


def test_a_partition_that_is_gone_is_missed() -> None:
    held = fabricated(BATCHES)
    left = {name: content for name, content in held.contents.items() if not name.startswith("state/0/1/")}
    found = found_in(Held(left))
    assert {finding.effect for finding in found.values()} == {Effect.STOPS}
    assert any(name.startswith("state/0/1/") for name in found)


def test_a_batch_that_was_begun_is_no_damage() -> None:
    held = fabricated(BATCHES)
    assert found_in(held.damaged(f"commits/{NEWEST}", Way.REMOVED)) == {}


def test_what_spark_has_removed_of_old_batches_is_no_damage() -> None:
    held = fabricated(BATCHES)
    left = {
        name: content
        for name, content in held.contents.items()
        if name not in {"offsets/0", "commits/0", "offsets/1", "commits/1"}
    }
    assert found_in(Held(left)) == {}


def checksums_of(content: bytes, step: int = 512) -> bytes:
    parts = (content[start : start + step] for start in range(0, len(content), step))
    return b"crc\x00" + struct.pack(">I", step) + b"".join(struct.pack(">I", zlib.crc32(part)) for part in parts)


@pytest.mark.parametrize("number", ["99999999999", "9" * 30])
@pytest.mark.parametrize("log", ["commits", "offsets", "sources/0", "state/0/0"])
def test_a_name_with_a_number_of_any_size_is_no_work(log: str, number: str) -> None:
    contents = fabricated(BATCHES).contents
    name = f"{log}/{number}" if log != "state/0/0" else f"{log}/{number}.changelog"
    held = Held({**contents, name: contents.get(f"{log}/{NEWEST}", b"")})
    require_findings(held, deep=True)
    assert len(found_in(held)) < 5 * MOST_GONE


SNAPSHOTS: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda whole: whole[:40],
    "no archive": lambda _: b"v1",
    "other metadata": lambda _: archive_of(b"v1\n[]"),
    "no number": lambda _: archive_of(b'v1\n{"columnFamilyMapping": {"log": "x"}}'),
    "a number too large": lambda _: archive_of(b'v1\n{"columnFamilyMapping": {"log": 65536}}'),
    "a flag of encryption": lambda whole: whole.replace(b"\x14\x00\x00\x00", b"\x14\x00\x01\x00"),
    "no changes since": lambda whole: whole,
}


def archive_of(metadata: bytes) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as written:
        written.writestr("metadata", metadata)
    return archive.getvalue()


@pytest.mark.parametrize("what", SNAPSHOTS)
def test_a_damaged_snapshot_is_told_in_one_way(tmp_path: Path, what: str) -> None:
    contents = dict(fabricated(BATCHES).contents)
    for name in [name for name in contents if re.fullmatch(r"state/0/\d/2_[^.]*\.changelog", name)]:
        sound = archive_of(b'v1\n{"columnFamilyMapping": {"log": 3}}')
        contents[name.replace(".changelog", ".zip")] = SNAPSHOTS[what](sound)
    Held(contents).put(tmp_path)
    with pytest.raises((ValueError, KeyError, OSError)):
        read_log_of_key(tmp_path, NEWEST, 4, "alice")


@cache
def whole(made: int) -> Held:
    """Make a checkpoint of a local disk: checksums beside every file, a snapshot of RocksDB and a table."""
    contents = dict(fabricated(3, format=made).contents)
    contents["state/0/1/2_0.zip"] = archive_of(b"v1\n{}")
    contents["state/0/1/SSTs/000001.sst"] = b"rows" + bytes.fromhex("f7cff485b741e288")
    return Held({**contents, **{hadoop_file(name): checksums_of(content) for name, content in contents.items()}})


def damaged(draw: Callable[[st.SearchStrategy[int]], int], content: bytes, garbage: bytes) -> bytes:
    start = draw(st.integers(0, len(content)))
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return content[:start]
    if kind == 1:
        return garbage
    if kind == 2:
        return content + garbage
    if kind == 3:
        return content[start:]
    return content[:start] + garbage + content[start + len(garbage) :]


ODD = (b"v1", b"v1\n{}", b"null", b"[]", b'"x"', b"-1", b"1e400", b"{}", b"9" * 20, b"9" * 5000, b"[" * 5000)


@cache
def values_of(content: bytes) -> tuple[tuple[int, int], ...]:
    values = re.finditer(rb'(?<=[:\[,])(?:"[^"]*"|[\w.+-]+|\[[^\[\]]*\]|\{[^{}]*\})', content)
    return tuple(match.span() for match in values)


def require_findings(held: Held, *, deep: bool) -> None:
    found = read_checkpoint(held.files(), deep=deep)
    inspection = Inspection(found, tuple(damages(found)))
    json.dumps(inspection.to_json())
    assert [*inspection_lines(inspection, None, settings=True), *finding_lines(inspection.findings)]


@settings(max_examples=100)
@given(st.sampled_from([1, 2]), st.booleans(), st.data())
def test_an_inspection_never_fails(made: int, deep: bool, data: st.DataObject) -> None:
    contents = dict(whole(made).contents)
    for name in data.draw(st.lists(st.sampled_from(sorted(contents)), min_size=1, max_size=4, unique=True)):
        garbage = data.draw(st.one_of(st.binary(max_size=24), st.sampled_from(ODD)))
        contents[name] = damaged(data.draw, contents[name], garbage)
    require_findings(Held(contents), deep=deep)


@settings(max_examples=100)
@given(st.sampled_from([1, 2]), st.booleans(), st.data())
def test_nor_does_it_where_json_says_something_else(made: int, deep: bool, data: st.DataObject) -> None:
    plain = {name: content.replace(b": ", b":") for name, content in whole(made).without_hidden().contents.items()}
    told = sorted(name for name, content in plain.items() if values_of(content))
    for name in data.draw(st.lists(st.sampled_from(told), min_size=1, max_size=2, unique=True)):
        start, end = data.draw(st.sampled_from(values_of(plain[name])))
        plain[name] = plain[name][:start] + data.draw(st.sampled_from(ODD)) + plain[name][end:]
    require_findings(Held(plain), deep=deep)


@pytest.mark.parametrize("length", [0, 3, 8, 9, 11, 12, 13])
def test_checksums_that_were_cut_are_told_or_are_none(length: int, reviewed: Reviewed) -> None:
    content = b"x" * 700
    checksums = checksums_of(content)[:length]
    if length < 8:
        with pytest.raises(ValueError, match="no file of checksums"):
            hadoop_says(content, checksums)
    else:
        reviewed(hadoop_says(content, checksums) or "")


def test_checksums_of_an_empty_file_fit() -> None:
    assert hadoop_says(b"", checksums_of(b"")) is None
    assert hadoop_says(b"x" * 700, checksums_of(b"x" * 700)) is None


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
    found = known(inspect(folder))
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
