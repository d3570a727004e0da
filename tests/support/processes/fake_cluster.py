"""Stands in for the programs `yarn` and `spark-submit` before a cluster that is not here.

The "cluster" runs drivers as processes of this machine that believe to be on another host. All state is in the folder
$FAKE_CLUSTER: `calls` (every command line), `<submission>.pid`, and `mood`: `steady` (if there is none), `refuses`
submissions, `hangs` in them, `full` (nothing leaves the queue) or `silent`. It prints what the real programs print.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from sessionizer.control.records.process_identity import identify, is_alive

STATE = Path(os.environ.get("FAKE_CLUSTER", "."))
SCRIPTED_DRIVER = Path(__file__).with_name("scripted_driver.py")
REFUSED = """Exception in thread "main" java.net.ConnectException: Call From here/127.0.0.1 to localhost:8032 failed
\tat org.apache.hadoop.yarn.client.cli.ApplicationCLI.main(ApplicationCLI.java:128)
Caused by: java.net.ConnectException: Connection refused
"""
YARN_ROW = "%30s\t%20s\t%20s\t%10s\t%10s\t%18s\t%18s\t%15s\t%35s"
YARN_HEAD = YARN_ROW % (
    "Application-Id",
    "Application-Name",
    "Application-Type",
    "User",
    "Queue",
    "State",
    "Final-State",
    "Progress",
    "Tracking-URL",
)
APPLICATION = "application_1700000000000_0001"


def main(arguments: list[str]) -> int:
    with (STATE / "calls").open("a") as calls:
        calls.write(shlex.join([Path(sys.argv[0]).name, *arguments]) + "\n")
    if mood() == "silent" and "run" not in arguments:
        sys.stderr.write(REFUSED)
        return 1
    if "run" in arguments:
        return submit(arguments)
    return yarn(arguments) if arguments[0] == "application" else spark_status(arguments)


def mood() -> str:
    file = STATE / "mood"
    return file.read_text() if file.exists() else "steady"


def submit(arguments: list[str]) -> int:
    if mood() == "refuses":
        sys.stderr.write(REFUSED)
        return 1
    if mood() == "hangs":
        time.sleep(600)
    submission = submission_in(arguments)
    if mood() == "full":
        (STATE / f"{submission}.pid").write_text("0")
        return 0
    call = arguments[arguments.index("run") :]
    elsewhere = {**os.environ, "PRETENDED_HOST": "worker-7"}
    driver = subprocess.Popen(
        [sys.executable, str(SCRIPTED_DRIVER), *call],
        env=elsewhere,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    (STATE / f"{submission}.pid").write_text(str(driver.pid))
    return 0


def submission_in(arguments: list[str]) -> str:
    settings = dict(word.split("=", 1) for word in arguments if word.startswith("spark."))
    tag = settings.get("spark.yarn.tags")
    return tag or f"{settings['spark.kubernetes.namespace']}:{settings['spark.kubernetes.driver.pod.name']}"


def pid_of(submission: str) -> int | None:
    file = STATE / f"{submission}.pid"
    return int(file.read_text()) if file.exists() else None


def lives(pid: int) -> bool:
    identity = identify(pid)
    return identity is not None and bool(is_alive(identity))


def end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def yarn(arguments: list[str]) -> int:
    if arguments[1] == "-kill":
        for file in STATE.glob("*.pid"):
            remove(file)
        sys.stdout.write(f"Killing application {arguments[2]}\n")
        return 0
    tag = arguments[arguments.index("-appTags") + 1]
    pid = pid_of(tag)
    rows = [] if pid is None else [YARN_ROW % (APPLICATION, "clicks.driver", "SPARK", "alice", "streams", *states(pid))]
    sys.stdout.write(
        "Total number of applications (application-types: [], states: [NEW, NEW_SAVING, SUBMITTED, ACCEPTED, RUNNING, "
        f"FINISHED, FAILED, KILLED] and tags: [{tag}]):{len(rows)}\n"
    )
    sys.stdout.write("\n".join([YARN_HEAD, *rows]) + "\n")
    return 0


def states(pid: int) -> tuple[str, str, str, str]:
    if pid == 0:
        return "ACCEPTED", "UNDEFINED", "0%", "N/A"
    return ("RUNNING", "UNDEFINED", "10%", "N/A") if lives(pid) else ("FINISHED", "FAILED", "100%", "N/A")


def remove(file: Path) -> None:
    pid = int(file.read_text())
    if pid:
        end(pid)
    file.unlink()


def spark_status(arguments: list[str]) -> int:
    verb, submission = arguments[-2:]
    pid = pid_of(submission)
    if verb == "--kill":
        sys.stderr.write(f"Submitting a request to kill submission {submission} in {arguments[1]}. \n")
        if pid is not None:
            remove(STATE / f"{submission}.pid")
        return 0
    if pid is None:
        sys.stderr.write("Application not found.\n")
        return 0
    phase = "Pending" if pid == 0 else "Running" if lives(pid) else "Failed"
    namespace, _, pod = submission.partition(":")
    sys.stderr.write(
        f"Application status (driver): \n\t pod name: {pod}\n\t namespace: {namespace}\n\t phase: {phase}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
