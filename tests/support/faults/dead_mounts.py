"""Mounts whose server is gone or never answers, as of a network file system that is away. Mounting takes root."""

import os
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

REQUEST_BYTES: Final = 1 << 17
REQUEST: Final = struct.Struct("<IIQ")
"""Length, what is asked, number; the rest does not matter here."""
WELCOME: Final = struct.Struct("<IiQ IIIIHHIIHHI28x")
"""The answer to the first request, without which the kernel sends no other: FUSE's `fuse_init_out`."""


@contextmanager
def mount_without_server(place: Path) -> Iterator[None]:
    """Within it `place`, a folder or a file, is a stale mount: whatever is asked of it fails at once."""
    server = _mounted(place)
    os.close(server)
    try:
        yield
    finally:
        _unmount(place)


@contextmanager
def mount_that_hangs(folder: Path) -> Iterator[None]:
    """Within it nothing that is asked below `folder` is ever answered: who asks cannot be killed, either."""
    server = _mounted(folder)
    number = REQUEST.unpack_from(os.read(server, REQUEST_BYTES))[2]
    os.write(server, WELCOME.pack(WELCOME.size, 0, number, 7, 31, 0, 0, 1, 1, 1 << 16, 1, 0, 0, 0))
    threading.Thread(target=_take_requests, args=(server,), daemon=True).start()
    try:
        yield
    finally:
        _unmount(folder)


def _mounted(place: Path) -> int:
    server = os.open("/dev/fuse", os.O_RDWR)
    kind = "40000" if place.is_dir() else "100000"
    options = f"fd={server},rootmode={kind},user_id=0,group_id=0"
    subprocess.run(["mount", "-t", "fuse", "-o", options, "tests", str(place)], pass_fds=[server], check=True)
    return server


def _take_requests(server: int) -> None:
    """A request that nobody has taken could still be withdrawn by a signal."""
    with suppress(OSError):
        while os.read(server, REQUEST_BYTES):
            pass
    os.close(server)


def _unmount(place: Path) -> None:
    subprocess.run(["umount", "--force", "--lazy", str(place)], check=True)
