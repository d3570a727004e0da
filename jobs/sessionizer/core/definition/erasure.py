"""An erasure of people, of whom only keyed digests are kept, in plain Python: Airflow reads it without Arrow."""

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

KEY: Final = "key"
PERSONAL: Final = (KEY, "client")
"""Columns of every event that identify people. Any other one is of the payload."""
DIGEST_BYTES: Final = 16
"""Bytes of a digest: two keys of a stream do not share one."""


def digest_key(secret: bytes, column: str, value: str) -> bytes:
    """Return the digest of a ``value`` of ``column``: the first bytes of HMAC-SHA256."""
    return hmac.digest(secret, f"{column}\0{value}".encode(), "sha256")[:DIGEST_BYTES]


def join_digests(digests: Iterable[bytes]) -> bytes:
    """Return ``digests`` one after the other, each once, in order."""
    return b"".join(sorted(set(digests)))


@dataclass(frozen=True, slots=True)
class ErasedOnce:
    """Keys of one erasure: ``digests`` one after the other, of values of ``column``.

    Events up to ``until_ms`` (epoch ms) are dropped, or stay without their payload columns ``redacts``.
    """

    column: str
    until_ms: int
    digests: bytes
    redacts: tuple[str, ...] = ()
