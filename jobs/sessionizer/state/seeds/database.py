"""A history in a relational database: its address, and where the password of its user is. Pure."""

from __future__ import annotations

import re
from typing import Final

DATABASE: Final = "jdbc:"
"""Beginning of a database's address."""
PASSWORD: Final = "JDBC_PASSWORD"  # noqa: S105  the name of the variable
"""Variable in the environment of the job, the only place of the password."""
_SECRET: Final = re.compile(r"password\s*=|//[^/@]*:[^/@]*@", re.IGNORECASE)

_PLAIN: Final = re.compile(r"jdbc:[a-z0-9]+://([\w.-]+|\[[0-9a-fA-F:]+\])(?::(\d+))?(?:/[\w$-]*)?")
"""The address of one host, without options: some of those name other hosts."""


def leads_to(url: str, host: str, port: int | None) -> bool:
    """Whether a reader of ``url`` gives a password to ``host`` and ``port`` alone. ``host`` may be a whole address."""
    if host.startswith(DATABASE):
        return url == host
    found = _PLAIN.fullmatch(url)
    return found is not None and (found[1], found[2]) == (host, None if port is None else str(port))


def url_without_secret(url: str) -> str | None:
    """Return the part of ``url`` before a password in it, None if it has no password."""
    return f"{_SECRET.split(url)[0]}…" if _SECRET.search(url) else None
