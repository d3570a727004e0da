"""Records and states are for their owner and group alone."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessionizer.home.clock import epoch_ms
from sessionizer.home.local_files import close_to_others, make_private
from sessionizer.home.record_file import have_folder
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import make_lineage
from sessionizer.state.savepoints.listing import SavepointFailure, write_data_record
from support.places import opened

OTHERS = 0o007


@pytest.fixture(params=[0o022, 0o002])
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    """Set the umask of most systems, by which others may read."""
    before = os.umask(request.param)
    yield
    os.umask(before)


def open_files(root: Path) -> list[Path]:
    """Files that another user of the machine can read: every folder above lets them through."""
    found = []
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if Path(folder, name).stat().st_mode & 0o001]
        found += [root / folder / name for name in files if Path(folder, name).stat().st_mode & 0o004]
    return found


@pytest.mark.usefixtures("_umask")
def test_no_record_state_or_savepoint_is_open_to_others(tmp_path: Path) -> None:
    home = StreamHome.of(tmp_path, "visits")
    home.prepare()
    home.prepare_data()
    lineage = make_lineage(home, None)
    opened(home.checkpoint(lineage) / "offsets").mkdir()
    opened(home.checkpoint(lineage) / "offsets/0").write_text("v1")
    have_folder((home.control / "operations"), "the record of an operation")
    ((home.control / "operations") / "a.json").write_text("{}")
    (home.control / "desired.json").write_text("{}")
    write_data_record(home.savepoints / "one" / "failed.json", SavepointFailure(epoch_ms(), "x"))
    write_data_record(tmp_path / "elsewhere" / "two" / "failed.json", SavepointFailure(epoch_ms(), "x"))
    opened(home.tables / "part.parquet").write_text("rows")
    inside = [file.relative_to(tmp_path) for file in open_files(tmp_path) if home.tables not in file.parents]
    assert [path for path in inside if path.name != "home.json"] == []
    assert home.tables / "part.parquet" in open_files(tmp_path)  # its readers are many


@pytest.mark.usefixtures("_umask")
def test_what_an_earlier_release_left_open_is_closed_at_the_next_start(tmp_path: Path) -> None:
    home = StreamHome.of(tmp_path, "visits")
    for folder in (home.control, home.leases, home.lineages, home.savepoints, home.logs):
        opened(folder).mkdir(parents=True)
        opened(folder).chmod(0o2775)
    home.prepare()
    home.prepare_data()
    for folder in (home.control, home.leases, home.lineages, home.savepoints, home.logs):
        assert opened(folder).stat().st_mode & 0o7777 == 0o2770


def test_a_folder_that_its_operator_opened_to_everybody_stays_so(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    close_to_others(tmp_path)
    assert tmp_path.stat().st_mode & 0o777 == 0o777


@pytest.mark.usefixtures("_umask")
def test_what_is_closed_already_is_made_again_without_harm(tmp_path: Path) -> None:
    make_private(tmp_path / "a/b")
    make_private(tmp_path / "a/b")
    assert not (tmp_path / "a/b").stat().st_mode & OTHERS
    assert (tmp_path / "a").stat().st_mode & OTHERS
