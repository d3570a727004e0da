"""The private folder of a JVM on this machine."""

import os
import tempfile
from pathlib import Path

import pytest

from sessionizer.launch.scratch import (
    SCRATCH,
    SUBMIT_OPTIONS,
    UNUSED_AFTER_S,
    hold_scratch,
    scratch_environment,
    sweep_scratch,
)


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_only_its_user_can_enter_it_and_the_sites_option_wins(tmp_path: Path) -> None:
    found = scratch_environment({SUBMIT_OPTIONS: "-Djava.io.tmpdir=/scratch"})
    (base,) = tmp_path.iterdir()
    assert base.stat().st_mode & 0o077 == 0
    assert found[SUBMIT_OPTIONS].split() == [f'"-Djava.io.tmpdir={found[SCRATCH]}"', "-Djava.io.tmpdir=/scratch"]


def test_a_process_within_a_job_has_a_folder_of_its_own() -> None:
    outer = scratch_environment({})
    inner = scratch_environment(outer)
    assert inner[SCRATCH] != outer[SCRATCH]
    assert outer[SCRATCH] not in inner[SUBMIT_OPTIONS]


def test_a_folder_of_another_user_or_a_link_is_not_used(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.mkdir()
    (tmp_path / f"streaming-state-{os.geteuid()}").symlink_to(trap)
    found = scratch_environment({})
    assert not any(trap.iterdir())
    assert found[SCRATCH].startswith(f"{tmp_path}/streaming-state-{os.geteuid()}-")


def test_folders_of_dead_processes_go_and_those_of_live_ones_stay(tmp_path: Path) -> None:
    held, new, old, dead = (scratch_environment({}) for _ in range(4))
    hold_scratch(held)
    (base,) = tmp_path.iterdir()
    for found, content, age_s in ((old, "", UNUSED_AFTER_S + 60), (dead, "1", 0)):
        file = base / found[SCRATCH] / "held"
        file.write_text(content)
        os.utime(file, (file.stat().st_mtime - age_s,) * 2)
    sweep_scratch(base)
    assert {str(folder) for folder in base.iterdir()} == {held[SCRATCH], new[SCRATCH]}


def test_a_folder_that_another_process_makes_right_now_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten drivers that start at once sweep each other's folders between any two steps of the making."""
    touch = Path.touch

    def touch_after_a_sweep(file: Path) -> None:
        sweep_scratch(file.parents[1])
        touch(file)
        sweep_scratch(file.parents[1])

    monkeypatch.setattr(Path, "touch", touch_after_a_sweep)
    found = scratch_environment({})
    assert (Path(found[SCRATCH]) / "held").exists()


def test_a_sweep_keeps_no_process_from_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock of a sweep, be it for a moment, would leave the folder without its own: a later sweep would remove it."""
    found, close = scratch_environment({}), os.close

    def close_after_the_start(descriptor: int) -> None:
        hold_scratch(found)
        close(descriptor)

    (base,) = tmp_path.iterdir()
    with monkeypatch.context() as patched:
        patched.setattr(os, "close", close_after_the_start)
        sweep_scratch(base)
    assert Path(found[SCRATCH], "held").read_text() == str(os.getpid())


def test_a_folder_whose_maker_died_goes_later(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
    os.utime(old, (old.stat().st_mtime - UNUSED_AFTER_S - 60,) * 2)
    sweep_scratch(tmp_path)
    assert list(tmp_path.iterdir()) == [new]
