"""Everything this module raises on purpose.

::

    SessionizerError
    ├── TerminalError            a retry cannot help
    │   ├── InvalidSpec          a field of a stream spec
    │   ├── UnknownStream        no spec of that name
    │   ├── DuplicateStream      two specs of one name
    │   ├── UnwritablePath       a directory we must write to
    │   ├── LeaseHeld            another live driver owns the stream
    │   ├── LeaseLost            this driver was replaced: it writes nothing more
    │   ├── TableOwned           a table that another stream writes
    │   ├── DataOwned            a stream's data that the same stream of another home writes
    │   ├── StreamDrained        a stream whose every session was closed for good
    │   ├── UnreadableLineage    a checkpoint of another release or stream
    │   ├── OperationPending     a restore or the like that was begun and is not over
    │   ├── UnknownSavepoint     no savepoint of that id
    │   ├── UnusableSavepoint    a savepoint that nothing can be started from
    │   ├── NothingToSave        a stream without a batch that a savepoint could be of
    │   ├── NothingToShow        a stream without a batch that could be looked into
    │   ├── DamagedCheckpoint    a checkpoint with a file that is cut, changed or gone
    │   ├── DataElsewhere        a lineage whose data root is not the one that is given
    │   ├── HalfWrittenBatch     a batch that must be finished before the state can go elsewhere
    │   ├── UnfaithfulState      a new lineage that does not hold what it was given
    │   ├── StreamBegun          a stream that cannot begin with a history, as it has begun
    │   ├── NoWayBack            a lineage whose predecessor cannot go on
    │   ├── LineageUnfit         a lineage that did not pass its trial, for a person to decide about
    │   ├── PlanChanged          a plan that is not the one that was approved
    │   ├── StreamMovedOn        a stream that was changed since the plan of a command was made
    │   ├── OperationPastReturn  an operation that can only go on to its end
    │   ├── StreamRunsAgain      a stream that was started while a savepoint needed it stopped
    │   ├── EventsGone           what a restore would have to read again is no longer in the source
    │   ├── EventsUnread         what a switch would leave in the old source
    │   ├── RowsGone             rows that should come back into a table cannot be read any more
    │   ├── SourceMissing        a topic that the broker does not have
    │   ├── SourceForbidden      a topic that the driver may not read
    │   ├── SourceReplaced       a topic or table that was made anew under its old name
    │   ├── RowsLeft             rows that were to leave a table and are there again
    │   ├── StateBehindTables    a state that is older than the tables that it writes
    │   ├── RowsMissing          a table without rows that the stream wrote
    │   ├── HomeCopied           a home that was copied, or moved, and writes outside of itself
    │   ├── HomeNotShared        a driver whose home is not that of its launcher
    │   ├── ExecutorsUnfit       executors without a package, with another Python, or writing elsewhere
    │   ├── SourceFilesGone      files of the source that a batch needs and that are gone
    │   ├── SourceFileUnfit      a file of a history that cannot be read
    │   ├── DamagedFile          a control file whose content is lost, and must not be guessed
    │   ├── PrivateDoorBroken    this Spark or Delta no longer has what is used of it without a public name
    │   └── QueryFailed          the streaming query failed, and would again
    └── TransientError           the same call may succeed later
        ├── ControlUnreachable   the control directory cannot be reached just now
        ├── DataAway             a table or a checkpoint that is not where it was
        ├── DriverStillRuns      a driver that was asked to stop and has not ended yet
        ├── LineageLeft          a lineage that did not pass its trial: the next driver goes back by itself
        ├── DiskFull             a path that has no room just now
        ├── BatchOutrun          a running stream no longer keeps the batch that is being saved
        ├── StoreUnreachable     a store or name node that does not answer
        ├── SourceUnreachable    a broker or socket that does not answer
        └── QueryInterrupted     the streaming query failed through its surroundings (disk, memory, network)

The facts are fields; the message is composed from them. What to do about it is not said here but at the edge
(``sessionizer.causes.remedies``), where it is known who reads it.
"""

from __future__ import annotations

from sessionizer.errors.drivers import (
    DataOwned,
    DriverStillRuns,
    LeaseHeld,
    LeaseLost,
    PrivateDoorBroken,
    QueryFailed,
    QueryInterrupted,
    TableOwned,
)
from sessionizer.errors.of_state import (
    BatchOutrun,
    DamagedCheckpoint,
    DataElsewhere,
    EventsGone,
    EventsUnread,
    HalfWrittenBatch,
    LineageLeft,
    LineageUnfit,
    NothingToSave,
    NothingToShow,
    NoWayBack,
    OperationPastReturn,
    OperationPending,
    PlanChanged,
    RowsGone,
    RowsLeft,
    StreamBegun,
    StreamDrained,
    StreamMovedOn,
    StreamRunsAgain,
    UnfaithfulState,
    UnknownSavepoint,
    UnreadableLineage,
    UnusableSavepoint,
)
from sessionizer.errors.of_tables import DataAway, HomeCopied, RowsMissing, StateBehindTables
from sessionizer.errors.sources import SourceForbidden, SourceMissing, SourceReplaced
from sessionizer.errors.specs import DuplicateStream, InvalidSpec, Misfits, UnknownStream, every_problem
from sessionizer.errors.surroundings import (
    ControlUnreachable,
    DamagedFile,
    DiskFull,
    ExecutorsUnfit,
    HomeNotShared,
    SourceFilesGone,
    SourceFileUnfit,
    SourceUnreachable,
    StoreUnreachable,
    UnwritablePath,
)
from sessionizer.errors.tree import SessionizerError, TerminalError, TransientError

__all__ = [
    "BatchOutrun",
    "ControlUnreachable",
    "DamagedCheckpoint",
    "DamagedFile",
    "DataAway",
    "DataElsewhere",
    "DataOwned",
    "DiskFull",
    "DriverStillRuns",
    "DuplicateStream",
    "EventsGone",
    "EventsUnread",
    "ExecutorsUnfit",
    "HalfWrittenBatch",
    "HomeCopied",
    "HomeNotShared",
    "InvalidSpec",
    "LeaseHeld",
    "LeaseLost",
    "LineageLeft",
    "LineageUnfit",
    "Misfits",
    "NoWayBack",
    "NothingToSave",
    "NothingToShow",
    "OperationPastReturn",
    "OperationPending",
    "PlanChanged",
    "PrivateDoorBroken",
    "QueryFailed",
    "QueryInterrupted",
    "RowsGone",
    "RowsLeft",
    "RowsMissing",
    "SessionizerError",
    "SourceFileUnfit",
    "SourceFilesGone",
    "SourceForbidden",
    "SourceMissing",
    "SourceReplaced",
    "SourceUnreachable",
    "StateBehindTables",
    "StoreUnreachable",
    "StreamBegun",
    "StreamDrained",
    "StreamMovedOn",
    "StreamRunsAgain",
    "TableOwned",
    "TerminalError",
    "TransientError",
    "UnfaithfulState",
    "UnknownSavepoint",
    "UnknownStream",
    "UnreadableLineage",
    "UnusableSavepoint",
    "UnwritablePath",
    "every_problem",
]
