"""The jars on the class path of drivers: their exact versions, and how the Ivy inside PySpark fetches them."""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from sessionizer.errors import JarsNotFetched
from sessionizer.home.local_files import writing
from sessionizer.home.roots import ObjectStore
from sessionizer.launch.driver_environment import JVM_LOCALE, LOCALE_VARIABLES

LISTED: Final = Path(__file__).absolute().with_name("jars.xml")
DIGESTS: Final = LISTED.with_suffix(".sha256")
"""File with the SHA-256 of each listed jar, as ``sha256sum`` prints it. A registry may serve other bytes one day."""
FETCHED_WITHIN_S: Final = 600.0
EVERY_DRIVER: Final = "default"
"""Configuration of ``jars.xml`` with the jars of every driver. Each object store has one of its own."""
_DEPENDENCY: Final = re.compile(r'<dependency org="[^"]+" name="([^"]+)" rev="([^"]+)"[^>]* conf="(\w+)->')
_VERSION: Final = re.compile(r"-\d[\w.]*\.jar$")


def jar_names(stores: Iterable[ObjectStore] = ()) -> tuple[str, ...]:
    """Return the file names of the jars that drivers need, with those for object ``stores``."""
    wanted, text = {EVERY_DRIVER, *stores}, LISTED.read_text()
    return tuple(f"{name}-{version}.jar" for name, version, part in _DEPENDENCY.findall(text) if part in wanted)


def missing_jars(present: Iterable[str], stores: Iterable[ObjectStore] = ()) -> list[str]:
    """Return the needed jars that are not among the files ``present``."""
    return sorted(set(jar_names(stores)).difference(present))


def other_versions(present: Iterable[str]) -> list[str]:
    """Return the files among ``present`` that are another version of a listed jar. Java would load either."""
    needed = set(jar_names(ObjectStore))
    artifacts = {_VERSION.sub("", name) for name in needed}
    return sorted(name for name in set(present) - needed if _VERSION.sub("", name) in artifacts)


def altered_jars(folder: Path, names: Iterable[str]) -> list[str]:
    """Return those of the jars ``names`` in ``folder`` whose content is not the listed one. Raises OSError."""
    listed = {name: digest for digest, name in map(str.split, DIGESTS.read_text().splitlines())}
    contents = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
    return sorted(name for name, digest in contents.items() if listed.get(name) != digest)


def list_file_names(folder: Path) -> list[str]:
    """Return the names of the files in ``folder``. It may not exist."""
    return sorted(file.name for file in folder.iterdir()) if folder.is_dir() else []


def fetch_jars(folder: Path, stores: Sequence[ObjectStore] = ()) -> list[str]:
    """Fetch the jars that ``folder`` lacks, also for object ``stores``, and return their names.

    Each is complete before its name appears. Without a missing jar nothing is opened, so it works offline.
    Raises JarsNotFetched: there is no PySpark or no Java here, or the registry does not answer, or with other content.
    Raises UnwritablePath, DiskFull.
    """
    missing = missing_jars(list_file_names(folder), stores)
    if not missing:
        return []
    with writing(folder, "the folder of jars"):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetched-", dir=folder) as part:
            _run_ivy(folder, Path(part), stores)
            if altered := altered_jars(Path(part), missing):
                reason = f"{altered[0]} has another SHA-256 than {DIGESTS.name} of this release names"
                raise JarsNotFetched(folder, reason)
            for name in missing:
                (Path(part) / name).replace(folder / name)
    return missing


def _run_ivy(folder: Path, part: Path, stores: Sequence[ObjectStore]) -> None:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if java is None:
        raise JarsNotFetched(folder, "there is no Java here")
    command = [
        java, *JVM_LOCALE.split(), "-cp", str(_ivy(folder)), "org.apache.ivy.Main",
        "-ivy", str(LISTED), "-confs", EVERY_DRIVER, *stores,
        "-retrieve", f"{part}/[artifact]-[revision].[ext]", "-warn",
    ]  # fmt: skip
    try:
        within, variables = FETCHED_WITHIN_S, {**os.environ, **LOCALE_VARIABLES}
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, timeout=within, env=variables
        )
    except subprocess.TimeoutExpired as error:
        raise JarsNotFetched(folder, f"no answer within {FETCHED_WITHIN_S:.0f} s") from error
    lacking = missing_jars(list_file_names(part), stores)
    if done.returncode != 0 or lacking:
        printed = (done.stdout + done.stderr).splitlines()
        reason = next((line.strip(" :\t") for line in printed if "not found" in line or "rror" in line), "")
        raise JarsNotFetched(folder, reason or f"lacking {', '.join(lacking)}")


def _ivy(folder: Path) -> Path:
    found = importlib.util.find_spec("pyspark")
    for root in (found.submodule_search_locations or ()) if found else ():
        for jar in Path(root).glob("jars/ivy-*.jar"):
            return jar
    raise JarsNotFetched(folder, "there is no PySpark in this Python environment, whose Ivy fetches them")
