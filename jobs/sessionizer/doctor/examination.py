"""The examination of an installation: every check, in the order in which problems are best mended."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sessionizer import __version__
from sessionizer.doctor import facts, judge
from sessionizer.doctor.finding import warning
from sessionizer.errors import SessionizerError
from sessionizer.home.roots import DATA_VARIABLE, DEFAULT_STREAMS, HOME_VARIABLE, control_root, object_store, uri_of
from sessionizer.launch.installation import driver_python, jar_folder, package_versions
from sessionizer.launch.jars import list_file_names
from sessionizer.stream_spec.spec_folder import survey_streams

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessionizer.doctor.finding import CheckResult


def examine_installation(home: Path, streams: Path, master: str) -> Iterator[CheckResult]:
    """Yield the finding of each check. Nothing is changed, but for a file in the home and one in the control store."""
    python = driver_python()
    versions = package_versions(python, ("streaming-state", "pyspark-client", *judge.DRIVER_PACKAGES))
    yield judge.judge_python((sys.version_info.major, sys.version_info.minor))
    java = facts.java_program()
    yield judge.judge_java(facts.java_version(java), java)
    yield judge.judge_packages(python, versions)
    yield judge.judge_release(__version__, versions)
    store = object_store(os.environ.get(DATA_VARIABLE))
    yield judge.judge_jars(jar_folder(), list_file_names(jar_folder()), store)
    yield judge.judge_home(os.environ.get(HOME_VARIABLE), home, facts.refusal_to_write(home))
    yield _control(home)
    yield _streams(streams)
    yield judge.judge_variables(facts.airflow_variables())
    yield judge.judge_plugin(facts.plugin_sources())
    programs = os.pathsep.join([str(Path(python).parent), os.environ.get("PATH", os.defpath)])
    version = facts.spark_version({**os.environ, "PATH": programs})
    yield judge.judge_spark(version, master, facts.refusal_of_master(master))


def _control(home: Path) -> CheckResult:
    try:
        root = control_root(home)
    except SessionizerError as error:
        return judge.judge_control("SESSIONIZER_CONTROL", str(error))
    return judge.judge_control(uri_of(root), facts.refusal_to_write(root))


def _streams(folder: Path) -> CheckResult:
    if folder == DEFAULT_STREAMS and not folder.exists():
        return warning("streams", f"there is no {folder} here", "give --streams the folder that your DAG file names")
    found = survey_streams(folder)
    return judge.judge_streams(folder, found.specs, [str(each) for each in found.problems])
