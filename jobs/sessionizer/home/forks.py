"""Clients of HDFS in a process that forks.

fsspec forgets its file systems in every forked child. With the last reference hdfs-native ends its threads, and waits
for them; but a child has none of its parent's threads, and waits for ever. Python starts Spark's JVM by such a fork.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_MODULE: Final = "hdfs_native.fsspec"
_CLASSES: Final = ("HdfsFileSystem", "ViewfsFileSystem")
_kept: Final[list[Any]] = []


@cache
def keep_clients_over_forks() -> None:
    """From now on a fork finds each of them referred to once more, so that the child lets none go."""
    os.register_at_fork(before=_keep)


def _keep() -> None:
    _kept[:] = _clients()


def _clients() -> Iterable[Any]:
    loaded = sys.modules.get(_MODULE)
    for name in _CLASSES if loaded else ():
        yield from getattr(loaded, name)._cache.values()  # noqa: SLF001  the one place where fsspec keeps them all
