"""``fingerprint.json`` of a lineage: the release, the deciding code and the versions below it that it runs by.

The digest of the deciding code covers what decides the bounds of sessions and the handling of rows. Two savepoints with
the same digest were made by the same rules. The spec is beside it (``spec.json``), and so are format and revision of
the state (``checkpoint.json``). A driver compares the versions before it starts Spark, because another line of Spark or
Delta may read a checkpoint otherwise.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import sessionizer
from sessionizer.errors import EngineChanged
from sessionizer.home.json_record import JsonRecord
from sessionizer.home.record_file import LineageFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

    from sessionizer.home.stream_home import StreamHome

PACKAGE: Final = "sessionizer"
DECIDING: Final = ("core", "spark/ingest", "spark/query", "migrations")
"""Folders of the package whose modules decide. A release without migrations has no folder of that name."""
RELEASE: Final = "release"
PYTHON: Final = "python"
JAVA: Final = "java"
SPARK: Final = "spark"
DELTA: Final = "delta-spark"
ENGINE: Final = (SPARK, DELTA)
"""Programs that read and write a checkpoint and its tables: a driver starts only on the line that made them."""
_PACKAGES: Final = {SPARK: "pyspark", DELTA: "delta-spark", "pyarrow": "pyarrow"}
EARLIER: Final[Mapping[str, str]] = {SPARK: "4.2.0", DELTA: "4.4.0"}
"""Versions of every lineage without this record: earlier releases ran with these only."""


@dataclass(frozen=True, slots=True)
class Fingerprint(JsonRecord):
    """Digest of our deciding ``code``, ``versions`` of our release and the programs below it, pinned settings.

    ``code``: as ``code_digest`` has it. That of an older savepoint covers other modules, and ``""`` is unknown.
    ``configuration``: Spark's settings that the checkpoint pins, empty before the first batch. ``bundle``: DAG bundle
    (``name@version``) of the watch in which its newest driver started. None if none is known.
    """

    code: str
    versions: Mapping[str, str]
    configuration: Mapping[str, str] = field(default_factory=dict)
    bundle: str | None = None


FINGERPRINT_FILE: Final = LineageFile("fingerprint.json", Fingerprint)


def present_fingerprint(more: Mapping[str, str] | None = None) -> Fingerprint:
    """Return the fingerprint of this process. ``more``: versions that only a running Spark tells."""
    return Fingerprint(code_digest(), {**present_versions(), **(more or {})})


def present_versions() -> dict[str, str]:
    """Return the versions that are installed here, without those of packages that are not."""
    return {RELEASE: sessionizer.__version__, PYTHON: platform.python_version(), **_installed_versions()}


def release_line(version: str) -> str:
    """Return the line of a version: its first two numbers, as in ``4.2``."""
    return ".".join(version.split(".")[:2])


def read_fingerprint(home: StreamHome, lineage: str) -> Fingerprint:
    """Read the record, or return the known versions of a lineage of an earlier release. Raises DamagedFile."""
    return FINGERPRINT_FILE.of(home, lineage).require() or Fingerprint("", EARLIER)


def write_fingerprint(home: StreamHome, lineage: str, fingerprint: Fingerprint) -> None:
    """Write the record unless it says the same. Only the maker or the driver of ``lineage`` may.

    Raises UnwritablePath, DamagedFile.
    """
    file = FINGERPRINT_FILE.of(home, lineage)
    if file.require() != fingerprint:
        file.write(fingerprint)


def note_programs(home: StreamHome, lineage: str) -> None:
    """Record that ``lineage`` goes on by the programs that are installed here. Raises UnwritablePath, DamagedFile.

    The record stays if the engine here is of another line, because a lineage never goes on by that.
    """
    kept, now = read_fingerprint(home, lineage), present_fingerprint()
    if other_line(kept.versions, now.versions) is None:
        write_fingerprint(home, lineage, replace(kept, code=now.code, versions={**kept.versions, **now.versions}))


def require_same_engine(home: StreamHome, lineage: str) -> None:
    """Raise EngineChanged if another line of Spark or Delta made ``lineage``. Raises DamagedFile."""
    changed = other_line(read_fingerprint(home, lineage).versions, _installed_versions())
    if changed is not None:
        name, kept, now = changed
        raise EngineChanged(home.name, lineage, name, kept, now)


def other_line(kept: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, str, str] | None:
    """Return the first program of the engine that is on another line, with both versions, None if there is none."""
    for name in ENGINE:
        if name in kept and name in now and release_line(kept[name]) != release_line(now[name]):
            return name, kept[name], now[name]
    return None


def _installed_versions() -> dict[str, str]:
    found = dict[str, str]()
    for name, package in _PACKAGES.items():
        try:
            found[name] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:  # such as beside Airflow, which needs no Spark
            continue
    return found


@cache
def code_digest() -> str:
    """Digest the deciding code of this release, in a folder or in the archive that a cluster hands on."""
    return digest_of(files(PACKAGE))


def digest_of(package: Traversable) -> str:
    """Digest the deciding modules of ``package`` as SHA-256 of their names and contents."""
    digest = hashlib.sha256()
    for name, module in deciding_modules(package):
        content = module.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def deciding_modules(package: Traversable) -> Iterator[tuple[str, Traversable]]:
    """Yield each deciding module with its path in ``package``, always in the same order."""
    for folder in DECIDING:
        place = package.joinpath(folder)
        if place.is_dir():
            yield from _modules_below(place, folder)


def _modules_below(folder: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        path = f"{name}/{entry.name}"
        if entry.is_dir():
            yield from _modules_below(entry, path)
        elif entry.name.endswith(".py"):
            yield path, entry
