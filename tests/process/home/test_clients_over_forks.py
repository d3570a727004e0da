"""A client of HDFS in a forked child: the child goes on, whichever library opened the client."""

from __future__ import annotations

import subprocess
import sys

import pytest

NOBODY = "hdfs://127.0.0.1:9"
"""A client is made without a connection."""
PROGRAM = """
import os, sys
from upath import UPath
from sessionizer.home.roots import folder_at
opened = {"ours": lambda: folder_at("%(nobody)s/control").fs, "a library's": lambda: UPath("%(nobody)s/other").fs}
for who in sys.argv[1:]:
    opened[who]()
folder_at("%(nobody)s/control")
child = os.fork()
if child == 0:
    UPath("%(nobody)s/control").fs
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("who", [("ours",), ("a library's",), ("a library's", "ours")], ids=" and ".join)
def test_a_forked_child_opens_a_client_of_its_own(who: tuple[str, ...]) -> None:
    """Else the child waits without end for threads that only its parent has."""
    command = [sys.executable, "-c", PROGRAM % {"nobody": NOBODY}, *who]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "7\n"
