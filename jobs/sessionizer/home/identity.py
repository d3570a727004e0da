"""``home.json``: the id of a platform home, made once. Tables know by it whose they are (docs/adr/0056).

Not its path: a home may be mounted elsewhere, or moved.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.home.json_record import JsonRecord, create_record, require_undamaged
from sessionizer.home.platform_home import identity_file

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class HomeIdentity(JsonRecord):
    """The ``id`` of a platform home: 16 hex digits."""

    id: str


def home_id(platform_home: Path) -> str:
    """The id of the home, made now if it has none. Raises DamagedFile and UnwritablePath."""
    path = identity_file(platform_home)
    known = require_undamaged(HomeIdentity, path)
    if known is None:
        create_record(path, HomeIdentity(secrets.token_hex(8)))  # whoever comes first
        known = require_undamaged(HomeIdentity, path)
    assert known is not None  # noqa: S101  it has just been made
    return known.id


def owner_name(stream: str, platform_home: Path) -> str:
    """What a table of ``stream`` is marked with, such as ``clicks@5d1c0f3e9a7b2468``. Raises as ``home_id``."""
    return f"{stream}@{home_id(platform_home)}"
