"""The clients' changed timeouts in a group's state, decoded once for all groups that have the same.

The groups of a stream keep the same changes. A table of 100,000 clients is a blob of 0.5 to 1.2 MB. Without this cache
each group of a Python process would read it from the state and decode it in each batch.
"""

from __future__ import annotations

import hashlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from sessionizer.core.wire.codec import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_AT_MOST: Final = 8
_opened: dict[bytes, Mapping[str, int]] = {}
"""Timeouts by fingerprint, the most recently used last."""


class KeptTimeouts(NamedTuple):
    """Timeouts in the form in which the state keeps them. The same timeouts have the same ``fingerprint``."""

    fingerprint: bytes
    blob: bytes


def keep_timeouts(timeouts_ms: Mapping[str, int]) -> KeptTimeouts:
    """Encode the timeouts (ms) by client for the state."""
    clients = sorted(timeouts_ms)
    columns = [pa.array(clients, pa.string()), pa.array([timeouts_ms[name] for name in clients], pa.int64())]
    blob = encode(pa.table(columns, names=["client", "timeout_ms"]))
    return KeptTimeouts(hashlib.blake2b(blob, digest_size=16).digest(), blob)


def read_kept_timeouts(fingerprint: bytes, read: Callable[[], bytes]) -> Mapping[str, int]:
    """Return the timeouts (ms) by client that have ``fingerprint``.

    ``read`` returns the blob. It is called only if the timeouts are not cached.
    """
    timeouts = _opened.pop(fingerprint, None)
    if timeouts is None:
        table = decode(read())
        pairs = zip(table.column("client").to_pylist(), table.column("timeout_ms").to_pylist(), strict=True)
        timeouts = MappingProxyType(dict(pairs))
    _opened[fingerprint] = timeouts
    if len(_opened) > _AT_MOST:
        del _opened[next(iter(_opened))]
    return timeouts
