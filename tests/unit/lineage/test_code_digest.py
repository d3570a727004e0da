"""The digest of the deciding code: what changes it, and what leaves it the same."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

import sessionizer
from sessionizer.launch.package_archive import PackageArchive
from sessionizer.lineage.fingerprint import code_digest, deciding_modules, digest_of

PACKAGE = Path(sessionizer.__file__).parent
DECIDES = [
    "core/definition/rules.py",
    "core/key_group/merging.py",
    "spark/query/assembly.py",
    "spark/ingest/punctuation.py",
]
DECIDES_NOT = ["cli/app.py", "state/savepoints/savepoint_writer.py", "spark/driver/drive.py", "home/disk/disk_space.py"]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, to be changed."""
    return Path(shutil.copytree(PACKAGE, tmp_path / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__")))


def test_a_copy_elsewhere_has_the_same(package: Path) -> None:
    assert digest_of(package) == code_digest()


@pytest.mark.parametrize("module", DECIDES)
def test_a_change_of_what_decides_changes_it(package: Path, module: str) -> None:
    with (package / module).open("a") as file:
        file.write("\n# a change\n")
    assert digest_of(package) != code_digest()


@pytest.mark.parametrize("module", DECIDES_NOT)
def test_a_change_elsewhere_does_not(package: Path, module: str) -> None:
    with (package / module).open("a") as file:
        file.write("\n# a change\n")
    assert digest_of(package) == code_digest()


def test_a_module_more_and_another_name_change_it(package: Path) -> None:
    (package / "migrations").mkdir(exist_ok=True)
    (package / "migrations" / "one.py").write_text("STEP = 1\n")
    more = digest_of(package)
    (package / "migrations" / "one.py").rename(package / "migrations" / "two.py")
    assert len({code_digest(), more, digest_of(package)}) == 3


def test_the_archive_of_a_cluster_has_the_same(tmp_path: Path) -> None:
    archive = PackageArchive(PACKAGE, tmp_path)
    archive.make()
    assert digest_of(zipfile.Path(archive.place, f"{PACKAGE.name}/")) == code_digest()


def test_it_covers_every_module_of_the_core() -> None:
    covered = {name for name, _ in deciding_modules(PACKAGE)}
    assert {file.relative_to(PACKAGE).as_posix() for file in (PACKAGE / "core").rglob("*.py")} <= covered
    assert len(covered) > 50
