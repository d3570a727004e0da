"""Places on the loopback for servers that must be told theirs before they start."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

_LOWEST = 15_000
_CONNECTIONS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different, and that the system gives to no connection meanwhile."""
    with ExitStack() as opened:
        found: list[int] = []
        for port in random.sample(range(_LOWEST, _lowest_of_connections()), k=100 * count):
            with suppress(OSError):
                opened.enter_context(socket.create_server(("127.0.0.1", port)))
                found.append(port)
            if len(found) == count:
                return found
    raise AssertionError(found)


def free_addresses(count: int) -> list[str]:
    """See ``free_ports``; with the host."""
    return [f"127.0.0.1:{port}" for port in free_ports(count)]


def _lowest_of_connections() -> int:
    """From here on the system takes ports for connections that go out, also one that was free a moment ago."""
    return int(_CONNECTIONS.read_text().split()[0])
