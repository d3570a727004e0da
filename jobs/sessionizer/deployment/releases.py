"""Releases that are installed on this machine, and the one that a lineage needs.

``SESSIONIZER_RELEASES`` is a folder with one Python environment for each release and engine that a way back may need.
Their versions are read from the environments, because a typed list would go stale.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sessionizer.control.records.operation_record import Ending, read_operations
from sessionizer.errors import InvalidSpec
from sessionizer.launch.installation import JARS_VARIABLE, PYTHON_VARIABLE, driver_python, package_versions
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.canary.canary_record import canary_of_active
from sessionizer.lineage.fingerprint import (
    DELTA,
    ENGINE,
    RELEASE,
    SPARK,
    other_line,
    present_versions,
    read_fingerprint,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sessionizer.home.stream_home import StreamHome

RELEASES_VARIABLE: Final = "SESSIONIZER_RELEASES"
_PROGRAMS: Final = (RELEASE, *ENGINE)
_PACKAGES: Final = {RELEASE: "streaming-state", SPARK: "pyspark", DELTA: "delta-spark"}
_OF_DEFAULT: Final = ("PYTHONPATH", "PYTHONHOME", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME", "VIRTUAL_ENV")
"""Variables that lead a driver to programs of the default environment."""
_ROLLBACK: Final = "rollback"


@dataclass(frozen=True, slots=True)
class InstalledRelease:
    """A Python environment with our package: its ``python``, and the ``versions`` of release and engine in it."""

    python: Path
    versions: Mapping[str, str]

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of ``environment`` with which a driver runs by this release."""
        kept = {name: value for name, value in environment.items() if name not in _OF_DEFAULT}
        jars = self.python.parent.parent / "share" / "streaming-state" / "jars"
        own = {JARS_VARIABLE: str(jars)} if jars.is_dir() else {}
        return {**kept, **own, PYTHON_VARIABLE: str(self.python)}


@dataclass(frozen=True, slots=True)
class ReleaseChoice:
    """The environment of a driver: ``release``, or the default one if that is None.

    ``lacks``: the programs that the lineage ran by and that no listed environment has, None if it lacks nothing.
    ``is_refused``: the default environment cannot run the lineage in their place.
    """

    release: InstalledRelease | None = None
    lacks: Mapping[str, str] | None = None
    is_refused: bool = False

    @property
    def place(self) -> str:
        """Say where the programs are, or how to install them, as the end of a sentence that names them."""
        if self.release is not None:
            return f", which are in {self.release.python.parent.parent}"
        return f". For the way back, {self.remedy}" if self.lacks else ""

    @property
    def remedy(self) -> str:
        """Say exactly what to install, empty if nothing."""
        if self.lacks is None:
            return ""
        wanted = [f'"streaming-state[driver]=={self.lacks[RELEASE]}"'] if RELEASE in self.lacks else []
        wanted += [f"{_PACKAGES[name]}=={self.lacks[name]}" for name in ENGINE if name in self.lacks]
        place, packages = f"an environment in the folder of {RELEASES_VARIABLE}", " ".join(wanted)
        return f"install {describe_programs(self.lacks)} into {place}: `pip install {packages}`"


def choose_release(
    needed: Mapping[str, str],
    default: Mapping[str, str],
    installed: Sequence[InstalledRelease],
    *,
    returned: bool,
) -> ReleaseChoice:
    """Choose the environment for a lineage that ran by the versions ``needed``.

    The ``default`` environment is left only if it has another line of the engine, or if a rollback ``returned`` to the
    lineage. Otherwise a new patch release or a new release of ours is taken at a restart, as always.
    """
    is_refused = other_line(needed, default) is not None
    named = {name: needed[name] for name in _PROGRAMS if name in needed}
    differs = any(name in default and default[name] != version for name, version in named.items())
    if not (is_refused or (returned and differs)):
        return ReleaseChoice()
    for each in installed:
        if all(each.versions.get(name) == version for name, version in named.items()):
            return ReleaseChoice(each)
    return ReleaseChoice(lacks=named, is_refused=is_refused)


