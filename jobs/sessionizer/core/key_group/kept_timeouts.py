"""The clients' changed timeouts as a group keeps them in its state: one text, opened once for all groups that have it.

The groups of a stream keep the same changes. A table of 100,000 clients as JSON took each of them 190 ms a batch.
"""

from __future__ import annotations

import json
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from sessionizer.core.definition.rules import NEVER_MS
from sessionizer.core.wire.codec import decode, encode
from sessionizer.core.wire.seven_bits import from_text, to_text

if TYPE_CHECKING:
    from collections.abc import Mapping

_JSON: Final = "{"
"""How the text of an earlier release begins; a blob's begins with seven set bits."""


def kept_text(timeouts_ms: Mapping[str, int]) -> str:
    """Client to timeout (ms) as ASCII text; the same mapping gives the same text."""
    clients = sorted(timeouts_ms)
    columns = [pa.array(clients, pa.string()), pa.array([timeouts_ms[name] for name in clients], pa.int64())]
    return to_text(encode(pa.table(columns, names=["client", "timeout_ms"])))


@lru_cache(maxsize=8)
def kept_timeouts(text: str) -> Mapping[str, int]:
    """What ``kept_text`` (or an earlier release) wrote: client to timeout (ms), ``NEVER_MS`` at most."""
    if text.startswith(_JSON):
        return MappingProxyType({client: min(ms, NEVER_MS) for client, ms in json.loads(text).items()})
    table = decode(from_text(text))
    pairs = zip(table.column("client").to_pylist(), table.column("timeout_ms").to_pylist(), strict=True)
    return MappingProxyType(dict(pairs))
