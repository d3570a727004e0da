"""A history in a relational database: its address, and where the password of its user is. Pure."""

from __future__ import annotations

import re
from typing import Final

DATABASE: Final = "jdbc:"
"""What begins the address of a database."""
PASSWORD: Final = "JDBC_PASSWORD"  # noqa: S105  the name of the variable
"""In the environment of the job, and nowhere else."""
_SECRET: Final = re.compile(r"password\s*=|//[^/@]*:[^/@]*@", re.IGNORECASE)


def without_secret(url: str) -> str | None:
    """The part of ``url`` before a password in it; None where there is none."""
    return f"{_SECRET.split(url)[0]}…" if _SECRET.search(url) else None
