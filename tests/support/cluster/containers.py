"""What runs in the containers of a YARN, seen from the machine that they share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from support.places import REPOSITORY
from support.processes.found_process import command_of

if TYPE_CHECKING:
    import psutil  # type: ignore[import-untyped]

    from support.processes.live_airflow import Platform
    from support.processes.yarn import Yarn

DRIVER_SECONDS: Final = 240.0
"""For a container, its JVM and its first batch on a busy machine."""
STOPPED_SECONDS: Final = 120.0


def states(yarn: Yarn, uid: str) -> list[str]:
    """Of the applications of a driver."""
    found = yarn.asked(f"apps?applicationTags={uid}").get("apps") or {}
    return [app["state"] for app in found.get("app", [])]


def executors_see_no_control(home: Path, yarn: Yarn) -> None:
    """Fail if an executor or its Python workers see the control store, which the driver sees, or our package's source.

    ``home`` is the platform's.
    """
    seen = {process: names_in(Path(f"/proc/{process.pid}/root{home}")) for process in yarn.processes()}
    executors = [process for process in seen if is_executor(process)]
    assert executors
    family = {child for executor in executors for child in (executor, *executor.children(recursive=True))}
    assert any("pyspark" in " ".join(command_of(process)) for process in family), "Python workers"
    assert {process.pid for process in family if seen.get(process)} == set()
    assert any(seen.values()), "the driver"
    for executor in executors:
        path = executor.environ()["PYTHONPATH"]
        assert "sessionizer-" in path
        assert str(REPOSITORY / "jobs") not in path


def nobody_sees_the_home(platform: Platform, yarn: Yarn) -> None:
    """Neither the driver nor an executor, nor what they fork."""
    home = platform.installation.platform_home
    jvms = [process for process in yarn.processes() if is_executor(process) or is_driver(process)]
    family = {child for jvm in jvms for child in (jvm, *jvm.children(recursive=True))}
    assert any(is_driver(process) for process in family)
    assert any(is_executor(process) for process in family)
    assert {process.pid for process in family if names_in(Path(f"/proc/{process.pid}/root{home}"))} == set()


def is_executor(process: psutil.Process) -> bool:
    """Not the shell that starts it."""
    return _is_jvm_of(process, "YarnCoarseGrainedExecutorBackend")


def is_driver(process: psutil.Process) -> bool:
    """The JVM in which it is."""
    return _is_jvm_of(process, "deploy.yarn.ApplicationMaster")


def _is_jvm_of(process: psutil.Process, main_class: str) -> bool:
    command = command_of(process)
    return main_class in " ".join(command) and command[0].endswith("java")


def names_in(folder: Path) -> list[str]:
    """None of a process that has just ended."""
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []
