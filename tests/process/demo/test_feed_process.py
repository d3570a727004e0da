"""The feed as a process: a signal ends it with its counts."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sessionizer.errors import InvalidSpec
from sessionizer_demo.local_airflow.parts import end_processes, family


def visible_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name[0] not in "._")


def lines_of(folder: Path) -> list[bytes]:
    return [line for path in visible_files(folder) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_endless_feed_with_its_ground_truth(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", "import typer; from sessionizer_demo.feed.commands import feed; typer.run(feed)"]
    arguments = ["--to", "folder", "--path", str(tmp_path), "--rate", "200", "--tick", "0.2", "--json"]
    process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not visible_files(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert json.loads(printed)["rows"] == len(lines_of(tmp_path)) > 0
    assert visible_files(tmp_path) == sorted(tmp_path.iterdir())


WITHOUT_KAFKA = """
import sys
sys.modules["confluent_kafka"] = None
from sessionizer_demo.feed.__main__ import main
sys.exit(main())
"""


def test_a_feed_to_kafka_without_its_client_says_what_to_install() -> None:
    command = [sys.executable, "-c", WITHOUT_KAFKA, "--to", "kafka", "--bootstrap-servers", "localhost:1"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    assert ended.returncode == InvalidSpec.exit_code
    assert "Traceback" not in ended.stderr
    assert "streaming-state[kafka]" in ended.stderr


# Prints the pid of a child that stays with it and of one that has a session of its own, as drivers have.
PART = """
import subprocess, time
print(subprocess.Popen(["sleep", "600"]).pid, flush=True)
print(subprocess.Popen(["sleep", "600"], start_new_session=True).pid, flush=True)
time.sleep(600)
"""


def test_family_of_a_part_leaves_detached_drivers_out() -> None:
    with subprocess.Popen(["python", "-c", PART], stdout=subprocess.PIPE, start_new_session=True) as part:
        assert part.stdout
        worker, driver = (int(part.stdout.readline()) for _ in range(2))
        try:
            assert {process.pid for process in family(part.pid)} == {part.pid, worker}
        finally:
            end_processes([*family(driver), *family(part.pid)], seconds=0.0)


def test_family_of_a_process_that_has_ended_is_empty() -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    assert family(ended.pid) == []
