"""The examination of an installation: the judge of each check, facts about this machine, and all checks in order."""

import importlib.util
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from sessionizer import __version__
from sessionizer.counts import count_text
from sessionizer.errors import SessionizerError
from sessionizer.home.roots import (
    DATA_VARIABLE,
    DEFAULT_STREAMS,
    HOME_VARIABLE,
    ControlPath,
    ObjectStore,
    control_root,
    object_store,
    uri_of,
)
from sessionizer.launch.installation import driver_python, jar_folder, package_versions
from sessionizer.launch.jars import jar_names, list_file_names, missing_jars, other_versions
from sessionizer.stream_spec.spec_folder import survey_streams

DECIDES_NO_ROW = "it checks an installation"


class Level(StrEnum):
    """The weight of a finding."""

    OK = "ok"
    WARNING = "warning"
    """Works, or is not needed by every process."""
    PROBLEM = "problem"
    """No stream can run like that."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of the check ``name``: its ``level``, the fact that it ``found``, and the ``remedy``."""

    level: Level
    name: str
    found: str
    remedy: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the finding as JSON."""
        return {"check": self.name, "level": str(self.level), "found": self.found, "remedy": self.remedy}


fine, warning, problem = (partial(CheckResult, level) for level in Level)
JAVA: Final = frozenset({17, 21})
PYTHON: Final = ((3, 11), (3, 13))
SPARK: Final = "4.2."
WITH_DRIVER: Final = "pip install 'streaming-state[driver]'"
DRIVER_PACKAGES: Final = ("pyspark", "delta-spark", "pyarrow", "pandas", "protobuf")
SHARED: Final = tuple(f"SESSIONIZER_{name}" for name in ("HOME", "CONTROL", "DATA", "JARS", "PYTHON"))
"""Variables that must be the same in all processes of Airflow."""


def judge_python(version: tuple[int, int]) -> CheckResult:
    """Judge the Python of this process."""
    found = f"Python {version[0]}.{version[1]}"
    if PYTHON[0] <= version <= PYTHON[1]:
        return fine("python", found)
    return problem("python", found, "use Python 3.11, 3.12 or 3.13")


def judge_java(version: int | None, java: str) -> CheckResult:
    """Judge the Java at ``java``. ``version`` is None if there is none."""
    if version is None:
        return problem("java", f"no Java at {java}", "install Java 17 or 21, and set JAVA_HOME or PATH")
    if version in JAVA:
        return fine("java", f"Java {version} ({java})")
    return problem("java", f"Java {version} ({java})", "set JAVA_HOME to Java 17 or 21")


def judge_packages(python: str, versions: Mapping[str, str] | None) -> CheckResult:
    """Judge the packages in the drivers' Python. ``versions`` is None if that Python did not answer."""
    if versions is None:
        return problem("driver python", f"{python} does not run", "set SESSIONIZER_PYTHON to a Python 3.11 to 3.13")
    missing = [name for name in ("streaming-state", *DRIVER_PACKAGES) if name not in versions]
    if missing:
        return problem("driver python", f"{python} lacks {', '.join(missing)}", f"{python} -m {WITH_DRIVER}")
    spark, client = versions["pyspark"], versions.get("pyspark-client")
    if client is not None and client != spark:
        found = f"pyspark {spark} and pyspark-client {client} share one folder in {python}"
        return problem("driver python", found, f"{python} -m pip install --force-reinstall pyspark-client=={spark}")
    if not spark.startswith(SPARK):
        return problem("driver python", f"pyspark {spark} in {python}", f"{python} -m {WITH_DRIVER}")
    return fine("driver python", f"pyspark {spark}, delta-spark {versions['delta-spark']} in {python}")


def judge_release(ours: str, versions: Mapping[str, str] | None) -> CheckResult:
    """Judge whether drivers run the release of this process."""
    theirs = (versions or {}).get("streaming-state", "none")
    if theirs == ours:
        return fine("release", ours)
    return problem("release", f"{ours} here, {theirs} in the drivers' Python", "install the same release in both")


