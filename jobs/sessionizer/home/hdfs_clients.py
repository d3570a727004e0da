"""Clients of HDFS in a process that forks.

fsspec forgets its file systems in every forked child. With the last reference hdfs-native ends its threads, and waits
for them. A child has none of its parent's threads, so it waits for ever. Python starts Spark's JVM by such a fork. A
client that the child opens itself works, but for one thing: hdfs-native keeps connections to DataNodes for all clients
of a process, each for 3 s. The parent's connections never answer in the child.
"""

from __future__ import annotations

import os
import sys
import time
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_MODULE: Final = "hdfs_native.fsspec"
_CLASSES: Final = ("HdfsFileSystem", "ViewfsFileSystem")
_STALE_FOR_S: Final = 3.2
_kept: Final[list[Any]] = []
_forked_at: Final[list[float]] = []
"""Time at which a fork made this process, if its parent had clients."""


@cache
def keep_clients_over_forks() -> None:
    """Refer to each client once more at every fork from now on, so that the child lets none go."""
    os.register_at_fork(before=_keep, after_in_child=_remember)


def outlive_connections_of_the_parent() -> None:
    """Wait until the parent's connections to DataNodes are closed. In a forked child that may take seconds, once."""
    if _forked_at:
        time.sleep(max(0.0, _forked_at[0] + _STALE_FOR_S - time.monotonic()))


def _remember() -> None:
    if _kept:
        _forked_at[:] = [time.monotonic()]


def _keep() -> None:
    _kept[:] = _clients()


def _clients() -> Iterable[Any]:
    loaded = sys.modules.get(_MODULE)
    for name in _CLASSES if loaded else ():
        yield from getattr(loaded, name)._cache.values()  # noqa: SLF001  the one place where fsspec keeps them all
