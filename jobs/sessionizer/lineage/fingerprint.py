"""``fingerprint.json`` of a lineage: the release, the deciding code and the versions below it that it runs by.

Two savepoints with the same digest of the deciding code (``code_digest``) were made by the same rules. The spec is
beside it (``spec.json``), and so are format and revision of
the state (``checkpoint.json``). A driver compares the versions before it starts Spark, because another line of Spark or
Delta may read a checkpoint otherwise.
"""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import sessionizer
from sessionizer.errors import EngineChanged
from sessionizer.home.json_record import JsonRecord
from sessionizer.home.record_file import LineageFile
from sessionizer.lineage.code_digest import code_digest, source_digest

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome

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

    ``code``: as ``code_digest`` has it, and ``sources`` as ``source_digest``. ``""`` is unknown.
    ``configuration``: Spark's settings that the checkpoint pins, empty before the first batch. ``bundle``: DAG bundle
    (``name@version``) of the watch in which its newest driver started. None if none is known.
    """

    code: str
    versions: Mapping[str, str]
    configuration: Mapping[str, str] = field(default_factory=dict)
    bundle: str | None = None
    sources: str = ""


FINGERPRINT_FILE: Final = LineageFile("fingerprint.json", Fingerprint)


def present_fingerprint(more: Mapping[str, str] | None = None, known: Fingerprint | None = None) -> Fingerprint:
    """Return the fingerprint of this process. ``more``: versions that only a running Spark tells.

    ``known``: one that may be of the same code, which then need not be parsed.
    """
    is_same = known is not None and known.sources == source_digest()
    code = known.code if known is not None and is_same else code_digest()
    return Fingerprint(code, {**present_versions(), **(more or {})}, sources=source_digest())


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
    kept = read_fingerprint(home, lineage)
    now = present_fingerprint(known=kept)
    if other_line(kept.versions, now.versions) is None:
        versions = {**kept.versions, **now.versions}
        write_fingerprint(home, lineage, replace(kept, code=now.code, sources=now.sources, versions=versions))


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
