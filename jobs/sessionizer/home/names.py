"""The names that may stand in a path: of streams and tables, of drivers and lineages."""

from __future__ import annotations

import re
from typing import Final

from sessionizer.errors import InvalidSpec

NAME_PATTERN: Final = r"[a-z][a-z0-9_]{0,62}"
"""Of a stream or table: safe as a directory, a SQL identifier and part of an Airflow DAG id."""

IDENTIFIER_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}"
"""Of a driver (uid) or lineage: safe as part of a file name."""


def is_name(value: str) -> bool:
    """Whether a stream or table may be called so."""
    return re.fullmatch(NAME_PATTERN, value) is not None


def checked_name(field: str, value: str) -> str:
    """``value``, if a stream or table may be called so; raises InvalidSpec for ``field`` otherwise."""
    return _checked(field, value, NAME_PATTERN)


def checked_identifier(field: str, value: str) -> str:
    """``value``, if it may stand in a file name; raises InvalidSpec for ``field`` otherwise."""
    return _checked(field, value, IDENTIFIER_PATTERN)


def _checked(field: str, value: str, pattern: str) -> str:
    if not re.fullmatch(pattern, value):
        raise InvalidSpec(field, value, f"a name matching ^{pattern}$")
    return value
