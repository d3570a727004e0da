"""The cause of each of our errors, by the name of its class."""

from __future__ import annotations

from typing import Final

from sessionizer.causes.cause import PLAIN_SPARK, TERMINAL, TRANSIENT, UNCLEAR, Cause

ERROR_CAUSES: Final = (
    Cause("InvalidSpec", "the spec is wrong", TERMINAL, "correct the spec; `sessionizer spec check --deep` proves it"),
    Cause("UnknownStream", "there is no spec", TERMINAL, "put the spec back into the folder of streams"),
    Cause(
        "DuplicateStream", "two specs have one name", TERMINAL,
        "keep one of the files, or give the other stream and its file another name",
    ),
    Cause(
        "UnwritablePath", "a path cannot be written", TERMINAL,
        "make the path in the message writable, or choose another place: --home (SESSIONIZER_HOME) or sink.path "
        "in the spec",
    ),
    Cause(
        "LeaseHeld", "another driver has the lease", TRANSIENT,
        "`sessionizer status` shows the live driver, `sessionizer stop` ends it",
    ),
    Cause("LeaseLost", "another driver took over", TRANSIENT, "nothing to do: the other driver goes on"),
    Cause(
        "DamagedFile", "a control file is damaged", TERMINAL,
        "restore the file in the message from a copy; nothing else knows what it said (without a desired.json the "
        "stream is wanted RUNNING; a spec.json may be removed if the stream's file says what it ran by)",
    ),
    Cause("PrivateDoorBroken", "this Spark or Delta has moved what is private in it", TERMINAL, PLAIN_SPARK),
    Cause("DiskFull", "a disk is full", TRANSIENT, "free some space; the stream then goes on where it was"),
    Cause(
        "TableOwned", "another stream owns a table", TERMINAL,
        "give sink.path a folder of its own; a table takes the sessions of one stream of one home",
    ),
    Cause(
        "DataOwned", "another home has this stream", TERMINAL,
        "give this home a data root of its own (SESSIONIZER_DATA), or have the other home run the stream",
    ),
    Cause(
        "StreamDrained", "the stream was drained", TERMINAL,
        "it needs no further run; for runs that go on where the last one ended use `--until caught-up`. To read all "
        "again, start over: another name, or another home (and sink.path)",
        for_good=True,
    ),
    Cause(
        "UnreadableLineage", "another release made the checkpoint", TERMINAL,
        "have the release that made it go on with the stream, or end it there (`sessionizer run … --until drained` "
        "closes every session for good) and start over here: another name, or another home (and sink.path). Nothing "
        "was changed",
    ),
    Cause(
        "EngineChanged", "another line of Spark or Delta is installed", TERMINAL,
        "install the line that it runs by, or carry its open sessions over: `sessionizer upgrade …` shows what that "
        "takes. Nothing was changed",
    ),
    Cause(
        "OperationPending", "a change of its state is not over", TERMINAL,
        "finish it: type the same command again, which `sessionizer status` shows; it goes on where it was. Or give it "
        "up: `sessionizer abandon …`",
    ),
    Cause(
        "StreamMovedOn", "the stream was changed since", TERMINAL,
        "look at the plan again, and approve the digest that it has now. Nothing was changed",
    ),
    Cause(
        "OperationPastReturn", "the operation can only go on", TERMINAL,
        "type the command that `sessionizer status` shows: it goes on where it was",
    ),
    Cause(
        "StreamRunsAgain", "the stream was started again", TERMINAL,
        "keep it stopped (in Airflow: run its stop), then make the savepoint again. One that was made is complete, but "
        "the stream has read on since",
    ),
    Cause(
        "UnknownSavepoint", "there is no such savepoint", TERMINAL,
        "`sessionizer savepoint list` shows those that there are; `--in` names another folder",
    ),
    Cause(
        "UnusableSavepoint", "the savepoint cannot be used", TERMINAL,
        "go on from another complete one (`sessionizer savepoint list`), or make a new one (`savepoint create`)",
    ),
    Cause(
        "HalfWrittenBatch", "a batch is half-written", TERMINAL,
        "let it finish that batch by the spec that it ran by: `sessionizer run … --until caught-up`",
    ),
    Cause(
        "UnfaithfulState", "a new lineage came out wrong", TERMINAL,
        "the stream is as it was and can go on; keep its checkpoint and the message for whoever maintains this",
    ),
    Cause(
        "NothingToSave", "there is nothing to save", TERMINAL,
        "let the stream run until a batch of it is over: `sessionizer run`",
    ),
    Cause(
        "NothingToShow", "there is nothing to show", TERMINAL,
        "`sessionizer state timeline` shows the batches that are kept; a stream that never ran has none",
    ),
    Cause(
        "DamagedCheckpoint", "the checkpoint is damaged", TERMINAL,
        "stop the query; then do what stands with each finding, on a copy of the checkpoint first",
    ),
    Cause(
        "BatchOutrun", "the stream was faster", TRANSIENT,
        "make another one; if that happens again and again, make it with a stop (`savepoint create --stop`)",
    ),
    Cause(
        "DataElsewhere", "the data root is another one", TERMINAL,
        "set SESSIONIZER_DATA (or --data) to where the lineage has its data, and unset it where that is the home. "
        "Nothing was changed",
    ),
    Cause(
        "StreamBegun", "the stream has begun already", TERMINAL,
        "`--start-over` leaves its lineage and deletes what it wrote; another name, or another home, leaves both",
    ),
    Cause(
        "NoWayBack", "the lineage before cannot go on", TERMINAL,
        "go back to a savepoint instead (`sessionizer savepoint list`, `sessionizer restore`). Nothing was changed",
    ),
    Cause(
        "LineageUnfit", "a lineage did not pass its trial", TERMINAL,
        "`sessionizer rollback …` leads to the lineage before, `sessionizer accept …` goes on with this one",
    ),
    Cause(
        "LineageLeft", "a lineage did not pass its trial", UNCLEAR,
        "have it started again, as a supervisor does: its next driver goes back to the lineage before, and on from "
        "there; the one that failed is kept, for a look at it",
    ),
    Cause(
        "PlanChanged", "the plan has changed", TERMINAL, "look at the plan again, and approve the digest it has now",
    ),
    Cause(
        "EventsGone", "events are no longer in the source", TERMINAL,
        "put back what the plan names, or go back to a savepoint that needs none of it (`sessionizer savepoint list`)",
    ),
    Cause(
        "EventsUnread", "the old source has more", TERMINAL,
        "let the stream read the old source to its end and switch then, or add --leave-unread: what only the old "
        "source has of them is lost. Nothing was changed",
    ),
    Cause(
        "RowsGone", "deleted rows cannot come back", TERMINAL,
        "restore another savepoint (`sessionizer savepoint list`), one of the lineage that is active now if there is "
        "one. Or begin anew from the source: `sessionizer seed … --history source --backfill --start-over`. Nothing "
        "was changed",
    ),
    Cause(
        "SourceMissing", "the source is not there", TERMINAL,
        "create it, or correct the field in the spec (`sessionizer spec check --deep …` proves it); of a stream that "
        "has begun, `sessionizer switch --start-at earliest …` goes on with another one",
    ),
    Cause(
        "SourceForbidden", "the source may not be read", TERMINAL,
        "grant the right to read it, or correct the credentials in the spec (`sessionizer spec check --deep …` proves "
        "it)",
    ),
    Cause(
        "SourceReplaced", "the source was made anew", TERMINAL,
        "`sessionizer switch --accept-loss …` shows what is lost, and goes on with the one that is there now",
    ),
    Cause(
        "RowsLeft", "rows came back", TERMINAL,
        "find who writes into the table (its history names them) and end that; then type the same command again",
    ),
    Cause(
        "StateBehindTables", "the state is older than its tables", TERMINAL,
        "put back the newer home and data; if they are lost, go on from the older state: `sessionizer savepoint create "
        "…`, then `sessionizer restore … SAVEPOINT`, which deletes the later rows and reads their events again",
    ),
    Cause(
        "RowsMissing", "a table lacks rows", TERMINAL,
        "put the table back, or restore a savepoint from before (`sessionizer savepoint list`); if the rows need not "
        "come back: `sessionizer run … --accept-tables`",
    ),
    Cause(
        "DataAway", "its data is not there", TRANSIENT,
        "mount what the message names; a table that is gone for good is made anew by `sessionizer run … "
        "--accept-tables`, a checkpoint never: then restore a savepoint (`sessionizer savepoint list`)",
    ),
    Cause(
        "HomeCopied", "the home is a copy", TERMINAL,
        "if the home was moved and its old place is no longer in use: `sessionizer home --moved-here`; a copy needs "
        "places of its own: SESSIONIZER_DATA, and sink.path in the specs",
    ),
    Cause(
        "HomeNotShared", "the home is not shared", TERMINAL,
        "mount the home (SESSIONIZER_HOME) at the same path on the machines that run drivers (docs/spark-clusters.md)",
    ),
    Cause(
        "ExecutorsUnfit", "the executors lack something", TERMINAL,
        "give the cluster's machines the driver's Python with the packages of requirements.lock "
        "(spark.pyspark.python), and SESSIONIZER_DATA a place that all of them write (docs/spark-clusters.md)",
    ),
    Cause(
        "SourceFilesGone", "files of the source are gone", TERMINAL,
        "put the files that the message names back, under the same names; if they are gone for good, make an empty "
        "file of each name (`touch`): the stream goes on without their events",
    ),
    Cause(
        "SourceFileUnfit", "a file cannot be read", TERMINAL,
        "repair the file that the message names, or move it out of the folder",
    ),
    Cause(
        "SourceUnreachable", "the source does not answer", TRANSIENT,
        "start what should answer at the address in the message, or correct source in the spec",
    ),
    Cause(
        "ControlUnreachable", "the control directory cannot be reached", TRANSIENT,
        "check the mount and the limit of open files",
    ),
    Cause(
        "DriverStillRuns", "a driver has not ended yet", TRANSIENT,
        "wait until its batch is over (`sessionizer status`), then try again, or give it longer (--wait)",
    ),
    Cause("SessionizerError", "it failed", UNCLEAR, "correct what the message says, then try again"),
    Cause("TerminalError", "it is refused", TERMINAL, "correct what the message says"),
    Cause("TransientError", "something does not answer", TRANSIENT, "see to what the message names"),
)  # fmt: skip
"""Causes by the name of the error's class, for a driver that had no query yet."""
