"""Names of streams, tables, drivers and lineages, which may be part of a path, and of a stream's DAGs."""

import re
import secrets
import shlex
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from sessionizer.errors import InvalidSpec

NAME_PATTERN: Final = r"[a-z][a-z0-9_]{0,62}"
"""Pattern of a stream's or table's name: safe as a directory, a SQL identifier and part of an Airflow DAG id."""
IDENTIFIER_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}"
"""Pattern of a driver's (uid) or lineage's id: safe as part of a file name."""
COMMAND_PATTERN: Final = r"[a-z]+-\d{8}T\d{6}-[0-9a-f]+"
"""Pattern of the id by which a command holds a lease: its verb, and the id of its operation. No driver's is like it."""
SESSIONS: Final = "sessions"
QUARANTINE: Final = "quarantine"
LATE_EVENTS: Final = "late_events"
SESSIONS_DAILY: Final = "sessions_daily"
STREAM_HISTORY: Final = "stream_history"
OPEN_SESSIONS: Final = "open_sessions"
PROOF: Final = "proof"
STREAMED: Final = (SESSIONS, QUARANTINE, LATE_EVENTS)
TABLES: Final = (*STREAMED, SESSIONS_DAILY, STREAM_HISTORY, OPEN_SESSIONS)


class Verb(StrEnum):
    """The tasks of a stream's DAGs."""

    SUPERVISE = "supervise"
    START = "start"
    STOP = "stop"
    REPORT = "report"


def quoted_command(*words: str) -> str:
    """Return the command ``sessionizer`` with ``words`` between backticks, to be pasted into a shell of POSIX.

    A word may be any text of an event. A backtick would end the command in a message, so the shell writes it.
    """
    typed = shlex.join(("sessionizer", *words)).replace("`", """'"$(printf '\\140')"'""")
    return f"`{typed}`"


def mint_id(at_ms: int) -> str:
    """Mint an id that sorts by ``at_ms`` (to the second, UTC), such as ``20261121T105501-3fa9c2``."""
    return f"{mint_prefix(at_ms)}-{secrets.token_hex(3)}"


def mint_prefix(at_ms: int) -> str:
    """Return the beginning of an id that is minted at ``at_ms``. Ids that are minted before then sort before it."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y%m%dT%H%M%S}"


def dag_id(stream: str, verb: Verb) -> str:
    """Return the id of the DAG that does ``verb`` for ``stream``."""
    return f"{stream}.{verb}"


def parse_supervising_dag(dag: str) -> str | None:
    """Return the stream that the DAG with this id supervises. None if it is no supervising DAG."""
    stream, _, verb = dag.rpartition(".")
    return stream if verb == Verb.SUPERVISE and is_name(stream) else None


def is_name(value: str) -> bool:
    """Whether ``value`` is a valid name of a stream or table."""
    return re.fullmatch(NAME_PATTERN, value) is not None


def is_identifier(value: str) -> bool:
    """Whether ``value`` is a valid id of a driver, a lineage or a savepoint."""
    return re.fullmatch(IDENTIFIER_PATTERN, value) is not None


def is_command(uid: str) -> bool:
    """Whether ``uid`` is that of a command that holds a lease, not of a driver."""
    return re.fullmatch(COMMAND_PATTERN, uid) is not None


def name_process(uid: str) -> str:
    """Name the owner of a lease, such as ``driver 3f2a91`` or ``command restore-20261125T200000-abc123``."""
    return f"{'command' if is_command(uid) else 'driver'} {uid}"


def check_name(field: str, value: str) -> str:
    """Return ``value`` if it is a valid name of a stream or table. Raises InvalidSpec for ``field`` otherwise."""
    return _check(field, value, NAME_PATTERN)


def check_identifier(field: str, value: str) -> str:
    """Return ``value`` if it may be part of a file name. Raises InvalidSpec for ``field`` otherwise."""
    return _check(field, value, IDENTIFIER_PATTERN)


def _check(field: str, value: str, pattern: str) -> str:
    if not re.fullmatch(pattern, value):
        raise InvalidSpec(field, value, f"a name matching ^{pattern}$")
    return value
