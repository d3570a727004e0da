"""Releases that are installed on this machine, and the one that a lineage needs.

``SESSIONIZER_RELEASES`` is a folder with one Python environment for each release and engine that a way back may need.
Their versions are read from the environments, because a typed list would go stale.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sessionizer.errors import DamagedFile, InvalidSpec, UpgradeWaits
from sessionizer.home.stream_home import StreamHome
from sessionizer.launch.installation import JARS_VARIABLE, PYTHON_VARIABLE, driver_python, package_versions
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.canary.canary_record import canary_of_active
from sessionizer.lineage.fingerprint import (
    PROGRAMS,
    RELEASE,
    SPARK,
    Fingerprint,
    present_fingerprint,
    present_versions,
    read_fingerprint,
    release_line,
)
from sessionizer.stream_spec.document.upgrades import AtRestart, Upgrades
from sessionizer.stream_spec.spec_folder import SpecFile

RELEASES_VARIABLE: Final = "SESSIONIZER_RELEASES"
_PACKAGES: Final = {name: each.package for name, each in PROGRAMS.items() if each.is_chosen}
_OF_DEFAULT: Final = ("PYTHONPATH", "PYTHONHOME", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME", "VIRTUAL_ENV")
"""Variables that lead a driver to programs of the default environment."""


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
    """

    release: InstalledRelease | None = None
    lacks: Mapping[str, str] | None = None

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
        named = {name: f"{package}=={self.lacks[name]}" for name, package in _PACKAGES.items() if name in self.lacks}
        if RELEASE in named:
            named[RELEASE] = f'"{_PACKAGES[RELEASE]}[driver]=={self.lacks[RELEASE]}"'
        place, packages = f"an environment in the folder of {RELEASES_VARIABLE}", " ".join(named.values())
        return f"install {describe_programs(self.lacks)} into {place}: `pip install {packages}`"


def choose_release(
    needed: Mapping[str, str], default: Mapping[str, str], installed: Sequence[InstalledRelease]
) -> ReleaseChoice:
    """Choose the environment for a lineage that ran by the versions ``needed``: the one that has exactly these.

    If none is ``installed``, the ``default`` environment is left to judge by itself (``require_release``).
    """
    named = {name: needed[name] for name in _PACKAGES if name in needed}
    if all(default.get(name, version) == version for name, version in named.items()):
        return ReleaseChoice()
    for each in installed:
        if all(each.versions.get(name) == version for name, version in named.items()):
            return ReleaseChoice(each)
    return ReleaseChoice(lacks=named)


def is_taken_at_restart(kept: Fingerprint, now: Fingerprint, allowed: AtRestart) -> bool:
    """Whether a driver may start by the release ``now`` without a command, in a lineage that ran by ``kept``.

    A development version may, if the lineage runs by that version: its code changes under one name.
    """
    before, installed = kept.versions.get(RELEASE), now.versions[RELEASE]
    if before is None or allowed is AtRestart.ANY or (kept.code and kept.code == now.code):
        return True
    if before == installed:
        return ".dev" in installed
    return allowed is AtRestart.PATCH and release_line(before) == release_line(installed)


def require_release(home: StreamHome, file: SpecFile) -> None:
    """Raise UpgradeWaits if a driver must not start by the release that is installed here. Raises DamagedFile.

    A broken spec ``file`` allows what the default does.
    """
    upgrades, lineage = file.spec.upgrades if file.spec else Upgrades(), active_lineage(home)
    if lineage is not None and (untaken := _untaken_release(home, lineage, upgrades.at_restart)):
        raise UpgradeWaits(home.name, lineage, *untaken)


def _untaken_release(home: StreamHome, lineage: str, allowed: AtRestart) -> tuple[str, str] | None:
    """Return the release of ``lineage`` and the one that is installed here, None if a restart takes that."""
    kept = read_fingerprint(home, lineage)
    now = present_fingerprint(known=kept)
    return None if is_taken_at_restart(kept, now, allowed) else (kept.versions[RELEASE], now.versions[RELEASE])


