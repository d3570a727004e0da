"""The examination of an installation: facts about this machine, and every check in the order of mending."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from sessionizer import __version__
from sessionizer.doctor import judge
from sessionizer.doctor.judge import CheckResult, warning
from sessionizer.errors import SessionizerError
from sessionizer.home.roots import (
    DATA_VARIABLE,
    DEFAULT_STREAMS,
    HOME_VARIABLE,
    ControlPath,
    control_root,
    object_store,
    uri_of,
)
from sessionizer.launch.installation import driver_python, jar_folder, package_versions
from sessionizer.launch.jars import list_file_names
from sessionizer.stream_spec.spec_folder import survey_streams

ANSWER_WITHIN_S: Final = 60.0
CONNECT_WITHIN_S: Final = 3.0


def java_program(environment: Mapping[str, str] = os.environ) -> str:
    """Return the Java that Spark would start."""
    home = environment.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else shutil.which("java") or "java"


def java_version(java: str) -> int | None:
    """Return the feature version of ``java``, or None if it does not run."""
    found = re.search(r'version "(\d+)', _output([java, "-version"]))
    return int(found[1]) if found else None


def spark_version(environment: Mapping[str, str]) -> str | None:
    """Return the version of the ``spark-submit`` on the PATH of ``environment``. None if there is none."""
    program = shutil.which("spark-submit", path=environment.get("PATH"))
    found = re.search(r"version (\d+\.\d+\.\d+)", _output([program, "--version"], environment)) if program else None
    return found[1] if found else None


def plugin_sources() -> list[str] | None:
    """Return where Airflow loads the plugin from. None if there is no Airflow in this Python."""
    if importlib.util.find_spec("airflow") is None:
        return None
    written = _output([sys.executable, "-m", "airflow", "plugins", "--output", "json"])
    found = [json.loads(line) for line in written.splitlines() if line.startswith("[{")]
    return [str(each["source"]) for plugins in found for each in plugins if each["name"] == "sessionizer"]


def airflow_variables() -> dict[str, dict[str, str]]:
    """Return the variables of each process of Airflow that this user may look into, by its name and process id."""
    import psutil  # type: ignore[import-untyped]  # noqa: PLC0415  fast --help

    found = {}
    for process in psutil.process_iter():
        try:
            part = _part_of_airflow(process.cmdline())
            environment = process.environ() if part else {}
        except psutil.Error:
            continue
        if "PATH" in environment:  # a process that renamed itself has lost its environment
            found[f"{part} ({process.pid})"] = environment
    return found


def _part_of_airflow(words: list[str]) -> str:
    """Return the part that a command line runs, such as ``scheduler``. Empty if it is not Airflow's."""
    for program, part in pairwise(words):
        if Path(program).name == "airflow" and not part.startswith("-"):
            return part
    return ""


def refusal_to_write(folder: ControlPath) -> str:
    """Return why no file can be created in ``folder``, or an empty text. The file is removed again.

    A folder that does not exist yet is not created: its parent is asked.
    """
    try:
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        probe = folder / f".doctor-{secrets.token_hex(6)}"
        probe.touch(exist_ok=False)
        probe.unlink()
    except (OSError, SessionizerError) as error:
        return getattr(error, "strerror", None) or str(error) or type(error).__name__
    except Exception as error:  # noqa: BLE001  clients of stores have errors of their own
        return f"{type(error).__name__}: {error}"
    return ""


def refusal_of_master(master: str) -> str:
    """Return why the port of a standalone ``master`` does not answer, or an empty text. Other masters are not asked."""
    if not master.startswith("spark://"):
        return ""
    place = urlsplit(master)
    try:
        socket.create_connection((place.hostname or "", place.port or 7077), CONNECT_WITHIN_S).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _output(command: list[str], environment: Mapping[str, str] | None = None) -> str:
    """Return what a program prints, on either stream. Empty if it does not run."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=ANSWER_WITHIN_S, check=False, env=environment
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout


def examine_installation(home: Path, streams: Path, master: str) -> Iterator[CheckResult]:
    """Yield the finding of each check. Nothing is changed, but for a file in the home and one in the control store."""
    python = driver_python()
    versions = package_versions(python, ("streaming-state", "pyspark-client", *judge.DRIVER_PACKAGES))
    yield judge.judge_python((sys.version_info.major, sys.version_info.minor))
    java = java_program()
    yield judge.judge_java(java_version(java), java)
    yield judge.judge_packages(python, versions)
    yield judge.judge_release(__version__, versions)
    store = object_store(os.environ.get(DATA_VARIABLE))
    yield judge.judge_jars(jar_folder(), list_file_names(jar_folder()), store)
    yield judge.judge_home(os.environ.get(HOME_VARIABLE), home, refusal_to_write(home))
    yield _control(home)
    yield _streams(streams)
    yield judge.judge_variables(airflow_variables())
    yield judge.judge_plugin(plugin_sources())
    programs = os.pathsep.join([str(Path(python).parent), os.environ.get("PATH", os.defpath)])
    version = spark_version({**os.environ, "PATH": programs})
    yield judge.judge_spark(version, master, refusal_of_master(master))


def _control(home: Path) -> CheckResult:
    try:
        root = control_root(home)
    except SessionizerError as error:
        return judge.judge_control("SESSIONIZER_CONTROL", str(error))
    return judge.judge_control(uri_of(root), refusal_to_write(root))


def _streams(folder: Path) -> CheckResult:
    if folder == DEFAULT_STREAMS and not folder.exists():
        return warning("streams", f"there is no {folder} here", "give --streams the folder that your DAG file names")
    found = survey_streams(folder)
    return judge.judge_streams(folder, found.specs, [str(each) for each in found.problems])
