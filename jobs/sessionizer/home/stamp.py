"""The stamp of every JSON file of the platform: its format, and the process that wrote it.

A file may be read by a release that is years older or newer than its writer. An older format is always readable. A
newer one is refused, because a guess at it could start a stopped stream or lose an open session.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from typing import TYPE_CHECKING, Any, Final

from sessionizer.errors import DamagedFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer.home.control_root import ControlPath
    from sessionizer.home.data_root import DataPath

FORMAT: Final = "format"
WRITER: Final = "writer"
UNSTAMPED: Final = 1
"""The format of a file without a stamp, as the first releases wrote it."""
_TYPED_DIGITS: Final = 16


def stamped(content: Mapping[str, object], format_number: int = UNSTAMPED) -> dict[str, Any]:
    """Return ``content`` with its stamp: ``writer`` is ``<pid>@<host>``, in the form that a JVM uses."""
    return {FORMAT: format_number, WRITER: f"{os.getpid()}@{socket.gethostname()}", **content}


def json_digest(content: Mapping[str, object]) -> str:
    """Return the SHA-256 (64 hex digits) of JSON, whatever the order of its keys."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def typed_digest(decided: Mapping[str, object]) -> str:
    """Return the text that a user types to approve ``decided``: 64 bits of its digest (16 hex digits).

    That is long enough that no text matches by chance.
    """
    return json_digest(decided)[:_TYPED_DIGITS]


def format_of(content: Mapping[str, object]) -> object:
    """Return the format in the stamp of ``content``. It may be no number."""
    return content.get(FORMAT, UNSTAMPED)


def content_of(path: ControlPath, content: Mapping[str, object], field: str) -> Mapping[str, Any]:
    """Return the object ``field`` of the content of ``path``. Empty if there was no content. Raises DamagedFile."""
    if not content:
        return {}
    require_known_format(path, content)
    found = content.get(field)
    if not isinstance(found, dict):
        raise DamagedFile(path, f"it lacks {field}")
    return found


def unknown_format(content: Mapping[str, object], newest: int = UNSTAMPED) -> str | None:
    """Describe the problem with the format of ``content`` for a reader of formats up to ``newest``, or None."""
    found = format_of(content)
    if type(found) is int and UNSTAMPED <= found <= newest:
        return None
    return f"it has format {found!r}, and this release reads {newest} at most: a newer release wrote it"


def require_known_format(path: DataPath, content: Mapping[str, object], newest: int = UNSTAMPED) -> None:
    """Raise DamagedFile if ``content``, which was read from ``path``, has an unknown format."""
    damage = unknown_format(content, newest)
    if damage is not None:
        raise DamagedFile(path, damage)
