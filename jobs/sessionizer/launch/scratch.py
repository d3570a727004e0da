"""Spark's scratch on this machine: a private folder for each process that starts a JVM, removed with it or after it.

Spark writes blocks, shuffles, copies of the state and native libraries into Java's folder for temporary files. Others
may read much of that, and a killed JVM leaves all of it. A folder of the operator (``spark.local.dir``,
``SPARK_LOCAL_DIRS``) is the operator's to close and to clear, and so are those of a cluster's executors.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE, S_ISDIR
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

SCRATCH: Final = "SESSIONIZER_SCRATCH"
"""Variable with the folder of the process and of its JVM."""
SUBMIT_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
"""Variable with options of every JVM that spark-submit starts on this machine. PySpark starts its own by it, too."""
UNUSED_AFTER_S: Final = 600
"""Seconds after which a folder that no process has held was made for one that never started."""
_HELD: Final = "held"


def scratch_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Make a folder, and return the variables by which a JVM and its Python use it. Remove those of dead processes.

    A site's own ``java.io.tmpdir`` in the options of ``environment`` wins.
    """
    base = _private(Path(tempfile.gettempdir()) / f"streaming-state-{os.geteuid()}")
    sweep_scratch(base)
    folder = tempfile.mkdtemp(dir=base)
    (Path(folder) / _HELD).touch()
    options = environment.get(SUBMIT_OPTIONS, "").replace(_option(environment.get(SCRATCH, "")), "")
    return {SCRATCH: folder, SUBMIT_OPTIONS: f"{_option(folder)} {options}".strip()}


def hold_scratch(environment: Mapping[str, str]) -> None:
    """Hold the folder that the ``environment`` names for as long as this process lives, and remove it at its end."""
    folder = Path(environment.get(SCRATCH, "/nowhere"))
    with suppress(OSError):  # the launcher was an earlier release, or on another machine
        descriptor = os.open(folder / _HELD, os.O_WRONLY | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(descriptor, str(os.getpid()).encode())
        atexit.register(_remove_own, folder, os.getpid())


def sweep_scratch(base: Path) -> None:
    """Remove the folders in ``base`` whose processes are dead. Never raises."""
    with suppress(OSError):
        for folder in list(base.iterdir()):
            if _is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    try:
        descriptor = os.open(folder / _HELD, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        found = os.fstat(descriptor)
    except OSError:  # its process lives
        return False
    finally:
        os.close(descriptor)
    return found.st_size > 0 or time.time() - found.st_mtime > UNUSED_AFTER_S


def _remove_own(folder: Path, pid: int) -> None:
    if os.getpid() == pid:  # not in a fork
        shutil.rmtree(folder, ignore_errors=True)


def _private(folder: Path) -> Path:
    """Make a folder that only this user can enter. If another user was faster, make one of another name."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not S_IMODE(found.st_mode) & 0o077:
        return folder
    return Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))


def _option(folder: str) -> str:
    return f'"-Djava.io.tmpdir={folder}"'
