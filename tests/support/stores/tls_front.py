"""A port with TLS before a server without it, for clients in a JVM that insist on TLS."""

from __future__ import annotations

import datetime
import socket
import ssl
from contextlib import suppress
from ipaddress import ip_address
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import TYPE_CHECKING, Final, Self

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

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

LOOPBACK: Final = "127.0.0.1"
PASSWORD: Final = "of-tests"  # noqa: S105  a trust store has no secret
_CHUNK: Final = 65_536


class TlsFront:
    """Relays each connection to ``address`` while its context lasts. ``folder`` gets its certificate."""

    def __init__(self, folder: Path, address: str) -> None:
        self._trusted = folder / "trusted.p12"
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(_write_certificate(folder, self._trusted))
        host, _, port = address.rpartition(":")

        class Relay(BaseRequestHandler):
            def handle(self) -> None:
                with (
                    suppress(OSError),
                    context.wrap_socket(self.request, server_side=True) as outer,
                    socket.create_connection((host, int(port))) as inner,
                ):
                    back = Thread(target=_pass_on, args=(inner, outer), daemon=True)
                    back.start()
                    _pass_on(outer, inner)
                    back.join()

        self._server = ThreadingTCPServer((LOOPBACK, 0), Relay)
        self._server.daemon_threads = True

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


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    """Copy bytes until the source ends, then tell the target so."""
    with suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


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
