"""Whom the end of a part of Airflow takes along."""

from __future__ import annotations

import subprocess

from sessionizer_demo.local_airflow.parts import end_processes, family

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
