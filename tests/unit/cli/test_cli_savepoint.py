"""``sessionizer savepoint``: what needs no Spark."""

import io
import json
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from sessionizer.errors import NothingToSave, UnknownSavepoint, UnusableSavepoint
from sessionizer.home.stream_home import SavepointHome, StreamHome
from sessionizer.state.savepoints.listing import keep_from_removal
from sessionizer.state.savepoints.manifest import read_manifest, write_manifest
from sessionizer.state.savepoints.verification import data_files
from support.checkpoints.fabricated_checkpoints import begin, fabricate, manifest_of
from support.fixtures.platform import Captured, Main
from support.fixtures.reviewed import Reviewed
from support.places import REPOSITORY, known, opened
from support.processes.fabricated_platform import Platform

RELEASES = REPOSITORY / "tests" / "golden" / "releases"
OLD, NEW = "20261101T000000-aaaaaa", "20261102T000000-bbbbbb"


@pytest.fixture
def home(platform: Platform) -> StreamHome:
    platform.add("clicks")
    return StreamHome.of(platform.home, "clicks")


@pytest.fixture
def cli(platform: Platform, main: Main, home: StreamHome) -> Main:
    """A verb of ``savepoint`` on the stream, down to its exit code."""
    return lambda verb, *arguments: main("savepoint", verb, "clicks", *arguments, "--home", str(platform.home))


