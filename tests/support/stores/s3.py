"""A real S3 interface: moto's server in a process of its own, on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Final, Self

from sessionizer_demo.local_airflow.api import wait_until
from support.processes.ports import free_addresses

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

BUCKET: Final = "sessionizer"
UP_WITHIN_S: Final = 60.0


class S3:
    """Starts on entering the context, with an empty ``BUCKET``; on leaving it is killed. It prints into ``folder``."""

    def __init__(self, folder: Path) -> None:
        (self._address,) = free_addresses(1)
        self._log = folder / "s3.log"
        self.environment = {
            "AWS_ENDPOINT_URL": f"http://{self._address}",
            "AWS_ACCESS_KEY_ID": "of-tests",
            "AWS_SECRET_ACCESS_KEY": "of-tests",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        """What its clients have in theirs."""

    def __enter__(self) -> Self:
        port = self._address.rpartition(":")[2]
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "support.stores.s3_server", port],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | self.environment,
            )
        wait_until(self._has_bucket, UP_WITHIN_S, "an S3 server")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def _has_bucket(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        server = HTTPConnection(self._address, timeout=5)
        try:
            server.request("PUT", f"/{BUCKET}")
            return server.getresponse().status == 200
        except OSError:
            return False
        finally:
            server.close()
