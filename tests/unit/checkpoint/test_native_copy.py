"""Which files of a checkpoint a native savepoint takes: those of the tries that were committed, and no others."""

import json
import zipfile
from pathlib import Path

import pytest

from sessionizer.checkpoint.files import copy_batch

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
        (root / "offsets" / str(batch)).write_text(
            'v1\n{"batchWatermarkMs":1,"batchTimestampMs":2,"conf":{}}\n{"a":1}\n-'
        )
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