def list_installed_releases(environment: Mapping[str, str] = os.environ) -> list[InstalledRelease]:
    """Read the environments in the folder of ``SESSIONIZER_RELEASES``, by name. Empty if it is not set.

    An environment without our package is no release. Raises InvalidSpec if the folder is relative or not there.
    """
    given = environment.get(RELEASES_VARIABLE)
    if not given:
        return []
    folder = Path(given).expanduser()
    if not (folder.is_absolute() and folder.is_dir()):
        raise InvalidSpec(
            RELEASES_VARIABLE, given, "the absolute path of a folder with a Python environment per release"
        )
    own = {name: value for name, value in environment.items() if name not in _OF_DEFAULT}
    found = (InstalledRelease(python, _versions_in(python, own)) for python in sorted(folder.glob("*/bin/python")))
    return [each for each in found if RELEASE in each.versions]


def release_for_next_start(home: StreamHome, environment: Mapping[str, str] = os.environ) -> ReleaseChoice:
    """Choose the environment of the driver that starts next: by its lineage, or by the one that it rolls back to.

    Raises InvalidSpec, DamagedFile, ControlUnreachable.
    """
    lineage, returned = _lineage_to_start(home)
    if lineage is None or not (returned or environment.get(RELEASES_VARIABLE)):
        return ReleaseChoice()
    return release_of(home, lineage, _default_versions(environment), environment, returned=returned)


def release_to_return(home: StreamHome, lineage: str, environment: Mapping[str, str] = os.environ) -> ReleaseChoice:
    """Choose the environment of a driver after a rollback to ``lineage``. Raises InvalidSpec, DamagedFile."""
    return release_of(home, lineage, _default_versions(environment), environment)


def release_of(
    home: StreamHome,
    lineage: str,
    default: Mapping[str, str],
    environment: Mapping[str, str] = os.environ,
    *,
    returned: bool = True,
) -> ReleaseChoice:
    """Choose the environment of ``lineage`` beside the ``default`` versions. Raises InvalidSpec, DamagedFile."""
    needed = read_fingerprint(home, lineage).versions
    unlisted = choose_release(needed, default, (), returned=returned)
    if unlisted.lacks is None:
        return unlisted
    return choose_release(needed, default, list_installed_releases(environment), returned=returned)


def programs_needed(home: StreamHome, lineage: str) -> tuple[str, ...]:
    """Say by which programs a driver goes on with ``lineage`` after a rollback. Empty if those here made it.

    Raises InvalidSpec, DamagedFile.
    """
    kept, now = read_fingerprint(home, lineage).versions, present_versions()
    choice = release_of(home, lineage, now)
    if choice.release is not None:
        return (f"its driver starts by {describe_programs(kept)}, in {choice.release.python.parent.parent}",)
    if choice.lacks is None:
        return ()
    here = f"it ran by {describe_programs(kept)}, and {describe_programs(now)} is installed"
    before = "before the next start, " if choice.is_refused else "to start by it, "
    return here, f"{before}{choice.remedy}"


def describe_programs(versions: Mapping[str, str]) -> str:
    """Name the release and the Spark, as far as they are known."""
    return ", ".join(f"{name} {versions[name]}" for name in (RELEASE, SPARK) if name in versions)


def _lineage_to_start(home: StreamHome) -> tuple[str | None, bool]:
    """Return the lineage that the next driver runs, and whether a rollback leads or led to it."""
    canary = canary_of_active(home)
    if canary is not None and canary.goes_back:
        return canary.course.before, True
    active = active_lineage(home)
    done = [each for each in read_operations(home) if each.outcome is not Ending.ABANDONED]
    newest = done[-1] if done else None
    return active, newest is not None and newest.verb == _ROLLBACK and newest.lineage_from != active


def _default_versions(environment: Mapping[str, str]) -> Mapping[str, str]:
    python = driver_python(environment)
    return present_versions() if python == sys.executable else _versions_in(Path(python), environment)


def _versions_in(python: Path, environment: Mapping[str, str]) -> dict[str, str]:
    found = package_versions(str(python), tuple(_PACKAGES.values()), environment) or {}
    return {name: found[package] for name, package in _PACKAGES.items() if package in found}
