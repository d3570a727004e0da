"""The JVM that a typed command starts has the environment of the shell, but for Airflow's own variables."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from support.places import REPOSITORY
from support.processes.fabricated_platform import SPEC

if TYPE_CHECKING:
    from pathlib import Path

AIRFLOWS = {
    "AIRFLOW__CORE__FERNET_KEY": "hunter2",
    "AIRFLOW_CONN_WAREHOUSE": "hunter2",
    "_AIRFLOW_PROCESS_CONTEXT": "server",
    "SESSIONIZER_NOTIFIER_ARGUMENTS": "hunter2",
}


def test_a_jvm_has_nothing_of_airflows(tmp_path: Path) -> None:
    java = tmp_path / "jdk/bin/java"  # notes its environment, and is no Java
    java.parent.mkdir(parents=True)
    java.write_text(f'#!/bin/sh\nenv > "{tmp_path}/seen"\nexit 1\n')
    java.chmod(0o755)
    streams = tmp_path / "streams"
    streams.mkdir()
    (streams / "visits.yaml").write_text(SPEC.format(name="visits"))
    places = ["--streams", str(streams), "--home", str(tmp_path / "home")]
    environment = {**os.environ, **AIRFLOWS, "JAVA_HOME": str(tmp_path / "jdk"), "AWS_REGION": "eu"}
    command = [sys.executable, str(REPOSITORY / "jobs/main.py"), "spec", "check", "--deep", *places]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 67
    assert "error: " in ended.stderr
    assert "Traceback" not in ended.stderr
    seen = (tmp_path / "seen").read_text()
    assert "AWS_REGION=eu" in seen
    assert "hunter2" not in seen
    assert "AIRFLOW_PROCESS_CONTEXT" not in seen
