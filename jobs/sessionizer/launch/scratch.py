"""Spark's scratch on this machine: a private folder for each process that starts a JVM, removed with it or after it.

Spark writes blocks, shuffles, copies of the state and native libraries into Java's folder for temporary files. Others
may read much of that, and a killed JVM leaves all of it. A folder of the operator (``spark.local.dir``,
``SPARK_LOCAL_DIRS``) is the operator's to close and to clear, and so are those of a cluster's executors.

Low priority for a command, so that a driver on the same machine is not slowed down.

Linux weighs niceness among the processes of one session. Among sessions, where the kernel groups by them
(``sched_autogroup_enabled``), it weighs the niceness of the group, which only a whole session can have (man 7 sched).
"""

import atexit
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE, S_ISDIR
from typing import Final

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
    base = _private(scratch_base())
    sweep_scratch(base)
    folder = tempfile.mkdtemp(dir=base)
    Path(folder, _HELD).touch()
    options = environment.get(SUBMIT_OPTIONS, "").replace(_option(environment.get(SCRATCH, "")), "")
    return {SCRATCH: folder, SUBMIT_OPTIONS: f"{_option(folder)} {options}".strip()}


def scratch_base() -> Path:
    """Return the folder of this user's scratch on this machine."""
    return Path(tempfile.gettempdir()) / f"streaming-state-{os.geteuid()}"


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
            with suppress(OSError):  # another process removed it meanwhile
                if _is_left(folder):
                    shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    try:
        descriptor = os.open(folder / _HELD, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:  # another process makes the folder right now, or died as it made it
        return time.time() - folder.lstat().st_mtime > UNUSED_AFTER_S
    try:
        found = os.fstat(descriptor)
        if found.st_size == 0 and time.time() - found.st_mtime <= UNUSED_AFTER_S:
            return False  # without a lock, which could keep the folder's process from its own
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:  # its process lives
        return False
    finally:
        os.close(descriptor)
    return True


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


NICENESS: Final = 10
"""Niceness of a command: a tenth of the claim of others. With the lowest, 19, it would get next to nothing on a machine
that is never idle."""
_GROUP: Final = Path("/proc/self/autogroup")
_STARTED_BY_JVM: Final = "PYSPARK_GATEWAY_PORT"
"""Variable that is set for a Python program whose parent is the JVM of its spark-submit."""


def give_way() -> None:
    """Lower the priority of this process and of all that it starts, and that of its session if it leads one.

    A program that spark-submit started on this machine works in its parent, a JVM, whose priority is lowered, too.
    In a terminal the session is the shell's, which is not ours to slow down: ``setsid`` before the command gives it one
    of its own. Schedulers and services start each command in one. Harmless where there is no such thing.
    """
    _lower(0)
    ours = {os.getpid()}
    if _STARTED_BY_JVM in os.environ:
        with suppress(OSError):  # Linux has a priority for each thread, and a new thread inherits its creator's
            for thread in Path(f"/proc/{os.getppid()}/task").iterdir():
                _lower(int(thread.name))
        ours.add(os.getppid())
    if os.getsid(0) in ours:
        with suppress(OSError):
            _GROUP.write_text(str(NICENESS))


def _lower(thread: int) -> None:
    with suppress(OSError):  # the thread has ended, or is another user's
        os.setpriority(os.PRIO_PROCESS, thread, max(NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))
