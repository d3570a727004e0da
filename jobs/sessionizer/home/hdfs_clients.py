"""Clients of HDFS that a forked child refers to as its parent did.

fsspec loads this module when the first ``hdfs://`` or ``viewfs://`` is opened; see ``forks``.
"""

from __future__ import annotations

from typing import Any, Final

from hdfs_native.fsspec import HdfsFileSystem, ViewfsFileSystem

KEPT: Final[list[Any]] = []
"""All clients of this process and of those it was forked from. fsspec keeps those of this process for ever, too."""


class KeptHdfsFileSystem(HdfsFileSystem):
    """A client that no forked child lets go."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        KEPT.append(self)


class KeptViewfsFileSystem(ViewfsFileSystem):
    """A client that no forked child lets go."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        KEPT.append(self)
