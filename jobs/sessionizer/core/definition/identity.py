"""The identity of a session: the same events give the same id, in any replay and any lineage."""

from __future__ import annotations

from hashlib import sha256

SESSION_ID_LENGTH = 32


def session_id(key: str, started_at_ms: int, first_event_id: str) -> str:
    """Return the first 32 hexadecimal digits of SHA-256 over key, start (ms) and first event id.

    The three are UTF-8 text with NUL between them. If the key or the id has a NUL itself, a fourth part follows: the
    length of the key in bytes, which says where the key ends. Such a text has at least four NULs, the others have
    two, so that no two sessions hash the same text.
    """
    parts = [key, str(started_at_ms), first_event_id]
    if "\0" in key or "\0" in first_event_id:
        parts.append(str(len(key.encode())))
    return sha256("\0".join(parts).encode()).hexdigest()[:SESSION_ID_LENGTH]
