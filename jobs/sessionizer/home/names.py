"""Names: of streams and tables, of drivers and lineages, which may stand in a path; of the DAGs of a stream."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from sessionizer.errors import InvalidSpec

NAME_PATTERN: Final = r"[a-z][a-z0-9_]{0,62}"
"""Of a stream or table: safe as a directory, a SQL identifier and part of an Airflow DAG id."""

IDENTIFIER_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}"
"""Of a driver (uid) or lineage: safe as part of a file name."""

TEMPORARY_SUFFIX: Final = ".tmp"
"""Of hidden files that are not complete yet."""


class Verb(StrEnum):
    """What the DAGs of a stream do."""

    SUPERVISE = "supervise"
    START = "start"
    STOP = "stop"
    REPORT = "report"


def minted_id(at_ms: int) -> str:
    """A new id that sorts by ``at_ms`` (to the second, UTC), such as ``20261121T105501-3fa9c2``."""
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{moment:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


def dag_id(stream: str, verb: Verb) -> str:
    """The id of the DAG that does ``verb`` for ``stream``."""
    return f"{stream}.{verb}"


def supervised_stream(dag: str) -> str | None:
    """The stream that the DAG of this id supervises; None where it supervises none."""
    stream, _, verb = dag.rpartition(".")
    return stream if verb == Verb.SUPERVISE and is_name(stream) else None


def is_name(value: str) -> bool:
    """Whether a stream or table may be called so."""
    return re.fullmatch(NAME_PATTERN, value) is not None


def is_identifier(value: str) -> bool:
    """Whether a driver, a lineage or a savepoint may be called so."""
    return re.fullmatch(IDENTIFIER_PATTERN, value) is not None


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
