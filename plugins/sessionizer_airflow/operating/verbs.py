"""Operations that the form of ``sessionizer.operate`` offers, and the fields of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from sessionizer.home.names import IDENTIFIER_PATTERN

if TYPE_CHECKING:
    from collections.abc import Mapping


class Operation(StrEnum):
    """Operation that a user can request. Each is a command of that name."""

    SAVEPOINT = "savepoint"
    RESTORE = "restore"
    ROLLBACK = "rollback"
    RESCALE = "rescale"
    SWITCH = "switch"
    APPLY = "apply"
    SEED = "seed"

    @property
    def reads_spec(self) -> bool:
        """Whether the command reads the stream's file. The others use the spec that the stream runs by."""
        return self in {Operation.RESCALE, Operation.SWITCH, Operation.APPLY, Operation.SEED}


SAID: Final = {
    Operation.SAVEPOINT: "save what is open now",
    Operation.RESTORE: "go back to a savepoint",
    Operation.ROLLBACK: "go back to the lineage before the last change of the state",
    Operation.RESCALE: "divide the state anew",
    Operation.SWITCH: "go on with the source that the file names now",
    Operation.APPLY: "go on by the file's changed spec",
    Operation.SEED: "begin with a history",
}

_TEXT: Final = {"type": ["null", "string"], "maxLength": 1000}
_COUNT: Final = {"type": ["null", "integer"], "minimum": 1}
_YES: Final = {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Field:
    """Field of the form: the ``verbs`` need it and get it as ``option``. None if it is no option of theirs.

    A text of several lines becomes the option several times. ``schema``: of its value, in JSON schema. A field that the
    user leaves empty is null, or false.
    """

    verbs: tuple[Operation, ...]
    option: str | None
    title: str
    description: str
    schema: Mapping[str, Any] = field(default_factory=lambda: _TEXT)


FIELDS: Final[Mapping[str, Field]] = {
    "savepoint": Field(
        (Operation.RESTORE,),
        None,
        "Savepoint",
        "its id: the note of the run that made it has it, and sessionizer savepoint list STREAM shows all",
        {**_TEXT, "pattern": f"^({IDENTIFIER_PATTERN})?$"},
    ),
    "time": Field(
        (Operation.RESTORE,),
        "--time",
        "Or a time",
        "instead of an id, in the time zone of this page: the newest savepoint that is not after it",
        {"type": ["null", "string"], "format": "date-time"},
    ),
    "leave_out": Field(
        (Operation.RESTORE,),
        "--leave-out",
        "Leave out",
        "a range of the source in each line, whose rows go to quarantine. Files: a name or glob, or "
        "modified:2026-11-23T10:00/2026-11-23T11:00 for those that were changed last in that time (UTC). Kafka: "
        "topic:partition:from-to, or topic:2026-11-23T10:00/2026-11-23T11:00 for all its partitions. Delta: "
        "version:from-to. What follows the - or / is not in the range",
        {**_TEXT, "format": "multiline"},
    ),
    "folder": Field(
        (Operation.RESTORE,),
        "--in",
        "In",
        "where the savepoint is, if not with the stream's data: a folder or URI that holds a folder of savepoints per "
        "stream",
    ),
    "move_to": Field(
        (Operation.RESTORE,),
        "--move-to",
        "Move to",
        "another data root, a path or URI: the stream goes on there, and its tables are copied",
    ),
    "key_groups": Field(
        (Operation.RESCALE,), "--key-groups", "Key groups", "how many; empty: what the stream's file says", _COUNT
    ),
    "partitions": Field(
        (Operation.RESCALE,), "--partitions", "Partitions", "how many, each a task of a batch; empty: as it is", _COUNT
    ),
    "start_at": Field(
        (Operation.SWITCH,),
        "--start-at",
        "Where the new source begins",
        "earliest, latest, or a moment from which on, such as 2026-11-23T10:00 (UTC)",
        {**_TEXT, "examples": ["earliest", "latest"]},
    ),
    "accept_loss": Field(
        (Operation.SWITCH,),
        "--accept-loss",
        "Or accept the loss",
        "instead of a beginning: go on with the same source, without the events that are gone from it",
        _YES,
    ),
    "leave_unread": Field(
        (Operation.SWITCH,), "--leave-unread", "Leave unread", "also if the old source has more that was not read", _YES
    ),
    "new_lineage": Field(
        (Operation.APPLY,),
        "--new-lineage",
        "In a new lineage",
        "also where the one that it has could take the change: on trial, with a way back",
        _YES,
    ),
    "history": Field(
        (Operation.SEED,),
        "--history",
        "History",
        "a folder or URI of files or of a Delta table; jdbc:… for a database; source: what the stream's own source has",
        {**_TEXT, "examples": ["source"]},
    ),
    "table": Field((Operation.SEED,), "--table", "Table", "of a database: the name of a table or view"),
    "connection": Field(
        (Operation.SEED,),
        None,
        "Connection",
        "of a database: the id of the connection, in Airflow, that holds its user and password",
    ),
    "until": Field(
        (Operation.SEED,),
        "--until",
        "Up to",
        "in the time zone of this page; empty: as far as the history goes",
        {"type": ["null", "string"], "format": "date-time"},
    ),
    "live_from": Field(
        (Operation.SEED,),
        "--live-from",
        "Live from",
        "beginning, now, or the source's position as Spark writes it; empty: beginning, or where source ends",
        {**_TEXT, "examples": ["beginning", "now"]},
    ),
    "backfill": Field(
        (Operation.SEED,), "--backfill", "Back-fill", "write the finished sessions of the history into the tables", _YES
    ),
    "start_over": Field(
        (Operation.SEED,),
        "--start-over",
        "Start over",
        "leave the lineage that the stream has, and take back what it wrote",
        _YES,
    ),
    "trial": Field(
        (Operation.RESTORE, Operation.RESCALE, Operation.SWITCH, Operation.APPLY, Operation.SEED),
        "--trial",
        "Batches of the trial",
        "how many of the new lineage's first batches are judged against those before; 0: none; empty: 5",
        {"type": ["null", "integer"], "minimum": 0},
    ),
    "back_if_unfit": Field(
        (Operation.RESCALE, Operation.SWITCH, Operation.APPLY),
        "--back-if-unfit",
        "Back if unfit",
        "a lineage that does not pass its trial is left by itself, for the one before",
        _YES,
    ),
}
"""Fields by name, in the order of the form."""

REQUIRED: Final = {Operation.SWITCH: ("start_at",), Operation.SEED: ("history",)}
