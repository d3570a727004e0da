"""The archive that a cluster hands on: the whole package, the same bytes for the same files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import sessionizer
from sessionizer.errors import UnwritablePath
from sessionizer.launch.package_archive import PackageArchive

PACKAGE = Path(sessionizer.__file__).parent


def test_a_python_elsewhere_finds_all_of_it_in_the_archive(tmp_path: Path) -> None:
    archive = PackageArchive(PACKAGE, tmp_path / "packages")
    archive.make()
    read = "import sys; import sessionizer.core.definition as found; import sessionizer.cli.app; print(found.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", read],
        env={"PYTHONPATH": str(archive.place)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(f"{archive.place}/sessionizer/core/definition")


def test_the_name_says_what_is_in_it(tmp_path: Path) -> None:
    package = tmp_path / "sessionizer"
    (package / "__pycache__").mkdir(parents=True)
    (package / "__init__.py").write_text("one = 1")
    archive = PackageArchive(package, tmp_path / "packages")
    archive.make()
    first, content = archive.place, archive.place.read_bytes()
    (package / "__pycache__" / "compiled.pyc").touch()
    (package / "__init__.py").touch()
    first.unlink()
    archive.make()
    assert (archive.place, archive.place.read_bytes()) == (first, content)
    (package / "__init__.py").write_text("one = 2")
    assert archive.place != first


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnwritablePath, match="archive of the package"):
        PackageArchive(PACKAGE, tmp_path / "file").make()
