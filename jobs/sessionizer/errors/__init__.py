"""The errors that this package raises on purpose.

::

    SessionizerError
    ├── TerminalError            a retry cannot help
    │   ├── InvalidSpec          a field of a stream spec
    │   ├── UnknownStream        no spec of that name
    │   ├── DuplicateStream      two specs of one name
    │   ├── UnwritablePath       a directory we must write to
    │   ├── LeaseHeld            another live driver owns the stream
    │   ├── LeaseLost            another driver replaced this one, which writes nothing more
    │   ├── TableOwned           a table that another stream writes
    │   ├── DataOwned            a stream's data that the same stream of another home writes
    │   ├── StreamDrained        a stream whose every session was closed for good
    │   ├── UnreadableLineage    a checkpoint of another release or stream
    │   ├── EngineChanged        a checkpoint of another line of Spark or Delta
    │   ├── NotAccepted          a difference that a user has not accepted by its name
    │   ├── OperationPending     an operation, such as a restore, that is not over
    │   ├── UnknownSavepoint     no savepoint of that id
    │   ├── UnusableSavepoint    a savepoint from which no stream can start
    │   ├── NothingToSave        a stream without a batch to make a savepoint of
    │   ├── NothingToShow        a stream without a batch to inspect
    │   ├── NothingToProve       a stream without a batch that could be replayed
    │   ├── ReplayDiffers        a replay of recorded batches that differs from the tables
    │   ├── DamagedCheckpoint    a checkpoint with a file that is cut, changed or gone
    │   ├── DataElsewhere        a lineage whose data is in another data root
    │   ├── HalfWrittenBatch     a batch that must be finished before the state can go elsewhere
    │   ├── UnfaithfulState      a new lineage that differs from the state that it was given
    │   ├── MigrationRefused     a migration that was edited once applied, or that does not fit the open events
    │   ├── StreamBegun          a stream that has begun already, so no history can precede it
    │   ├── NoWayBack            a lineage to whose predecessor the stream cannot go back
    │   ├── LineageUnfit         a lineage that failed its canary: a user decides
    │   ├── PlanChanged          a plan that differs from the approved one
    │   ├── StreamMovedOn        a stream that was changed since the plan of a command was made
    │   ├── OperationPastReturn  an operation that can only be completed
    │   ├── StreamRunsAgain      a stream that was started while a savepoint needed it stopped
    │   ├── EventsGone           events that a restore must read again and that left the source
    │   ├── EventsUnread         unread events that a switch would leave in the old source
    │   ├── RowsGone             deleted rows that cannot come back, because nothing can read them
    │   ├── SourceMissing        a topic that the broker does not have
    │   ├── SourceForbidden      a topic that the driver may not read
    │   ├── SourceReplaced       a topic or table that was made anew under its old name
    │   ├── RowsLeft             rows that a command deleted and that are there again
    │   ├── StateBehindTables    a state that is older than its tables
    │   ├── RowsMissing          a table without rows that the stream wrote
    │   ├── HomeCopied           a home that was copied, or moved, and writes outside of itself
    │   ├── HomeNotShared        a driver whose home is not its launcher's
    │   ├── ExecutorsUnfit       executors without a package, with another Python, or writing elsewhere
    │   ├── SourceFilesGone      files of the source that a batch needs and that are gone
    │   ├── SourceFileUnfit      a file of a history that cannot be read
    │   ├── DamagedFile          a control file whose content is lost, and must not be guessed
    │   ├── PrivateDoorBroken    a private part that this Spark or Delta no longer has
    │   └── QueryFailed          the streaming query failed, and would again
    └── TransientError           the same call may succeed later
        ├── ControlUnreachable   the control directory cannot be reached just now
        ├── DataAway             a table or a checkpoint that is not in its place
        ├── DriverStillRuns      a driver that was asked to stop and has not ended yet
        ├── LineageLeft          a lineage that failed its canary: the next driver rolls back
        ├── DiskFull             a path that has no room just now
        ├── BatchOutrun          a running stream no longer keeps the batch that is being saved
        ├── JarsNotFetched       the jars of drivers could not be fetched
        ├── StoreUnreachable     a store or name node that does not answer
        ├── SourceUnreachable    a broker or socket that does not answer
        └── QueryInterrupted     the streaming query failed through its surroundings (disk, memory, network)

The facts are fields, and the message is composed from them. The advice is added at the edge
(``sessionizer.causes.remedies``), which knows its reader.
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
from sessionizer.errors.proof_errors import NothingToProve, ReplayDiffers
from sessionizer.errors.sources import SourceForbidden, SourceMissing, SourceReplaced
from sessionizer.errors.specs import DuplicateStream, InvalidSpec, Misfits, UnknownStream, every_problem
from sessionizer.errors.state_errors import (
    BatchOutrun,
    DamagedCheckpoint,
    DataElsewhere,
    EngineChanged,
    EventsGone,
    EventsUnread,
    HalfWrittenBatch,
    LineageLeft,
    LineageUnfit,
    MigrationRefused,
    NotAccepted,
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
from sessionizer.errors.surroundings import (
    ControlUnreachable,
    DamagedFile,
    DiskFull,
    ExecutorsUnfit,
    HomeNotShared,
    JarsNotFetched,
    SourceFilesGone,
    SourceFileUnfit,
    SourceUnreachable,
    StoreUnreachable,
    UnwritablePath,
)
from sessionizer.errors.table_errors import DataAway, HomeCopied, RowsMissing, StateBehindTables
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
    "EngineChanged",
    "EventsGone",
    "EventsUnread",
    "ExecutorsUnfit",
    "HalfWrittenBatch",
    "HomeCopied",
    "HomeNotShared",
    "InvalidSpec",
    "JarsNotFetched",
    "LeaseHeld",
    "LeaseLost",
    "LineageLeft",
    "LineageUnfit",
    "MigrationRefused",
    "Misfits",
    "NoWayBack",
    "NotAccepted",
    "NothingToProve",
    "NothingToSave",
    "NothingToShow",
    "OperationPastReturn",
    "OperationPending",
    "PlanChanged",
    "PrivateDoorBroken",
    "QueryFailed",
    "QueryInterrupted",
    "ReplayDiffers",
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
