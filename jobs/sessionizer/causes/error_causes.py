"""The cause of each of our errors, by the name of its class."""

from __future__ import annotations

from typing import Final

from sessionizer.causes.cause import PLAIN_SPARK, TERMINAL, TRANSIENT, UNCLEAR, Cause

ERROR_CAUSES: Final = (
    Cause("InvalidSpec", "the spec is wrong", TERMINAL, "correct the spec, then run `sessionizer spec check --deep`"),
    Cause("UnknownStream", "there is no spec", TERMINAL, "put the spec back into the folder of streams"),
    Cause(
        "DuplicateStream", "two specs have one name", TERMINAL,
        "keep one of the files, or rename the other stream and its file",
    ),
    Cause(
        "UnwritablePath", "a path cannot be written", TERMINAL,
        "make the path writable, or choose another: --home (SESSIONIZER_HOME) or sink.path in the spec",
    ),
    Cause(
        "LeaseHeld", "another driver has the lease", TRANSIENT,
        "look at the live driver with `sessionizer status`. End it with `sessionizer stop`",
    ),
    Cause("LeaseLost", "another driver took over", TRANSIENT, "do nothing: the other driver continues"),
    Cause(
        "DamagedFile", "a control file is damaged", TERMINAL,
        "restore the file from a copy, because no other file has its content. Without desired.json the desired "
        "state is RUNNING. You may delete spec.json if the stream's file is the spec that last ran",
    ),
    Cause("PrivateDoorBroken", "a private part of Spark or Delta has moved", TERMINAL, PLAIN_SPARK),
    Cause("DiskFull", "a disk is full", TRANSIENT, "free some space. The stream then resumes"),
    Cause(
        "TableOwned", "another stream owns a table", TERMINAL,
        "give sink.path a folder of its own, because a table takes the sessions of one stream of one home",
    ),
    Cause(
        "DataOwned", "another home has this stream", TERMINAL,
        "give this home a data root of its own (SESSIONIZER_DATA), or run the stream from the other home",
    ),
    Cause(
        "StreamDrained", "the stream was drained", TERMINAL,
        "do nothing if the stream is meant to be over. To run it in portions, use `--until caught-up` instead of "
        "drained. To read all events again, start over under another name, or in another home with another "
        "sink.path",
        for_good=True,
    ),
    Cause(
        "UnreadableLineage", "another release made the checkpoint", TERMINAL,
        "continue the stream with the release that made the checkpoint. Or make a canonical savepoint with that "
        "release, `sessionizer savepoint create … --stop`, and restore it here. Nothing was changed",
    ),
    Cause(
        "EngineChanged", "another line of Spark or Delta is installed", TERMINAL,
        "install the line that made the checkpoint, or carry the open sessions over: `sessionizer upgrade …` shows the "
        "steps. Nothing was changed",
    ),
    Cause(
        "NotAccepted", "a difference must be accepted by name", TERMINAL,
        "read the plan (`sessionizer upgrade …`), then declare a migration or accept each named difference. Nothing "
        "was changed",
    ),
    Cause(
        "OperationPending", "an operation is not finished", TERMINAL,
        "run the command that `sessionizer status` shows: it resumes where it was. Or give it up with `sessionizer "
        "abandon …`",
    ),
    Cause(
        "StreamMovedOn", "the stream has changed since the plan", TERMINAL,
        "look at the plan again and approve its new digest. Nothing was changed",
    ),
    Cause(
        "OperationPastReturn", "the operation can only be completed", TERMINAL,
        "run the command that `sessionizer status` shows: it resumes where it was",
    ),
    Cause(
        "StreamRunsAgain", "the stream was started again", TERMINAL,
        "keep the stream stopped (in Airflow: run its stop), then make the savepoint again. A savepoint that was "
        "made is complete, but the stream has read on since",
    ),
    Cause(
        "MigrationRefused", "a migration of open events cannot be applied", TERMINAL,
        "run `sessionizer migration list …` to see which are applied. Nothing was changed",
    ),
    Cause(
        "UnknownSavepoint", "there is no such savepoint", TERMINAL,
        "choose a savepoint that `sessionizer savepoint list` shows. Use `--in` for another folder",
    ),
    Cause(
        "UnusableSavepoint", "the savepoint cannot be used", TERMINAL,
        "use another complete savepoint (`sessionizer savepoint list`), or make a new one (`sessionizer savepoint "
        "create`)",
    ),
    Cause(
        "HalfWrittenBatch", "a batch is half-written", TERMINAL,
        "finish that batch with the spec it was begun with: `sessionizer run … --until caught-up`",
    ),
    Cause(
        "UnfaithfulState", "a new lineage came out wrong", TERMINAL,
        "resume the stream, which is unchanged. Keep the new checkpoint and this message, and report them as a bug",
    ),
    Cause(
        "NothingToSave", "there is nothing to save", TERMINAL,
        "run the stream until it has committed a batch: `sessionizer run`",
    ),
    Cause(
        "NothingToProve", "no batch can be replayed", TERMINAL,
        "let the stream run some more batches, keep their events in the source, then prove again",
    ),
    Cause(
        "ReplayDiffers", "a replay gives other rows", TERMINAL,
        "read the differences in the report. Correct the release or the spec before the stream runs by it. Nothing was "
        "changed",
    ),
    Cause(
        "NothingToShow", "there is nothing to show", TERMINAL,
        "run `sessionizer state timeline` to list the batches that are kept. A stream that never ran has none",
    ),
    Cause(
        "DamagedCheckpoint", "the checkpoint is damaged", TERMINAL,
        "stop the query. Then do what each finding says, on a copy of the checkpoint first",
    ),
    Cause(
        "BatchOutrun", "the stream was faster", TRANSIENT,
        "make another savepoint. If that happens repeatedly, stop the stream for it: `sessionizer savepoint create "
        "--stop`",
    ),
    Cause(
        "DataElsewhere", "the data root is another one", TERMINAL,
        "set SESSIONIZER_DATA (or --data) to the data root of the lineage. Unset it if that is the home. Nothing "
        "was changed",
    ),
    Cause(
        "StreamBegun", "the stream has begun already", TERMINAL,
        "add `--start-over`, which leaves the stream's lineage and deletes what it wrote. To keep both, use another "
        "name or home",
    ),
    Cause(
        "NoWayBack", "the lineage before cannot be resumed", TERMINAL,
        "restore a savepoint instead (`sessionizer savepoint list`, `sessionizer restore`). Nothing was changed",
    ),
    Cause(
        "LineageUnfit", "a lineage failed its canary", TERMINAL,
        "run `sessionizer rollback …` to return to the lineage before, or `sessionizer promote …` to promote this "
        "one",
    ),
    Cause(
        "LineageLeft", "a lineage failed its canary", UNCLEAR,
        "start the stream again, as a supervisor does: the next driver rolls back to the lineage before. The failed "
        "one is kept so that you can inspect it",
    ),
    Cause("PlanChanged", "the plan has changed", TERMINAL, "look at the plan again and approve its new digest"),
    Cause(
        "EventsGone", "events are no longer in the source", TERMINAL,
        "put back what the plan names, or restore a savepoint that needs none of it (`sessionizer savepoint list`)",
    ),
    Cause(
        "EventsUnread", "the old source has more", TERMINAL,
        "let the stream read the old source to its end, then switch. Or add --leave-unread, which loses the events "
        "that only the old source has. Nothing was changed",
    ),
    Cause(
        "RowsGone", "deleted rows cannot come back", TERMINAL,
        "restore another savepoint (`sessionizer savepoint list`), one of the active lineage if there is one. Or "
        "start over from the source: `sessionizer seed … --history source --backfill --start-over`. Nothing was "
        "changed",
    ),
    Cause(
        "SourceMissing", "the source is not there", TERMINAL,
        "create it, or correct the field in the spec and run `sessionizer spec check --deep …`. A stream that has "
        "begun can continue with another source: `sessionizer switch --start-at earliest …`",
    ),
    Cause(
        "SourceForbidden", "the source may not be read", TERMINAL,
        "grant the right to read it, or correct the credentials in the spec. Then run `sessionizer spec check "
        "--deep …`",
    ),
    Cause(
        "SourceReplaced", "the source was replaced", TERMINAL,
        "run `sessionizer switch --accept-loss …`: it shows what is lost, and continues with the source that is "
        "there now",
    ),
    Cause(
        "RowsLeft", "rows came back", TERMINAL,
        "find the job that writes into the table (the table's history names it) and stop it. Then run the same "
        "command again",
    ),
    Cause(
        "StateBehindTables", "the state is older than its tables", TERMINAL,
        "put back the newer home and data. If they are lost, continue from the older state: run `sessionizer "
        "savepoint create …`, then `sessionizer restore … SAVEPOINT`. The restore deletes the later rows and reads "
        "their events again",
    ),
    Cause(
        "RowsMissing", "a table lacks rows", TERMINAL,
        "put the table back, or restore a savepoint from before (`sessionizer savepoint list`). To continue without "
        "the rows: `sessionizer run … --accept-tables`",
    ),
    Cause(
        "DataAway", "its data is not there", TRANSIENT,
        "mount what the message names. If a table is gone for good, `sessionizer run … --accept-tables` makes it "
        "anew. If a checkpoint is gone, restore a savepoint (`sessionizer savepoint list`)",
    ),
    Cause(
        "HomeCopied", "the home is a copy", TERMINAL,
        "run `sessionizer home --moved-here` if the home was moved and its old place is no longer in use. Give a "
        "copy places of its own: SESSIONIZER_DATA, and sink.path in the specs",
    ),
    Cause(
        "HomeNotShared", "the home is not shared", TERMINAL,
        "mount the home (SESSIONIZER_HOME) at the same path on each machine that runs drivers "
        "(docs/spark-clusters.md)",
    ),
    Cause(
        "ExecutorsUnfit", "the executors lack something", TERMINAL,
        "give the cluster's machines the driver's Python with the packages of requirements.lock "
        "(spark.pyspark.python). Set SESSIONIZER_DATA to a place that all of them can write "
        "(docs/spark-clusters.md)",
    ),
    Cause(
        "SourceFilesGone", "files of the source are gone", TERMINAL,
        "put the files that the message names back under the same names. If they are gone for good, make an empty "
        "file of each name (`touch`): the stream then continues without their events",
    ),
    Cause(
        "SourceFileUnfit", "a file cannot be read", TERMINAL,
        "repair the file that the message names, or move it out of the folder",
    ),
    Cause(
        "SourceUnreachable", "the source does not answer", TRANSIENT,
        "start the server at the address in the message, or correct source in the spec",
    ),
    Cause(
        "JarsNotFetched", "the jars could not be fetched", TRANSIENT,
        "run it again with Java on the PATH, access to Maven Central, and the Python that has PySpark. Or copy the "
        "jars from another machine, and set SESSIONIZER_JARS to their folder",
    ),
    Cause(
        "ControlUnreachable", "the control directory cannot be reached", TRANSIENT,
        "check the mount and the limit of open files",
    ),
    Cause(
        "DriverStillRuns", "a driver has not ended yet", TRANSIENT,
        "wait until its batch is over (`sessionizer status`), then try again. Or wait longer with --wait",
    ),
    Cause("SessionizerError", "the command failed", UNCLEAR, "correct what the message says, then try again"),
    Cause("TerminalError", "the command is refused", TERMINAL, "correct what the message says"),
    Cause("TransientError", "a service does not answer", TRANSIENT, "check the service that the message names"),
)  # fmt: skip
"""Causes by the name of the error's class, for a driver that had no query yet."""