def test_a_stream_without_savepoints(cli: Main, capsys: Captured, reviewed: Reviewed) -> None:
    assert cli("list") == 0
    reviewed(capsys.readouterr().out)
    assert cli("list", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []
    assert cli("create") == NothingToSave.exit_code
    assert "it never ran" in capsys.readouterr().err
    assert cli("prune", "--yes") == 0


def test_all_are_listed_and_each_tells_of_itself(cli: Main, home: StreamHome, capsys: Captured) -> None:
    fabricate(home.savepoints, OLD)
    begin(home.savepoints, NEW, by_the_dead=True)
    assert cli("list") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{OLD}  complete")
    assert "9 events of 4 keys in 5 sessions" in first
    assert second.startswith(f"{NEW}  abandoned")
    assert cli("show", OLD) == 0
    shown = capsys.readouterr().out
    assert all(
        part in shown for part in (str(home.savepoints / OLD), '{"logOffset": 3}', "version 12 of /tables/sessions")
    )
    assert cli("show", NEW, "--json") == 0
    assert json.loads(capsys.readouterr().out)["state"] == "abandoned"
    assert cli("show", "other") == UnknownSavepoint.exit_code


def test_batches_of_several_lineages_are_listed_with_them(cli: Main, home: StreamHome, capsys: Captured) -> None:
    """Each lineage counts its batches from 0, so after a restore the numbers say little."""
    fabricate(home.savepoints, OLD)
    after = fabricate(home.savepoints, NEW)
    write_manifest(after, replace(manifest_of(NEW), lineage="after-a-restore"))
    assert cli("list") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert f"batch 7 of {manifest_of(OLD).lineage}  " in first
    assert "batch 7 of after-a-restore  " in second


def test_they_may_be_elsewhere(cli: Main, tmp_path: Path, capsys: Captured) -> None:
    fabricate(tmp_path / "vault" / "clicks", OLD)
    fabricate(tmp_path / "vault" / "visits", NEW)
    assert cli("list", "--in", str(tmp_path / "vault")) == 0
    assert OLD in (listed := capsys.readouterr().out)
    assert NEW not in listed
    assert cli("verify", OLD, "--in", f"file://{tmp_path / 'vault'}") == 0


def test_what_is_wrong_is_told_with_a_way_out(
    cli: Main, home: StreamHome, capsys: Captured, reviewed: Reviewed
) -> None:
    savepoint = fabricate(home.savepoints, OLD)
    assert cli("verify", OLD) == 0
    reviewed(capsys.readouterr().out)
    opened(savepoint.part("open_events") / "part-0.parquet").unlink()
    assert cli("verify", OLD) == UnusableSavepoint.exit_code
    told = capsys.readouterr()
    reviewed(told.out)
    assert f"`sessionizer savepoint list clicks --home {home.platform}`" in told.err
    opened(savepoint.manifest).write_text("{")
    assert cli("verify", OLD) == UnusableSavepoint.exit_code
    assert "damaged" in capsys.readouterr().err


def test_two_are_compared(cli: Main, home: StreamHome, capsys: Captured, reviewed: Reviewed) -> None:
    fabricate(home.savepoints, OLD)
    fabricate(home.savepoints, NEW)
    assert cli("diff", OLD, NEW) == 0
    reviewed(capsys.readouterr().out)
    assert cli("diff", OLD, NEW, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"changes": [], "events": None}


def test_the_plan_is_shown_before_anything_goes(
    cli: Main,
    home: StreamHome,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
    reviewed: Reviewed,
) -> None:
    old, new = fabricate(home.savepoints, OLD, made_at=1_000), fabricate(home.savepoints, NEW, made_at=2_000)
    assert cli("prune", "--keep", "1", "--days", "0", "--plan") == 0
    reviewed(capsys.readouterr().out.splitlines())
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert cli("prune", "--keep", "1", "--days", "0") == 1
    assert opened(old.manifest).exists()
    with keep_from_removal(old, "tests"):
        assert cli("prune", "--keep", "1", "--days", "0", "--yes") == 0
        assert opened(old.manifest).exists()
    assert cli("prune", "--keep", "1", "--days", "0", "--yes", "--json") == 0
    assert not opened(old.root).exists()
    assert opened(new.manifest).exists()
    assert cli("prune", "--keep", "1", "--days", "0", "--yes") == 0
    assert opened(new.manifest).exists()


def test_nothing_goes_while_what_would_stay_is_hurt(
    cli: Main, home: StreamHome, capsys: Captured, reviewed: Reviewed
) -> None:
    old, new = fabricate(home.savepoints, OLD, made_at=1_000), fabricate(home.savepoints, NEW, made_at=2_000)
    opened(new.part("timeouts") / "part-0.parquet").unlink()
    assert cli("prune", "--keep", "1", "--days", "0", "--yes") == UnusableSavepoint.exit_code
    reviewed(capsys.readouterr().err)
    assert opened(old.manifest).exists()


def test_an_export_overwrites_nothing(cli: Main, home: StreamHome, tmp_path: Path, capsys: Captured) -> None:
    fabricate(home.savepoints, OLD)
    assert cli("export", OLD, "--to", str(tmp_path)) == 13
    assert "nothing is overwritten" in capsys.readouterr().err


@pytest.fixture
def native(home: StreamHome, tmp_path: Path) -> SavepointHome:
    with tarfile.open(RELEASES / "0.2.0" / "native.tar.xz") as archive:
        archive.extractall(tmp_path / "release")  # noqa: S202  made by us
    (kept,) = (tmp_path / "release").rglob("native")
    shutil.copytree(kept, opened(home.savepoints / "native"))
    return SavepointHome.of(home.savepoints, "native")


def seal(savepoint: SavepointHome) -> None:
    """Have the manifest cover the files as they are now, as if the savepoint had been made of them."""
    manifest = known(read_manifest(savepoint))
    write_manifest(savepoint, replace(manifest, files=tuple(data_files(savepoint))))


def test_a_native_one_is_inspected(cli: Main, native: SavepointHome, capsys: Captured) -> None:
    """Checksums tell nothing of a checkpoint that was damaged before it was copied."""
    assert cli("verify", "native", "--deep") == 0
    assert "nothing is damaged" in capsys.readouterr().out
    (change, *_) = sorted(opened(native.root).rglob("*.changelog"))
    change.write_bytes(change.read_bytes()[:-9])
    (change.parent / f".{change.name}.crc").unlink(missing_ok=True)
    seal(native)
    assert cli("verify", "native") == 0
    assert "DAMAGED" not in capsys.readouterr().out
    assert cli("verify", "native", "--deep") == UnusableSavepoint.exit_code
    assert f"DAMAGED {change.relative_to(opened(native.root) / 'checkpoint')}" in capsys.readouterr().out
