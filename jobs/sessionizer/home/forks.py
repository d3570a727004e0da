"""Clients of HDFS in a process that forks.

fsspec forgets its file systems in every forked child. With the last reference hdfs-native ends its threads, and waits
for them. A child has none of its parent's threads, and waits for ever. Python starts Spark's JVM by such a fork.
So fsspec gets clients that stay referred to (``hdfs_clients``).

A client of the child's own works, but for one thing: hdfs-native keeps connections to DataNodes for all clients of a
process, each for 3 s. Those of the parent never answer in the child.
"""

from __future__ import annotations

import os
import sys
import time
from functools import cache
from importlib import import_module
from typing import Final

_CLIENTS: Final = f"{__package__}.hdfs_clients"
_CLASSES: Final = {"hdfs": "KeptHdfsFileSystem", "viewfs": "KeptViewfsFileSystem"}
_STALE_FOR_S: Final = 3.2
_forked_at: Final[list[float]] = []
"""When this process was made by a fork, if its parent had clients."""


@cache
def keep_clients_over_forks() -> None:
    """Have fsspec make clients that each fork keeps. Takes effect for those made from now on."""
    from fsspec import register_implementation, registry  # noqa: PLC0415  for those who have such a root

    for protocol, name in _CLASSES.items():
        register_implementation(protocol, f"{_CLIENTS}.{name}", clobber=True)
        if protocol in registry:  # another library has opened one: fsspec goes by the class that is loaded
            register_implementation(protocol, getattr(import_module(_CLIENTS), name), clobber=True)
    os.register_at_fork(after_in_child=_remember)


def outlive_connections_of_the_parent() -> None:
    """Wait until no connection is left that a parent by fork had to a DataNode: in its children up to 3.2 s, once."""
    if _forked_at:
        time.sleep(max(0.0, _forked_at[0] + _STALE_FOR_S - time.monotonic()))


def _remember() -> None:
    clients = sys.modules.get(_CLIENTS)
    if clients is not None and clients.KEPT:
        _forked_at[:] = [time.monotonic()]
