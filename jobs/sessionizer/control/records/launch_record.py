"""The file ``launch.json``: the newest launch of the stream. It prevents a launch of a second driver."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sessionizer.control.records.process_identity import ProcessIdentity, is_alive
from sessionizer.errors import HomeNotShared
from sessionizer.home.json_record import JsonRecord, Moment
from sessionizer.home.record_file import ControlFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer.home.stream_home import StreamHome

SUBMITTED: Final = "SESSIONIZER_SUBMITTED"
"""Variable that is set (to 1) for a driver on another machine than its launcher's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchRecord(JsonRecord):
    """The launch of driver ``uid`` at ``at`` (epoch ms), whose output is in the file ``log``.

    It is also written before the process exists: then the process's fields, from ``pid`` on, are None. In cluster mode
    that process only submits. The cluster manager of ``master`` then knows the driver as ``submission`` (a YARN tag, a
    Kubernetes ``namespace:pod``), until ``ended_at`` (epoch ms), when it was killed. A launch that failed has an
    ``ended_at``, too. ``python``: that of another release, None for the default one.
    """

    uid: str
    at: Moment
    log: str
    python: str | None = None
    pid: int | None = None
    process_started: int | None = None
    host: str | None = None
    boot_id: str | None = None
    namespace: str | None = None
    master: str | None = None
    submission: str | None = None
    ended_at: Moment | None = None

    def add_process(self, process: ProcessIdentity) -> LaunchRecord:
        """Return the same launch with its process, which now exists."""
        return replace(
            self,
            pid=process.pid,
            process_started=process.started,
            host=process.host,
            boot_id=process.boot_id,
            namespace=process.namespace,
        )

    @property
    def process(self) -> ProcessIdentity | None:
        """The process that was launched, if it is known."""
        if self.pid is None or self.host is None:
            return None
        return ProcessIdentity(self.pid, self.process_started, self.host, self.boot_id, self.namespace)

    @property
    def may_start(self) -> bool:
        """Whether the driver, which has no lease so far, may still take it. A driver with an exit record may not."""
        if self.ended_at is not None:
            return False
        # the cluster may start a submitted driver, however long ago its client ended
        return self.submission is not None or self.process is None or is_alive(self.process) is not False


LAUNCH_FILE: Final = ControlFile("launch.json", LaunchRecord)


def read_launch(home: StreamHome) -> LaunchRecord | None:
    """Return the newest launch. None if nothing was launched from here, or the file is damaged.

    If spark-submit ended without a submission to its cluster, the launch has failed.
    """
    launch = LAUNCH_FILE.of(home).read()
    if launch is None or launch.ended_at is not None:
        return launch
    exit_code = home.submission(launch.uid)
    with suppress(OSError):  # only a driver that was submitted from this machine has it
        if exit_code.read_text().strip() not in {"", "0"}:
            return replace(launch, ended_at=exit_code.stat().st_mtime_ns // 1_000_000)
    return launch


def own_file(home: StreamHome, named: str) -> Path | None:
    """Return the log that a record names. None unless it, after links, is in the stream's log folder.

    Otherwise a writer of a record could have pages or alerts show any other file of the machine.
    """
    try:
        found, logs = Path(named).resolve(), home.logs.resolve()
    except (OSError, ValueError, RuntimeError):
        return None
    return found if found.is_relative_to(logs) and (found.is_file() or not found.exists()) else None


def require_shared_home(home: StreamHome, uid: str, environment: Mapping[str, str] = os.environ) -> None:
    """Check that a submitted driver finds the log of its launch. Raises HomeNotShared: its home is not its launcher's.

    If control is elsewhere, the two share no home. At a control path it is enough that the record of some launch
    exists. In another home the driver would take a lease that no other process sees, and its work would be invisible.
    The record of the launch may be a later driver's by now, and that of a copied home is an earlier one's.
    """
    if not environment.get(SUBMITTED):
        return
    host = os.uname().nodename
    if home.control_root is None:
        if not home.driver_log(uid).exists():
            raise HomeNotShared(home.root, host)
    elif isinstance(home.control, Path) and read_launch(home) is None:
        raise HomeNotShared(home.control, host, "the record of its launch")
