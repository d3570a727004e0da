"""A command that gives way has a lower priority, and so have those it starts."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sessionizer.launch.background import NICENESS

JOBS = Path(__file__).parents[3] / "jobs"
GROUP = Path("/proc/self/autogroup")
PROGRAM = """
import os, pathlib, subprocess, sys
from sessionizer.launch.background import give_way
give_way()
child = subprocess.run(["nice"], capture_output=True, text=True, check=True)
group = pathlib.Path("/proc/self/autogroup")
print(os.getpriority(os.PRIO_PROCESS, 0), child.stdout.strip(), group.read_text() if group.exists() else "")
"""


def priorities(*, own_session: bool, before: tuple[str, ...] = ()) -> tuple[int, int, str]:
    command = [*before, sys.executable, "-c", PROGRAM]
    out = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(JOBS), "PATH": "/usr/bin:/bin"},
        start_new_session=own_session,
    ).stdout
    own, of_child, group = out.strip().split(" ", 2) if out.count(" ") > 1 else (*out.split(), "")
    return int(own), int(of_child), group


@pytest.mark.parametrize("own_session", [True, False])
def test_what_it_starts_gives_way_too(*, own_session: bool) -> None:
    own, of_child, _ = priorities(own_session=own_session)
    assert (own, of_child) == (NICENESS, NICENESS)


def test_one_that_was_started_with_less_keeps_it() -> None:
    assert priorities(own_session=True, before=("nice", "-n", "15"))[:2] == (15, 15)


@pytest.mark.skipif(not GROUP.exists(), reason="this kernel does not group processes by session")
def test_a_session_of_its_own_gives_way_and_no_other() -> None:
    before = GROUP.read_text()
    _, _, group = priorities(own_session=True)
    assert re.search(r"nice (-?\d+)", group)[1] == str(NICENESS)  # type: ignore[index]
    assert priorities(own_session=False)[2].strip() == before.strip()
    assert GROUP.read_text() == before
