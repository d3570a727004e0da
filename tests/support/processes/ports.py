"""Processes that tests start: the ports of servers, and what comes to pass in time."""

import random
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import psutil  # type: ignore[import-untyped]


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different, and that the system gives to no connection meanwhile."""
    # from here on the system takes ports for connections that go out, also one that was free a moment ago
    end = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    with ExitStack() as opened:
        found: list[int] = []
        for port in random.sample(range(15_000, end), k=100 * count):
            with suppress(OSError):
                opened.enter_context(socket.create_server(("127.0.0.1", port)))
                found.append(port)
            if len(found) == count:
                return found
    raise AssertionError(found)


def free_addresses(count: int) -> list[str]:
    return [f"127.0.0.1:{port}" for port in free_ports(count)]


class Answering(BaseHTTPRequestHandler):
    """Handler of a server that a test starts, which prints nothing."""

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self, code: int, content: bytes = b"", **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(server: socketserver.TCPServer) -> Iterator[int]:
    """Have ``server`` answer while the context lasts. Gives its port."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.socket.getsockname()[1]
        finally:
            server.shutdown()
            thread.join()


def command_of(process: psutil.Process) -> list[str]:
    """Its command line; that of a process that has just ended is empty."""
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def runs(process: psutil.Process) -> bool:
    """Whether it lives; one that ended but was not waited for does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def eventually(condition: Callable[[], object], seconds: float = 240.0, among: object = "") -> None:
    """Wait until ``condition`` holds. ``among``, or what it returns, is shown if it does not come to pass."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not come to pass {among() if callable(among) else among}"
        time.sleep(0.05)
