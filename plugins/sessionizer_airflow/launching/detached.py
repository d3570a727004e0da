"""Processes that outlive the task that starts them."""

from __future__ import annotations

import os
import subprocess
from threading import Thread
from typing import TYPE_CHECKING

from sessionizer.control.records.process_identity import ProcessIdentity, identify
from sessionizer.errors import ProgramMissing
from sessionizer.home.disk.bounded_log import open_log

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def start_detached(command: list[str], log: Path, environment: Mapping[str, str]) -> ProcessIdentity:
    """Start ``command`` in a new session, with everything that it prints appended to ``log``."""
    with open_log(log) as output:
        try:
            started = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
                cwd=log.parent,
            )
        except FileNotFoundError as error:
            raise ProgramMissing(command[0]) from error
    # A child that ends while we live stays a zombie until a thread waits for it.
    Thread(target=started.wait, name=f"reap-{started.pid}", daemon=True).start()
    return identify(started.pid) or ProcessIdentity(started.pid, None, os.uname().nodename)
