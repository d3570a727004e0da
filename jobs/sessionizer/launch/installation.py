"""Places inside the installed package and its Python environment. None is looked for beside the source."""

import hashlib
import json
import os
import secrets
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import sessionizer
from sessionizer.errors import ReleaseBroken
from sessionizer.home.local_files import TEMPORARY_SUFFIX, writing

_VERSIONS: Final = """
import importlib.metadata as m, json, sys
names = sys.argv[1:]
found = {}
for d in m.distributions():
    found.setdefault((d.metadata["Name"] or "").replace("_", "-").lower(), d.version)
print(json.dumps({name: found[name] for name in names if name in found}))
"""
_LOAD: Final = (
    "import sys; sys.path.append(sys.argv[1]); import sessionizer.cli.app, sessionizer.spark.driver.driver_loop"
)
_ANSWER_WITHIN_S: Final = 60.0
PACKAGE: Final = Path(sessionizer.__file__).absolute().parent
"""The folder of the installed package."""
APPLICATION: Final = PACKAGE / "application" / "main.py"
"""The program that spark-submit runs."""
JARS_VARIABLE: Final = "SESSIONIZER_JARS"
PYTHON_VARIABLE: Final = "SESSIONIZER_PYTHON"
"""Variable with the Python of drivers, if they have an environment of their own."""


def driver_python(environment: Mapping[str, str] = os.environ) -> str:
    """Return the Python that runs drivers: as the environment says, else this one."""
    return environment.get(PYTHON_VARIABLE) or sys.executable


def has_own_python(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether drivers have a Python environment of their own, which then has its own copy of the package."""
    return driver_python(environment) != sys.executable


def package_versions(
    python: str, names: tuple[str, ...], environment: Mapping[str, str] = os.environ
) -> dict[str, str] | None:
    """Return the versions of the packages ``names`` in ``python``, as it imports them. None if that does not run.

    ``environment``: variables that it runs with. A PYTHONPATH among them may lead to other packages.
    """
    try:
        found: dict[str, str] = json.loads(_run(python, _VERSIONS, *names, environment=environment).splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None
    return found


def require_driver_loads(environment: Mapping[str, str] = os.environ) -> None:
    """Raise ReleaseBroken if the drivers' Python cannot import the program of a driver. No JVM is started."""
    python = driver_python(environment)
    try:
        _run(python, _LOAD, str(PACKAGE.parent), environment=environment)
    except subprocess.CalledProcessError as error:
        raise ReleaseBroken(python, (error.stderr.splitlines() or [f"exit code {error.returncode}"])[-1]) from error
    except (OSError, subprocess.SubprocessError) as error:
        raise ReleaseBroken(python, str(error)) from error


def _run(python: str, program: str, *arguments: str, environment: Mapping[str, str]) -> str:
    command, within = [python, "-c", program, *arguments], _ANSWER_WITHIN_S
    return subprocess.run(command, capture_output=True, text=True, timeout=within, check=True, env=environment).stdout


def jar_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the class path: as the environment says, else in the environment of the drivers' Python."""
    if given := environment.get(JARS_VARIABLE):
        return Path(given).absolute()
    is_own = has_own_python(environment)  # a virtual environment has its Python in bin
    prefix = Path(driver_python(environment)).absolute().parent.parent if is_own else Path(sys.prefix)
    return prefix / "share" / "streaming-state" / "jars"


@dataclass(frozen=True, slots=True)
class PackageArchive:
    """The archive of the folder ``package`` in another ``folder``. Reading its content takes some milliseconds."""

    package: Path
    folder: Path

    @property
    def place(self) -> Path:
        """The place of the archive once it is made. Its name contains a digest of the package."""
        digest = hashlib.sha256()
        for name, file in _files(self.package):
            content = file.read_bytes()
            digest.update(f"{name} {len(content)}\n".encode() + content)
        return self.folder / f"{self.package.name}-{digest.hexdigest()[:12]}.zip"

    def make(self) -> None:
        """Write the archive, unless it exists. Raises UnwritablePath, DiskFull, ControlUnreachable."""
        place = self.place
        if place.exists():
            return
        half = place.with_name(f".{place.name}.{secrets.token_hex(6)}{TEMPORARY_SUFFIX}")
        try:
            with writing(place, "the archive of the package"):
                place.parent.mkdir(parents=True, exist_ok=True)
                with zipfile.ZipFile(half, "x") as archive:
                    for name, file in _files(self.package):
                        # each file has one time, so that the same files give the same bytes
                        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                        archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
                half.replace(place)
        finally:
            with suppress(OSError):
                half.unlink(missing_ok=True)


def _files(package: Path) -> Iterator[tuple[str, Path]]:
    for folder, folders, names in os.walk(package):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for file in (Path(folder, name) for name in sorted(names)):
            yield str(file.relative_to(package.parent)), file