def other_release(home: StreamHome) -> tuple[str, str] | None:
    """Return the release that the stream runs by and the one that is installed here, None if they do the same.

    None also if a record of it is damaged, because a restore may be the way out.
    """
    with suppress(DamagedFile):
        if (lineage := active_lineage(home)) is not None:
            return _untaken_release(home, lineage, AtRestart.SAME_CODE)
    return None


def list_installed_releases(environment: Mapping[str, str] = os.environ) -> list[InstalledRelease]:
    """Read the environments in the folder of ``SESSIONIZER_RELEASES``, by name. Empty if it is not set.

    An environment without our package is no release. Raises InvalidSpec if the folder is relative or not there.
    """
    given = environment.get(RELEASES_VARIABLE)
    if not given:
        return []
    folder = Path(given).expanduser()
    if not (folder.is_absolute() and folder.is_dir()):
        allowed = "the absolute path of a folder with a Python environment per release"
        raise InvalidSpec(RELEASES_VARIABLE, given, allowed)
    own = {name: value for name, value in environment.items() if name not in _OF_DEFAULT}
    found = (InstalledRelease(python, _versions_in(python, own)) for python in sorted(folder.glob("*/bin/python")))
    return [each for each in found if RELEASE in each.versions]


def release_for_next_start(home: StreamHome, environment: Mapping[str, str] = os.environ) -> ReleaseChoice:
    """Choose the environment of the driver that starts next: by its lineage, or by the one that it rolls back to.

    Raises InvalidSpec, DamagedFile, ControlUnreachable.
    """
    canary = canary_of_active(home)
    lineage = canary.before if canary is not None and canary.goes_back else active_lineage(home)
    if lineage is None or not environment.get(RELEASES_VARIABLE):
        return ReleaseChoice()
    return release_to_return(home, lineage, environment)


def release_to_return(home: StreamHome, lineage: str, environment: Mapping[str, str] = os.environ) -> ReleaseChoice:
    """Choose the environment of a driver after a rollback to ``lineage``. Raises InvalidSpec, DamagedFile."""
    python = driver_python(environment)
    default = present_versions() if python == sys.executable else _versions_in(Path(python), environment)
    return release_of(home, lineage, default, environment)


def release_of(
    home: StreamHome, lineage: str, default: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> ReleaseChoice:
    """Choose the environment of ``lineage`` beside the ``default`` versions. Raises InvalidSpec, DamagedFile."""
    needed = read_fingerprint(home, lineage).versions
    unlisted = choose_release(needed, default, ())
    if unlisted.lacks is None:
        return unlisted
    return choose_release(needed, default, list_installed_releases(environment))


def programs_needed(home: StreamHome, lineage: str) -> tuple[str, ...]:
    """Name the programs that a rollback to ``lineage`` needs. Empty: those here. Raises InvalidSpec, DamagedFile."""
    kept, now = read_fingerprint(home, lineage).versions, present_versions()
    choice = release_of(home, lineage, now)
    if choice.release is not None:
        return (f"its driver starts by {describe_programs(kept)}, in {choice.release.python.parent.parent}",)
    if choice.lacks is None:
        return ()
    here = f"it ran by {describe_programs(kept)}, and {describe_programs(now)} is installed"
    return here, f"before the next start, {choice.remedy}"


def describe_programs(versions: Mapping[str, str]) -> str:
    """Name the release and the Spark, as far as they are known."""
    return ", ".join(f"{name} {versions[name]}" for name in (RELEASE, SPARK) if name in versions)


def _versions_in(python: Path, environment: Mapping[str, str]) -> dict[str, str]:
    found = package_versions(str(python), tuple(_PACKAGES.values()), environment) or {}
    return {name: found[package] for name, package in _PACKAGES.items() if package in found}
