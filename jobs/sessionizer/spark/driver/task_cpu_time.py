"""CPU time that the tasks of a local Spark have used.

Within one JVM Spark reports nothing of a task before it ends: executors send their counts only to another JVM.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import psutil  # type: ignore[import-untyped]

_TASK_THREADS: Final = ("Executor task l", "stdout writer f", "Writer for pyth")
"""Names, as Linux cuts them, of the threads that run a task or feed its Python worker.

Elsewhere threads have no names.
"""
_JAVA: Final = ("java", "java.exe")
_SUBMIT: Final = "org.apache.spark.deploy.SparkSubmit"


def task_seconds(jvm_pid: int) -> int:
    """Return whole seconds of processor time of the JVM's running tasks: their threads, and Python workers."""
    try:
        jvm = psutil.Process(jvm_pid)
        threads = [thread for thread in jvm.threads() if _name(jvm_pid, thread.id) in _TASK_THREADS]
        workers = jvm.children(recursive=True)
    except psutil.Error:
        return 0
    return int(sum(thread.user_time + thread.system_time for thread in threads) + sum(map(_seconds, workers)))


def jvm_of_this_process() -> int | None:
    """Return the JVM that this Python speaks to: its parent under spark-submit, else its child.

    None if neither is a JVM.
    """
    try:
        ours = psutil.Process()
        near = [ours.parent(), *ours.children(recursive=True)]
        return next((one.pid for one in near if one is not None and _runs_spark(one)), None)
    except psutil.Error:
        return None


def _runs_spark(process: psutil.Process) -> bool:
    """Tell the JVM of Spark from other JVMs that this process may have started."""
    return process.name() in _JAVA and any(_SUBMIT in word for word in process.cmdline())


def _name(pid: int, thread: int) -> str:
    """Read the name of a thread, which psutil does not know."""
    try:
        return Path(f"/proc/{pid}/task/{thread}/comm").read_text().rstrip("\n")
    except OSError:
        return ""


def _seconds(process: psutil.Process) -> float:
    """Return user and system time of a process (s), 0 if it is gone."""
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)
