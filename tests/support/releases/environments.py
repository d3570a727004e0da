"""Python environments of other releases and engines: each has what this one has, but for what it is made for."""

from __future__ import annotations

import shutil
import site
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import sessionizer
from sessionizer.launch.installation import PACKAGE
from support.places import REPOSITORY
from support.processes.driver_process import environment

if TYPE_CHECKING:
    from pathlib import Path

UV: Final = REPOSITORY / ".tools" / "bin" / "uv"
PROGRAM_WITHIN_S: Final = 300


def environment_like_this(folder: Path, release: str = sessionizer.__version__) -> Path:
    """Make an environment in ``folder`` that finds every package of this one, and return its Python.

    Its metadata say ``release``, because those of a checkout may be older than its code.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    lines = [f"import site; site.addsitedir({place!r})" for place in site.getsitepackages()]
    (packages_of(folder) / "like_this.pth").write_text("\n".join(lines) + "\n")
    metadata = packages_of(folder) / f"streaming_state-{release}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: streaming-state\nVersion: {release}\n")
    return folder / "bin" / "python"


def environment_with_spark(folder: Path, version: str) -> Path:
    """Make one with another PySpark. Its metadata conflict with those of Delta, so nothing else is resolved."""
    python = environment_like_this(folder)
    subprocess.run(
        [UV, "pip", "install", "--quiet", "--no-deps", "--python", python, f"pyspark=={version}"], check=True
    )
    return python


def environment_with_release(folder: Path, version: str) -> Path:
    """Make an environment with a copy of our package that calls itself ``version``."""
    python, packages = environment_like_this(folder, version), packages_of(folder)
    shutil.copytree(PACKAGE, packages / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    (packages / PACKAGE.name / "__init__.py").write_text(f'"""A later release."""\n\n__version__ = "{version}"\n')
    return python


def break_release(python: Path) -> None:
    """Let the code of the release fail when it is loaded."""
    command_line = packages_of(python.parent.parent) / PACKAGE.name / "cli" / "app.py"
    command_line.write_text("import no_such_package\n")


def packages_of(folder: Path) -> Path:
    """Return the folder of an environment's packages."""
    (found,) = folder.glob("lib/python3*/site-packages")
    return found


def run_by(python: Path, *arguments: str, **variables: str) -> str:
    """Run ``sessionizer`` with these arguments in that environment, and return what it prints."""
    spark = packages_of(python.parent.parent) / "pyspark"
    home = {"SPARK_HOME": str(spark)} if spark.is_dir() else {}
    application = PACKAGE / "application" / "main.py"
    given = {**environment(), **home, "PYSPARK_PYTHON": str(python), **variables}
    given.pop("PYTHONPATH", None)
    done = subprocess.run(
        [str(python), str(application), *arguments],
        env=given,
        capture_output=True,
        text=True,
        timeout=PROGRAM_WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout
