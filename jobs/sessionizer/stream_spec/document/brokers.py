"""Addresses of brokers, as a spec writes them."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator

from sessionizer.stream_spec.document.names import Text
from sessionizer.stream_spec.document.section import refusal

LAST_PORT: Final = 65535


def check_brokers(addresses: str) -> str:
    """Return ``addresses`` if each of them has a host and a port."""
    for address in addresses.split(","):
        if not _is_address(address.strip()):
            raise refusal(addresses, f"host:port of each broker, such as {_example(address.strip())}")
    return addresses


def _is_address(address: str) -> bool:
    host, _, port = address.rpartition(":")
    if not host or "/" in host or (":" in host and not host.startswith("[")):
        return False
    return port.isascii() and port.isdecimal() and 0 < int(port) <= LAST_PORT


def _example(address: str) -> str:
    """Return an example for ``address``. Its port, 9092, is the one in Kafka's own settings."""
    host = address.rpartition("/")[2].partition(":")[0]
    return f"{host or 'localhost'}:9092"


Brokers = Annotated[Text, AfterValidator(check_brokers)]
