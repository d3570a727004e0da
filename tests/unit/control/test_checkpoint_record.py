"""A lineage knows what its checkpoint is made of and whose it is, and no driver goes on with another's."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import sessionizer
from sessionizer.errors import DamagedFile, DataElsewhere, UnreadableLineage
from sessionizer.home.roots import data_root
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import locate_data, start_lineage
from sessionizer.lineage.fingerprint import (
    CHECKPOINT_FILE,
    CheckpointRecord,
    difference,
    require_readable_lineage,
)
from support.fixtures.reviewed import Reviewed
from support.places import mounted

NOW = CheckpointRecord(checkpoint_format=3, revision="0002", owner="clicks@5d1c")


@pytest.fixture
def home(tmp_path: Path) -> StreamHome:
    home = StreamHome.of(tmp_path / "home", "clicks")
    home.prepare()
    return home


def test_a_lineage_is_born_readable(home: StreamHome) -> None:
    require_readable_lineage(home, start_lineage(home))


def test_a_lineage_without_a_format_is_refused(home: StreamHome) -> None:
    lineage = start_lineage(home)
    record = CHECKPOINT_FILE.of(home, lineage).path
    record.write_text("{")
    with pytest.raises(DamagedFile, match="not JSON"):
        require_readable_lineage(home, lineage)
    record.unlink()
    with pytest.raises(UnreadableLineage, match=rf"lineage {lineage}: it has no checkpoint.json"):
        require_readable_lineage(home, lineage)
    assert not record.exists()


def test_the_lineage_of_another_stream_is_refused_and_a_home_may_move(
    home: StreamHome, tmp_path: Path, reviewed: Reviewed
) -> None:
    lineage = start_lineage(home)
    moved = StreamHome.of(shutil.copytree(tmp_path / "home", tmp_path / "moved"), "clicks")
    require_readable_lineage(moved, lineage)
    other = StreamHome.of(tmp_path / "home", "visits")
    shutil.copytree(mounted(home.lineage_records), mounted(other.lineage_records))
    with pytest.raises(UnreadableLineage) as raised:
        require_readable_lineage(other, lineage)
    reviewed(raised.value, this_version=sessionizer.__version__)


@pytest.mark.parametrize(("born", "now"), [("lake", None), (None, "hdfs://nn:8020/lake"), ("lake", "other")])
def test_another_data_root_is_refused_by_name(tmp_path: Path, born: str | None, now: str | None) -> None:
    platform = tmp_path / "home"

    def place(data: str | None) -> str:
        return str(platform) if data is None else data if "://" in data else str(tmp_path / data)

    def home(data: str | None) -> StreamHome:
        return StreamHome.of(platform, "clicks", data_root(place(data), platform))

    home(None).prepare()
    lineage = start_lineage(home(born))
    require_readable_lineage(home(born), lineage)
    with pytest.raises(DataElsewhere) as caught:
        require_readable_lineage(home(now), lineage)
    of_lineage = f"lineage {lineage} of stream 'clicks' has its data at '{place(born)}'"
    assert str(caught.value) == f"SESSIONIZER_DATA is '{place(now)}', but {of_lineage}"


def test_the_data_root_of_a_lineage_is_shown_whatever_is_asked_with(tmp_path: Path) -> None:
    home = StreamHome.of(tmp_path / "home", "clicks", data_root(str(tmp_path / "lake"), tmp_path / "home"))
    assert locate_data(StreamHome(home.root)).tables == home.root / "tables"
    home.prepare()
    start_lineage(home)
    assert locate_data(StreamHome(home.root)).tables == tmp_path / "lake/streams/clicks/tables"


@pytest.mark.parametrize(
    ("kept", "cause"),
    [
        (NOW, None),
        (None, "no checkpoint.json"),
        (replace(NOW, checkpoint_format=2), "has format 2, and this release reads 3"),
        (replace(NOW, checkpoint_format=4), "has format 4, and this release reads 3"),
        (replace(NOW, revision="9999"), "has revision 9999, and this release reads 0002"),
        (replace(NOW, owner="clicks@7f7f"), "belongs to clicks@7f7f, not to clicks@5d1c"),
    ],
)
def test_what_differs_is_named(kept: CheckpointRecord | None, cause: str | None) -> None:
    found = difference("clicks", kept, NOW)
    assert found is None if cause is None else found is not None and cause in found


def test_what_a_later_release_adds_is_no_difference() -> None:
    later = CheckpointRecord.from_json(json.loads(json.dumps({**NOW.to_json(), "codec": "zstd"})))
    assert difference("clicks", later, NOW) is None
