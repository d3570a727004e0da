"""A port with TLS before Azurite, for clients in a JVM that insist on TLS. It lists blobs in Azure's order."""

import datetime
import re
import ssl
import sys
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from threading import Thread
from types import TracebackType
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

LOOPBACK: Final = "127.0.0.1"
PASSWORD: Final = "of-tests"  # noqa: S105  a trust store has no secret
_OF_A_CONNECTION: Final = ("connection", "content-length", "transfer-encoding")
"""Headers of an answer that only hold for its connection."""
_ENTRY: Final = re.compile(rb"<(Blob|BlobPrefix)>.*?<Name>(.*?)</Name>.*?</\1>", re.DOTALL)


class TlsFront:
    """Relays each request to ``address`` while its context lasts. ``folder`` gets its certificate."""

    def __init__(self, folder: Path, address: str) -> None:
        self._trusted = folder / "trusted.p12"
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(_write_certificate(folder, self._trusted))
        self._server = _Server(address, context)

    @property
    def address(self) -> str:
        """Address of the listener."""
        return f"{LOOPBACK}:{self._server.server_address[1]}"

    @property
    def java_options(self) -> str:
        """Options of a JVM that trusts its certificate."""
        trusted = f"-Djavax.net.ssl.trustStore={self._trusted}"
        return f"{trusted} -Djavax.net.ssl.trustStorePassword={PASSWORD}"

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """Listener with TLS, whose clients may be killed at any time."""

    def __init__(self, behind: str, context: ssl.SSLContext) -> None:
        super().__init__((LOOPBACK, 0), _Relay)
        self.behind, self.context = behind, context

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Tell of errors that are not of the connection."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Relay(BaseHTTPRequestHandler):
    """Connection of a client, whose requests go to the server behind, one by one."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        """Begin TLS, in the thread of this connection."""
        self.request = self.server.context.wrap_socket(self.request, server_side=True)
        super().setup()

    def finish(self) -> None:
        """End TLS: the server closes the socket that it accepted, which is no longer this one."""
        try:
            super().finish()
        finally:
            self.request.close()

    def relay(self) -> None:
        """Ask the server behind, and answer with what it says."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        asked = {name: value for name, value in self.headers.items() if name.lower() != "expect"}
        inner = HTTPConnection(self.server.behind, timeout=60)
        try:
            inner.request(self.command, self.path, body or None, asked)
            answer = inner.getresponse()
            content = answer.read()
        finally:
            inner.close()
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

    def log_message(self, *_: object) -> None:
        """Say nothing."""


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
