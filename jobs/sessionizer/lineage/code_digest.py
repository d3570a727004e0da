"""Digest of the code that decides the bounds of sessions and the handling of rows.

Two savepoints with the same digest were made by the same rules. Other code, such as a command, leaves it the same.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

PACKAGE: Final = "sessionizer"
DECIDING: Final = ("core", "spark/ingest", "spark/query", "migrations")
"""Folders of the package whose modules decide. A release without migrations has no folder of that name."""


@cache
def code_digest() -> str:
    """Digest the deciding code of this release, in a folder or in the archive that a cluster hands on."""
    return digest_of(files(PACKAGE))


def digest_of(package: Traversable) -> str:
    """Digest the deciding modules of ``package`` as SHA-256 of their names and contents."""
    digest = hashlib.sha256()
    for name, module in deciding_modules(package):
        content = module.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def deciding_modules(package: Traversable) -> Iterator[tuple[str, Traversable]]:
    """Yield each deciding module with its path in ``package``, always in the same order."""
    for folder in DECIDING:
        place = package.joinpath(folder)
        if place.is_dir():
            yield from _modules_below(place, folder)


def _modules_below(folder: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        path = f"{name}/{entry.name}"
        if entry.is_dir():
            yield from _modules_below(entry, path)
        elif entry.name.endswith(".py"):
            yield path, entry
