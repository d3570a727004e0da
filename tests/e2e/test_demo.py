"""The demo as a new user sees it: real Airflow, real Spark, a query that answers, and nothing left behind."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessionizer_demo.local_airflow.installation import Installation
from sessionizer_demo.local_airflow.parts import end_processes, left_behind
from support.places import REPOSITORY, known


class Demo:
    def __init__(self, root: Path) -> None:
        self.output = root / "output.txt"
        command = [sys.executable, "-m", "sessionizer_demo", "--root", str(root / "demo")]
        path = ":".join(str(REPOSITORY / part) for part in ("jobs", "plugins", "demo"))
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, env={**environment(), "PYTHONPATH": path}
            )

    def printed(self) -> str:
        return self.output.read_text()

    def wait_for(self, words: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while words not in self.printed():
            assert self.process.poll() is None, self.printed()
            assert time.monotonic() < deadline, self.printed()
            time.sleep(0.5)


def environment() -> dict[str, str]:
    """Ours without what the tests tell their own Airflow."""

    return {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    started = Demo(tmp_path)
    yield started
    started.process.kill()
    started.process.wait()
    end_processes(left_behind(Installation(root=tmp_path / "demo")), seconds=0.0)


@pytest.mark.timeout(1_000)
def test_a_new_user_sees_sessions_and_leaves_nothing_behind(demo: Demo, tmp_path: Path) -> None:
    demo.wait_for("Airflow is ready", 300)
    demo.wait_for("sessions have landed", 300)
    demo.wait_for("Ctrl-C ends", 60)
    query = known(re.search(r"^  (\S+python\S* -c .*)$", demo.printed(), re.MULTILINE))
    answer = subprocess.run(shlex.split(query[1]), capture_output=True, text=True, check=True).stdout
    assert "acme" in answer
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(240) == 0, demo.printed()
    assert "killing" not in demo.printed(), "something did not end by itself"
    assert left_behind(Installation(root=tmp_path / "demo")) == []
