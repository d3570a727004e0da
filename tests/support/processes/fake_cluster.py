"""Stands in for `spark-submit` before a Kubernetes that is not here.

The "cluster" runs drivers as processes of this machine that believe to be on another host. All state is in the folder
$FAKE_CLUSTER: `calls` (every command line), `<submission>.pid`, and `mood`: `steady` (if there is none), `refuses`
submissions, `hangs` in them, `full` (nothing leaves the queue) or `silent`. It prints what the real program prints.
"""

import os
import shlex
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from sessionizer.control.records.process_records import identify, is_alive

STATE = Path(os.environ.get("FAKE_CLUSTER", "."))
REFUSED = """Exception in thread "main" io.fabric8.kubernetes.client.KubernetesClientException: An error has occurred.
\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)
Caused by: java.net.ConnectException: Connection refused
"""


def main(arguments: list[str]) -> int:
    with (STATE / "calls").open("a") as calls:
        calls.write(shlex.join([Path(sys.argv[0]).name, *arguments]) + "\n")
    if mood() == "silent" and "run" not in arguments:
        sys.stderr.write(REFUSED)
        return 1
    if "run" in arguments:
        return submit(arguments)
    return spark_status(arguments)


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
    program = Path(__file__).resolve().with_name("scripted_driver.py")
    elsewhere = {**os.environ, "PRETENDED_HOST": "worker-7"}
    call = [sys.executable, str(program), *arguments[arguments.index("run") :]]
    nothing = subprocess.DEVNULL
    driver = subprocess.Popen(
        call, env=elsewhere, start_new_session=True, stdin=nothing, stdout=nothing, stderr=nothing
    )
    (STATE / f"{submission}.pid").write_text(str(driver.pid))
    return 0


def submission_in(arguments: list[str]) -> str:
    settings = dict(word.split("=", 1) for word in arguments if word.startswith("spark."))
    return f"{settings['spark.kubernetes.namespace']}:{settings['spark.kubernetes.driver.pod.name']}"


def pid_of(submission: str) -> int | None:
    file = STATE / f"{submission}.pid"
    return int(file.read_text()) if file.exists() else None


def lives(pid: int) -> bool:
    identity = identify(pid)
    return identity is not None and bool(is_alive(identity))


def end(pid: int, cluster: Path = STATE) -> None:
    """SIGKILL to a driver of ``cluster``: by now its number may be that of another process."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        if process.environ().get("FAKE_CLUSTER") == str(cluster):
            process.kill()


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
