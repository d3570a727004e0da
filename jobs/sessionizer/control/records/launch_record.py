"""``launch.json``: the newest launch of the stream, so that nobody launches a second driver beside it."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sessionizer.control.records.process_identity import ProcessIdentity, is_alive
from sessionizer.errors import HomeNotShared
from sessionizer.home.json_file import read_record, write_record
from sessionizer.home.json_record import JsonRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer.home.stream_home import StreamHome

SUBMITTED: Final = "SESSIONIZER_SUBMITTED"
"""Set (to 1) for a driver that runs on another machine than the one that launched it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchRecord(JsonRecord):
    """Driver ``uid`` was launched at ``at`` (epoch ms) and prints into the file ``log``.

    It is written before the process exists, too: then the process's fields, from ``pid`` on, are None. In cluster mode
    that process only submits; the driver is what the cluster manager of ``master`` knows as ``submission`` (a YARN tag,
    a Kubernetes ``namespace:pod``), until ``ended_at`` (epoch ms), when it was ended by force. A launch that failed has
    an ``ended_at``, too.
    """

    uid: str
    at: int
    log: str
    pid: int | None = None
    process_started: int | None = None
    host: str | None = None
    boot_id: str | None = None
    namespace: str | None = None
    master: str | None = None
    submission: str | None = None
    ended_at: int | None = None

    def of_process(self, process: ProcessIdentity) -> LaunchRecord:
        """The same launch, now that its process exists."""
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
        """Whether it may still take the lease, which it has not; a driver that said how it ended may not either."""
        if self.ended_at is not None:
            return False
        # what was handed over is the cluster's to start, however long ago its client ended
        return self.submission is not None or self.process is None or is_alive(self.process) is not False


def read_launch(home: StreamHome) -> LaunchRecord | None:
    """The newest launch; None if nothing was launched from here, or the file is damaged.

    One that spark-submit ended without having handed over to its cluster has failed.
    """
    launch = read_record(LaunchRecord, home.control_files.launch)
    if launch is None or launch.ended_at is not None:
        return launch
    exit_code = home.own_files.submission(launch.uid)
    with suppress(OSError):  # few are submitted, and on this machine
        if exit_code.read_text().strip() not in {"", "0"}:
            return replace(launch, ended_at=exit_code.stat().st_mtime_ns // 1_000_000)
    return launch


def own_file(home: StreamHome, named: str) -> Path | None:
    """The log that a record names; None unless it, and whatever it links to, is a file in the logs of the stream.

    Whoever can write a record must not have pages or alerts read any other file of the machine to people.
    """
    try:
        found, logs = Path(named).resolve(), home.logs.resolve()
    except (OSError, ValueError, RuntimeError):
        return None
    return found if found.is_relative_to(logs) and (found.is_file() or not found.exists()) else None


def require_shared_home(home: StreamHome, uid: str, environment: Mapping[str, str] = os.environ) -> None:
    """A driver that was submitted finds the log of its launch. Raises HomeNotShared: its home is not its launcher's.

    Where control is elsewhere the two need no home in common, but at a path the record of some launch.
    In another home it would take a lease that nobody else sees, and nobody would see it work. The record of the launch
    may be a later driver's by now, and that of a copied home is an earlier one's.
    """
    if not environment.get(SUBMITTED):
        return
    host = os.uname().nodename
    if home.control_root is None:
        if not home.driver_log(uid).exists():
            raise HomeNotShared(home.root, host)
    elif isinstance(home.control, Path) and read_launch(home) is None:
        raise HomeNotShared(home.control, host, "the record of its launch")


def write_launch(home: StreamHome, launch: LaunchRecord) -> None:
    """Raises UnwritablePath: the control directory cannot be written."""
    write_record(home.control_files.launch, launch)
