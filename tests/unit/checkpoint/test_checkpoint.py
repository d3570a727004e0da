"""What a batch reads and which files it brings, told by a checkpoint as Spark writes it."""

import json
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from sessionizer.checkpoint.files import (
    SeenFile,
    copy_batch,
    copy_list_of_files,
    files_between,
    files_of_batch,
    list_files_until,
    read_last_offset,
    read_seen_files,
    write_start_position,
)
from sessionizer.checkpoint.log_entries import (
    EVENTS,
    PUNCTUATIONS,
    next_watermark,
    proof_of_batch,
    read_begun_batch,
    read_commit,
    read_last_commit,
    read_planned_batch,
)
from sessionizer.spark.ingest.punctuation import PunctuationRemoval

SOURCES = [EVENTS, PUNCTUATIONS]


def write_checkpoint(checkpoint: Path, ends: list[int | None], of: str = EVENTS) -> Path:
    """A file at every offset of the source, and a batch that ends at each of ``ends``; returns the list of files."""
    log = checkpoint / "sources" / str(SOURCES.index(of))
    log.mkdir(parents=True)
    (checkpoint / "offsets").mkdir()
    entries = [json.dumps({"path": f"file:///feed/{at}.json", "timestamp": at, "batchId": at}) for at in range(12)]
    for at, entry in enumerate(entries):
        name, lines = (f"{at}.compact", entries[: at + 1]) if at % 10 == 9 else (str(at), [entry])
        (log / name).write_text("\n".join(["v1", *lines]))
    for batch, end in enumerate(ends):
        write_offsets(checkpoint, batch, {} if end is None else {of: {"logOffset": end}})
    return log


def write_offsets(checkpoint: Path, batch_id: int, ends: dict[str, object], version: str = "v1") -> None:
    about = json.dumps({"batchWatermarkMs": 7, "batchTimestampMs": 9, "conf": {}})
    lines = [json.dumps(ends[name]) if name in ends else "-" for name in SOURCES]
    (checkpoint / "offsets" / str(batch_id)).write_text("\n".join([version, about, *lines]))


def test_a_batch_tells_its_clock_and_where_each_source_ends(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    ends = {PUNCTUATIONS: {"logOffset": 2}, EVENTS: {"a:b": {"0": 5, "1": 7}}}
    write_offsets(tmp_path, 4, ends)
    planned = read_planned_batch(tmp_path, 4)
    assert (planned.batch_id, planned.at_ms, planned.watermark_ms, planned.ends) == (4, 9, 7, ends)
    assert planned.last_file_offset(PUNCTUATIONS) == 2
    write_offsets(tmp_path, 5, {})
    assert read_planned_batch(tmp_path, 5).last_file_offset(EVENTS) == -1
    assert (read_begun_batch(tmp_path), read_last_commit(tmp_path)) == (5, None)


def test_a_log_of_another_version_is_not_guessed(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    write_offsets(tmp_path, 0, {}, version="v2")
    with pytest.raises(ValueError, match="version 'v2'"):
        read_planned_batch(tmp_path, 0)


@pytest.mark.parametrize("removed", [range(9), range(4), [3], [0, 8]])
def test_parts_that_were_gathered_into_one_may_be_gone(tmp_path: Path, removed: Iterable[int]) -> None:
    log = write_checkpoint(tmp_path, [None, 0, 3, 4, 9, 11])
    for part in removed:
        (log / str(part)).unlink()
    brought = [files_of_batch(tmp_path, batch) for batch in range(6)]
    assert [len(files) for files in brought] == [0, 1, 3, 1, 5, 2]
    assert [len(list_files_until(tmp_path, batch, EVENTS)) for batch in range(6)] == [0, 1, 4, 5, 10, 12]


def test_a_part_that_is_lost_is_not_passed_over(tmp_path: Path) -> None:
    log = write_checkpoint(tmp_path, [None, 11])
    assert read_last_offset(tmp_path, EVENTS) == 11
    (log / "10").unlink()
    with pytest.raises(FileNotFoundError, match="10"):
        files_of_batch(tmp_path, 1)


def test_each_file_is_in_one_batch(tmp_path: Path) -> None:
    ends = [None, 0, 3, 3, 8, 9, 11]
    write_checkpoint(tmp_path, ends)
    brought = [files_of_batch(tmp_path, batch) for batch in range(len(ends))]
    assert [len(files) for files in brought] == [0, 1, 3, 0, 5, 1, 2]
    assert [file for files in brought for file in files] == [f"file:///feed/{at}.json" for at in range(12)]


def test_all_files_until_a_batch(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, [None, 0, 3, 9, 11])
    assert [len(list_files_until(tmp_path, batch, EVENTS)) for batch in range(5)] == [0, 1, 4, 10, 12]
    assert list_files_until(tmp_path, 0, PUNCTUATIONS) == []


def thirteen_punctuations(tmp_path: Path) -> tuple[Path, Path, Callable[[], list[int]]]:
    """Checkpoint whose batches read thirteen punctuations, their folder, and a look at the numbers left in it."""
    checkpoint, folder = tmp_path / "checkpoint", tmp_path / "punctuations"
    folder.mkdir()
    for at in range(13):
        (folder / f"{at}.json").touch()
    write_checkpoint(checkpoint, [None, 0, 3, 9, 11], PUNCTUATIONS)
    return checkpoint, folder, lambda: sorted(int(file.stem) for file in folder.iterdir())


def test_punctuations_are_removed_with_their_batch_and_not_before(tmp_path: Path) -> None:
    checkpoint, folder, left = thirteen_punctuations(tmp_path)
    fresh = PunctuationRemoval(folder, checkpoint, pytest.fail, keep=0)
    fresh.remove(None)
    assert left() == [*range(13)], "nothing is committed"
    fresh.remove(1)
    assert left() == [*range(1, 13)]
    fresh.remove(3)
    assert left() == [10, 11, 12]
    fresh.remove(3)

    (folder / "2.json").touch()  # as a driver leaves it that is killed before it comes to it
    (checkpoint / "commits").mkdir()
    (checkpoint / "commits" / "3").touch()
    successor = PunctuationRemoval(folder, checkpoint, pytest.fail, keep=0)
    successor.remove(None)
    assert left() == [10, 11, 12]
    successor.remove(4)
    assert left() == [12]


def test_punctuations_of_batches_that_are_kept_stay(tmp_path: Path) -> None:
    checkpoint, folder, left = thirteen_punctuations(tmp_path)
    fresh = PunctuationRemoval(folder, checkpoint, pytest.fail, keep=2)
    fresh.remove(1)
    fresh.remove(3)
    assert left() == [*range(1, 13)], "batch 1 is no longer kept"
    (checkpoint / "commits").mkdir()
    for batch in (2, 3):
        (checkpoint / "commits" / str(batch)).touch()
    successor = PunctuationRemoval(folder, checkpoint, pytest.fail, keep=1)
    successor.remove(None)
    assert left() == [*range(4, 13)], "those of the oldest batch that is kept are needed by no replay"
    successor.remove(4)
    assert left() == [10, 11, 12]


def write_begun(checkpoint: Path) -> None:
    """As Spark leaves a checkpoint after a batch 0 that read a punctuation and no event."""
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "sources" / "0").mkdir(parents=True)
    write_offsets(checkpoint, 0, {PUNCTUATIONS: {"logOffset": 0}})
    (checkpoint / "offsets" / ".0.crc").touch()


def test_a_source_goes_on_where_it_is_told_to(tmp_path: Path) -> None:
    write_begun(tmp_path)
    write_start_position(tmp_path, {"topic": {"0": 5}}, ())
    planned = read_planned_batch(tmp_path, 0)
    assert planned.ends == {EVENTS: {"topic": {"0": 5}}, PUNCTUATIONS: {"logOffset": 0}}
    assert (planned.at_ms, planned.watermark_ms) == (9, 7)
    assert not (tmp_path / "offsets" / ".0.crc").exists(), "of what was there before"
    with pytest.raises(ValueError, match="only begun"):
        write_start_position(tmp_path, {"topic": {"0": 6}}, ())


def test_a_source_that_read_nothing_begins_at_its_beginning(tmp_path: Path) -> None:
    write_begun(tmp_path)
    write_start_position(tmp_path, None, ())
    assert read_planned_batch(tmp_path, 0).ends == {EVENTS: None, PUNCTUATIONS: {"logOffset": 0}}


def test_files_that_were_read_count_as_seen_and_are_read_by_no_batch(tmp_path: Path) -> None:
    write_begun(tmp_path)
    seen = [SeenFile("file:///feed/a.json", 3), SeenFile("file:///feed/b.json", 4)]
    write_start_position(tmp_path, {"logOffset": 41}, seen)
    assert files_of_batch(tmp_path, 0) == []
    assert read_seen_files(tmp_path, 0) == seen, "also of a lineage that is left in its turn"
    assert read_last_offset(tmp_path, EVENTS) == 0
    log = (tmp_path / "sources" / "0" / "0").read_text().splitlines()
    assert log[0] == "v1"
    assert all(json.loads(line)["batchId"] > 0 for line in log[1:]), "Spark takes none below 0"


def test_what_a_driver_has_run_is_not_touched(tmp_path: Path) -> None:
    write_begun(tmp_path)
    write_offsets(tmp_path, 1, {})
    with pytest.raises(ValueError, match="only begun"):
        write_start_position(tmp_path, {"topic": {"0": 5}}, ())


def test_a_copy_of_a_list_also_has_the_files_that_were_read_before_it_began(tmp_path: Path) -> None:
    checkpoint, copy = tmp_path / "checkpoint", tmp_path / "copy"
    write_begun(checkpoint)
    seen = [SeenFile("file:///old/a.json", 3)]
    write_start_position(checkpoint, {"logOffset": 41}, seen)
    entry = {"path": "file:///feed/b.json", "timestamp": 5, "batchId": 1}
    (checkpoint / "sources" / "0" / "1").write_text("\n".join(["v1", json.dumps(entry)]))
    write_offsets(checkpoint, 1, {EVENTS: {"logOffset": 1}})
    copy_list_of_files(checkpoint, EVENTS, 1, copy)
    (copy / "offsets").mkdir()
    write_offsets(copy, 1, {EVENTS: {"logOffset": 1}})
    assert {file.uri for file in read_seen_files(copy, 1)} == {"file:///old/a.json", "file:///feed/b.json"}
    assert files_between(copy, EVENTS, 0, 1) == ["file:///feed/b.json"]


@pytest.mark.parametrize("until", [0, 3, 8, 9, 10, 11])
def test_a_copied_list_of_files_ends_where_it_should(tmp_path: Path, until: int) -> None:
    """Also where the parts that hold it were compacted with later ones, and are gone."""
    log = write_checkpoint(tmp_path / "whole", [until])
    for offset in range(9):
        (log / str(offset)).unlink()
    copy_list_of_files(tmp_path / "whole", EVENTS, until, tmp_path / "copy")
    (tmp_path / "copy" / "offsets").mkdir()
    write_offsets(tmp_path / "copy", 0, {EVENTS: {"logOffset": until}})
    assert read_last_offset(tmp_path / "copy", EVENTS) == until
    expected = [f"file:///feed/{offset}.json" for offset in range(until + 1)]
    assert list_files_until(tmp_path / "copy", 0, EVENTS) == expected
    assert [file.uri for file in read_seen_files(tmp_path / "copy", 0)] == expected
    assert [file.changed_at for file in read_seen_files(tmp_path / "whole", 0)] == list(range(until + 1))


def test_nothing_read_is_nothing_copied(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "whole", [None])
    copy_list_of_files(tmp_path / "whole", EVENTS, -1, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    assert read_seen_files(tmp_path / "whole", 0) == []


def test_a_commit_tells_what_the_next_batch_gets(tmp_path: Path) -> None:
    (tmp_path / "commits").mkdir()
    (tmp_path / "offsets").mkdir()
    write_offsets(tmp_path, 3, {})
    commit = tmp_path / "commits" / "3"
    commit.write_text('v2\n{"nextBatchWatermarkMs":70,"stateUniqueIds":{"0":[["a"],["b"]]}}')
    assert next_watermark(tmp_path, 3) == 70 != read_planned_batch(tmp_path, 3).watermark_ms
    assert read_commit(tmp_path, 3).state_ids == {0: [["a"], ["b"]]}
    proof = proof_of_batch(tmp_path, 3)
    commit.write_text('v2\n{"nextBatchWatermarkMs":70,"stateUniqueIds":{"0":[["a"],["c"]]}}')
    assert proof_of_batch(tmp_path, 3) != proof
    commit.write_text('v3\n{"nextBatchWatermarkMs":70}')
    with pytest.raises(ValueError, match="its version is 'v3'"):
        next_watermark(tmp_path, 3)


BATCHES = 6
OFFSETS = 'v1\n{"batchWatermarkMs":1,"batchTimestampMs":2,"conf":{}}\n{"a":1}\n-'
SHARED = "000008-64acf35d-d160-4e70-85c1-611aab9bab69.sst"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Of a source that is no folder of files, with a state of one partition, whose version 3 was tried twice."""
    root = tmp_path / "checkpoint"
    partition = root / "state" / "0" / "0"
    for folder in ("offsets", "commits", "sources/0", "state/0/_metadata/v2", "state/0/_stateSchema/default"):
        (root / folder).mkdir(parents=True)
    (partition / "SSTs").mkdir(parents=True)
    for name in ("metadata", "sources/0/0", "state/0/_metadata/v2/0", "state/0/_stateSchema/default/0_a"):
        (root / name).write_text(name)
    (partition / "SSTs" / SHARED).write_text("shared")
    (partition / "SSTs" / SHARED.replace("8", "9")).write_text("of another snapshot")
    for batch in range(BATCHES):
        (root / "offsets" / str(batch)).write_text(OFFSETS)
        ids = json.dumps({"nextBatchWatermarkMs": 1, "stateUniqueIds": {"0": [[f"id{batch + 1}"]]}})
        (root / "commits" / str(batch)).write_text(f"v2\n{ids}")
        (partition / f"{batch + 1}_id{batch + 1}.changelog").write_text("changes")
        (partition / f"{batch + 1}_id{batch + 1}.changelog.crc").write_text("sum")
    snapshot(partition / "2_id2.zip")
    (partition / "3_other.changelog").write_text("of a try that failed")
    snapshot(partition / "4_other.zip")
    return root


def snapshot(file: Path) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("metadata", f'v1\n{{"sstFiles":[{{"dfsSstFileName":"{SHARED}","sizeBytes":6}}]}}')


def copied(checkpoint: Path, batch_id: int) -> set[str]:
    target = checkpoint.parent / f"copy-{batch_id}"
    target.mkdir()
    copy_batch(checkpoint, batch_id, target, events_are_files=False)
    return {str(file.relative_to(target)) for file in target.rglob("*") if file.is_file()}


def test_it_is_the_newest_snapshot_and_the_changes_since(checkpoint: Path) -> None:
    files = copied(checkpoint, 4)
    changes = {f"{version}_id{version}.changelog{sum_}" for version in (3, 4, 5) for sum_ in ("", ".crc")}
    assert {name.removeprefix("state/0/0/") for name in files if name.startswith("state/0/0/")} == {
        *changes, "2_id2.zip", f"SSTs/{SHARED}",
    }  # fmt: skip
    assert {name for name in files if not name.startswith("state/0/0/")} == {
        "metadata", "sources/0/0", "state/0/_metadata/v2/0", "state/0/_stateSchema/default/0_a",
        "offsets/3", "offsets/4", "commits/3", "commits/4",
    }  # fmt: skip


def test_before_the_first_snapshot_it_is_all_changes(checkpoint: Path) -> None:
    files = copied(checkpoint, 0)
    assert {name for name in files if name.startswith("state/0/0/")} == {
        "state/0/0/1_id1.changelog", "state/0/0/1_id1.changelog.crc",
    }  # fmt: skip
    assert {name for name in files if name.startswith(("offsets", "commits"))} == {"offsets/0", "commits/0"}


@pytest.mark.parametrize("gone", ["state/0/0/4_id4.changelog", "offsets/3", "commits/4", f"state/0/0/SSTs/{SHARED}"])
def test_what_is_gone_is_missed(checkpoint: Path, gone: str) -> None:
    (checkpoint / gone).unlink()
    with pytest.raises(FileNotFoundError):
        copied(checkpoint, 4)


def test_changes_that_nobody_can_tell_any_more_are_missed(checkpoint: Path) -> None:
    """A commit that was dropped had the ids of its version."""
    (checkpoint / "commits" / "2").unlink()
    with pytest.raises(FileNotFoundError):
        copied(checkpoint, 4)
