"""The process that writes events into the folder that the stream reads."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sessionizer_demo.local_airflow.parts import end_processes, family

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer.stream_spec.document.stream import StreamSpec
    from sessionizer_demo.local_airflow.installation import Installation

ENDING_SECONDS = 5.0


@dataclass
class Feed:
    """A process that plays about ``rate`` events per second of the stream ``spec``."""

    installation: Installation
    spec: StreamSpec
    rate: float
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def folder(self) -> Path:
        """Folder that the stream reads."""
        return self.installation.platform_home / "feed" / self.spec.name

    def _command(self) -> list[str]:
        delay = self.spec.rules.watermark_delay_ms / 1000
        return [
            *(sys.executable, "-m", "sessionizer_demo.feed"),
            *("--to", "folder", "--path", str(self.folder), "--stream", self.spec.name),
            *("--rate", str(self.rate), "--watermark-delay", str(delay)),
        ]

    def start(self) -> None:
        """Start the process, which plays until it is stopped."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.installation.logs / "feed.log").open("ab") as output:
            self.process = subprocess.Popen(
                self._command(),
                env=self.installation.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended without a request to stop."""
        return self.process is not None and self.process.poll() is not None

    def stop(self) -> None:
        """End the process and wait until it has ended."""
        if self.process is not None:
            end_processes(family(self.process.pid), seconds=ENDING_SECONDS)
            self.process.wait()
