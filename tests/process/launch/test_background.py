"""A command that gives way has a lower priority, and so have those it starts."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import sessionizer
from sessionizer.errors import UnwritablePath
from sessionizer.launch.installation import PackageArchive
from sessionizer.launch.scratch import NICENESS
from support.places import REPOSITORY

PROGRAM = """
import json, os, pathlib, subprocess
from sessionizer.launch.scratch import give_way

def group():
    file = pathlib.Path("/proc/self/autogroup")
    return file.read_text() if file.exists() else ""

before = group()
give_way()
child = subprocess.run(["nice"], capture_output=True, text=True, check=True)
print(json.dumps([os.getpriority(os.PRIO_PROCESS, 0), int(child.stdout), before, group()]))
"""


class Priorities(NamedTuple):
    own: int
    of_child: int
    session_before: str
    """Empty where the kernel does not group processes by session, or has no group for this one."""
    session_after: str


def priorities(*, own_session: bool, before: tuple[str, ...] = ()) -> Priorities:
    command = [*before, sys.executable, "-c", PROGRAM]
    paths = {"PYTHONPATH": str(REPOSITORY / "jobs"), "PATH": "/usr/bin:/bin"}
    out = subprocess.check_output(command, text=True, env=paths, start_new_session=own_session)
    return Priorities(*json.loads(out))


@pytest.mark.parametrize("own_session", [True, False])
def test_what_it_starts_gives_way_too_and_of_sessions_its_own_alone(*, own_session: bool) -> None:
    found = priorities(own_session=own_session)
    assert (found.own, found.of_child) == (NICENESS, NICENESS)
    lower = re.sub(r"nice -?\d+", f"nice {NICENESS}", found.session_before)
    assert found.session_after == (lower if own_session else found.session_before)


def test_one_that_was_started_with_less_keeps_it() -> None:
    lower = 15 - os.getpriority(os.PRIO_PROCESS, 0)  # a test run may have been started with a lower one itself
    found = priorities(own_session=True, before=("nice", "-n", str(lower)))
    assert (found.own, found.of_child) == (15, 15)


def test_so_does_the_jvm_that_started_it(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import contextlib, os, pathlib\n"
        "from sessionizer.launch.scratch import give_way\n"
        "give_way()\n"
        "threads = [int(each.name) for each in pathlib.Path(f'/proc/{os.getppid()}/task').iterdir()]\n"
        "seen = set()\n"
        "for each in threads:\n"
        "    with contextlib.suppress(ProcessLookupError):  # a thread may end meanwhile\n"
        "        seen.add(os.getpriority(os.PRIO_PROCESS, each))\n"
        "print('JVM', len(threads), seen)\n"
    )
    command = ["spark-submit", "--master", "local[1]", str(program)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    seen = re.search(r"^JVM (\d+) (.*)$", found.stdout, re.MULTILINE)
    assert seen is not None, found.stderr
    assert int(seen[1]) > 5
    assert seen[2] == str({NICENESS})


PACKAGE = Path(sessionizer.__file__).parent


def test_a_python_elsewhere_finds_all_of_it_in_the_archive(tmp_path: Path) -> None:
    archive = PackageArchive(PACKAGE, tmp_path / "packages")
    archive.make()
    read = "import sys; import sessionizer.core.definition as found; import sessionizer.cli.app; print(found.__file__)"
    paths = {"PYTHONPATH": str(archive.place)}
    found = subprocess.check_output([sys.executable, "-c", read], env=paths, cwd=tmp_path, text=True)
    assert found.startswith(f"{archive.place}/sessionizer/core/definition")


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