def judge_jars(folder: Path, present: Sequence[str], store: ObjectStore | None = None) -> CheckResult:
    """Judge the jars in ``folder``. ``store``: the object store of the data root."""
    stores = [store] if store else []
    missing, others = missing_jars(present, stores), other_versions(present)
    if missing:
        fetch = " ".join(["sessionizer jars fetch", str(folder), *(f"--with {each}" for each in stores)])
        remedy = f"`{fetch}` with the drivers' Python"
        return problem("jars", f"{folder} lacks {', '.join(missing)}", remedy)
    if others:
        return problem("jars", f"{folder} has {', '.join(others)}, too", "remove these: Java would load either version")
    return fine("jars", f"{len(jar_names(stores))} jars in {folder}")


def judge_home(given: str | None, home: Path, cause: str) -> CheckResult:
    """Judge the platform's home. ``cause``: why it cannot be written, or empty."""
    if cause:
        return problem("home", f"{home} cannot be written: {cause}", "make it writable, or set SESSIONIZER_HOME")
    if not given:
        return warning("home", f"{home}, because SESSIONIZER_HOME is not set", "set it for all processes of Airflow")
    if not given.startswith(("/", "~")):
        return problem("home", f"SESSIONIZER_HOME is {given}, which is relative", "set it to an absolute path")
    return fine("home", str(home))


def judge_control(place: str, cause: str) -> CheckResult:
    """Judge the control store. ``cause``: why no record can be created there, or empty."""
    if cause:
        return problem("control store", f"{place}: {cause}", "see to the store, or set SESSIONIZER_CONTROL")
    return fine("control store", place)


def judge_streams(folder: Path, names: Iterable[str], problems: Sequence[str]) -> CheckResult:
    """Judge the folder of specs: the ``names`` of sound ones, and the ``problems`` of the others."""
    if problems:
        return problem("streams", f"{folder}: {problems[0]}", "`sessionizer spec check` names every problem")
    found = sorted(names)
    if not found:
        return warning("streams", f"{folder} has no spec", "put <name>.yaml there, or set SESSIONIZER_STREAMS")
    return fine("streams", f"{len(found)} in {folder}: {', '.join(found)}")


def judge_variables(processes: Mapping[str, Mapping[str, str]]) -> CheckResult:
    """Judge the variables of Airflow's processes on this machine, by the name of each process.

    Each installation of Airflow, by its home, may have others.
    """
    if not processes:
        return warning("variables", "no process of Airflow is seen here", "run this where Airflow runs, as its user")
    of_installation: dict[str | None, dict[str, Mapping[str, str]]] = defaultdict(dict)
    for name, each in processes.items():
        of_installation[each.get("AIRFLOW_HOME")][name] = each
    for installed, variable in product(of_installation.values(), SHARED):
        values = {name: each.get(variable) for name, each in installed.items()}
        if len(set(values.values())) > 1:
            said = ", ".join(f"{name}: {value or 'not set'}" for name, value in sorted(values.items()))
            return problem("variables", f"{variable} differs ({said})", f"give all processes one {variable}")
    if not any(each.get("SESSIONIZER_HOME") for each in processes.values()):
        return problem("variables", "SESSIONIZER_HOME is set in no process of Airflow", "set it, and restart Airflow")
    return fine("variables", f"the same in {count_text(len(processes), 'process')} of Airflow")


def judge_plugin(sources: Sequence[str] | None) -> CheckResult:
    """Judge the plugin by the ``sources`` from which Airflow loads it. None: there is no Airflow in this Python."""
    if sources is None:
        return warning("plugin", "there is no Airflow in this Python", "none where only drivers run")
    if not sources:
        return problem("plugin", "Airflow does not load it", "install streaming-state into Airflow's own Python")
    if len(sources) > 1:
        found = f"Airflow finds it twice: {', '.join(sources)}"
        return problem("plugin", found, "remove the copy in the plugins folder")
    return fine("plugin", sources[0].partition(": EntryPoint(")[0])  # the rest is a text for Python


