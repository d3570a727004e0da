"""The identity of a session: the same events give the same id, in any replay and any lineage."""

from __future__ import annotations

from hashlib import sha256

SESSION_ID_LENGTH = 32


def session_id(key: str, started_at_ms: int, first_event_id: str) -> str:
    """The first 32 hexadecimal digits of SHA-256 over key, start (ms) and first event id, NUL between them (UTF-8)."""
    identity = f"{key}\0{started_at_ms}\0{first_event_id}"
    return sha256(identity.encode()).hexdigest()[:SESSION_ID_LENGTH]