def judge_spark(version: str | None, master: str, refused: str) -> CheckResult:
    """Judge the ``spark-submit`` of drivers, and whether ``master`` answers. ``refused``: why it does not, or empty."""
    if version is None:
        return problem("spark", "there is no spark-submit on the drivers' PATH", WITH_DRIVER)
    if not version.startswith(SPARK):
        remedy = f"use Spark {SPARK}x, because the jars are built for it"
        return problem("spark", f"spark-submit is of Spark {version}", remedy)
    if refused:
        found = f"Spark {version}, but {master} does not answer: {refused}"
        return problem("spark", found, "start the cluster's master")
    return fine("spark", f"Spark {version}, master {master}")


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
    """Return where Airflow loads the plugin from. None: there is no Airflow in this Python. Raises TimeoutError."""
    if importlib.util.find_spec("airflow") is None:
        return None
    written = _output([sys.executable, "-m", "airflow", "plugins", "--output", "json"])
    if not written:
        raise TimeoutError(f"`airflow plugins` did not answer within {ANSWER_WITHIN_S:g} s")
    found = [json.loads(line) for line in written.splitlines() if line.startswith("[{")]
    return [str(each["source"]) for plugins in found for each in plugins if each["name"] == "sessionizer"]


def airflow_variables() -> dict[str, dict[str, str]]:
    """Return the variables of each process of Airflow that this user may look into, by its name and process id."""
    import psutil  # type: ignore[import-untyped]  # noqa: PLC0415  fast --help

    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            parts = (part for program, part in pairwise(process.cmdline()) if Path(program).name == "airflow")
            part = next((part for part in parts if not part.startswith("-")), None)
            environment = process.environ() if part else {}
            if "PATH" in environment:  # a process that renamed itself has lost its environment
                found[f"{part} ({process.pid})"] = environment
    return found


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
    try:
        place = urlsplit(master)
        socket.create_connection((place.hostname or "", place.port or 7077), CONNECT_WITHIN_S).close()
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    return ""


def _output(command: list[str], environment: Mapping[str, str] | None = None) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_WITHIN_S,
            check=False,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout


def examine_installation(home: Path, streams: Path, master: str) -> Iterator[CheckResult]:
    """Yield the finding of each check. Nothing is changed, but for a file in the home and one in the control store."""
    python = driver_python()
    versions = package_versions(python, ("streaming-state", "pyspark-client", *DRIVER_PACKAGES))
    yield judge_python((sys.version_info.major, sys.version_info.minor))
    java = java_program()
    yield judge_java(java_version(java), java)
    yield judge_packages(python, versions)
    yield judge_release(__version__, versions)
    store = object_store(os.environ.get(DATA_VARIABLE))
    yield judge_jars(jar_folder(), list_file_names(jar_folder()), store)
    yield judge_home(os.environ.get(HOME_VARIABLE), home, refusal_to_write(home))
    try:
        root = control_root(home)
        yield judge_control(uri_of(root), refusal_to_write(root))
    except SessionizerError as error:
        yield judge_control("SESSIONIZER_CONTROL", str(error))
    if streams == DEFAULT_STREAMS and not streams.exists():
        remedy = "give --streams the folder that your DAG file names"
        yield warning("streams", f"there is no {streams} here", remedy)
    else:
        found = survey_streams(streams)
        yield judge_streams(streams, found.specs, [str(each) for each in found.problems])
    yield judge_variables(airflow_variables())
    try:
        yield judge_plugin(plugin_sources())
    except TimeoutError as error:
        yield warning("plugin", str(error), "run this again when the machine has less to do")
    programs = os.pathsep.join([str(Path(python).parent), os.environ.get("PATH", os.defpath)])
    version = spark_version({**os.environ, "PATH": programs})
    yield judge_spark(version, master, refusal_of_master(master))
