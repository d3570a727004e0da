"""The causes of a driver's end: a failure of its query, or an end without an exit record that others observed."""

from __future__ import annotations

from typing import Final

from sessionizer.causes.cause import PLAIN_SPARK, TERMINAL, TRANSIENT, UNCLEAR, Cause

QUERY_CAUSES: Final = (
    Cause(
        "unreachable", "something that it needs does not answer", TRANSIENT,
        "see that what the message names answers: a broker, a store, a name node",
    ),
    Cause("disk_full", "a disk is full", TRANSIENT, "free some space; the stream then goes on where it was"),
    Cause(
        "memory", "memory ran out", UNCLEAR,
        "give the driver more memory (SPARK_DRIVER_MEMORY, spark.driver.memory) or let a batch bring less "
        "(source.options)",
    ),
    Cause(
        "lease_lost", "another query writes to its checkpoint", TRANSIENT,
        "find that query and end it: a driver that sees this home by another path, or one started by hand",
    ),
    Cause(
        "source_data_loss", "the source has lost events", TERMINAL,
        "`sessionizer switch --accept-loss …` shows what is lost, and goes on from the earliest events that there are",
    ),
    Cause(
        "source_forbidden", "the source may not be read", TERMINAL,
        "grant the right to read it, or correct the credentials in the spec (`sessionizer spec check --deep …` proves "
        "it)",
    ),
    Cause(
        "source_missing", "a topic is not there", UNCLEAR,
        "see whether the topic was deleted: `sessionizer spec check --deep …` names it",
    ),
    Cause(
        "source_rewritten", "the source was rewritten", TERMINAL,
        "rows of the source were changed or deleted. To pass over such commits, write skipChangeCommits: true into "
        "source.options and `sessionizer run --apply …`. To read the rows as they are now, "
        "`sessionizer seed --history source --start-over …`",
    ),
    Cause(
        "state_not_at_head", "the state does not match the checkpoint", TERMINAL,
        "the checkpoint lacks state: `sessionizer checkpoint inspect` names the file. Do not edit it: go back to a "
        "savepoint (`sessionizer restore`)",
    ),
    Cause(
        "state_refused", "Spark refuses the state", TERMINAL,
        "take back the change of Spark's version or settings: the state was written with others",
    ),
    Cause(
        "schema_change", "columns have changed", TERMINAL,
        "undo the change of the columns, or begin anew with it: `sessionizer seed --history source --start-over …`",
    ),
    Cause("bad_option", "an option is refused", TERMINAL, "correct the option in source.options"),
    Cause(
        "bad_data", "a file cannot be read", TERMINAL,
        "repair the file that the message names; without one that is gone `sessionizer switch --accept-loss …` goes on",
    ),
    Cause(
        "driver_jvm_died", "the driver's JVM ended", UNCLEAR,
        "look for the JVM's last words (memory, kill) in the driver's log",
    ),
    Cause(
        "state_silent", "the state store failed", UNCLEAR,
        "look for a full disk or a machine under load in the driver's log",
    ),
    Cause(
        "python_worker_late", "a Python worker did not come up in time", TRANSIENT,
        "nothing, if it passes: the machine is busy. If it comes again, give the machine less to do, or more cores",
    ),
    Cause("executor_lost", "an executor was lost", TRANSIENT, "look for memory or machine trouble in the driver's log"),
    Cause("private_door", "this Spark or Delta has moved what is private in it", TERMINAL, PLAIN_SPARK),
    Cause("unknown", "it is not known why", UNCLEAR, "read the driver's log: it has the whole story"),
)  # fmt: skip
"""Causes of a query's death, as ``sessionizer.spark.failures.query_failure`` names them."""

KILLED: Final = Cause(
    "killed",
    "it left no exit record",
    UNCLEAR,
    "find out who ended it: the machine's memory killer, a person, a reboot",
)
HUNG: Final = Cause("hung", "it was silent", UNCLEAR, "look for what its log says about that time")
NO_PROGRESS: Final = Cause(
    "no_progress", "its batch did not get on", UNCLEAR,
    "look at the running batch in the Spark UI or in its log: a task that hangs, or what it waits for",
)  # fmt: skip
NO_START: Final = Cause("no_start", "it came to no batch", UNCLEAR, "look in its log for what it waited for")
HALF_GONE: Final = Cause(
    "half_gone", "a part of it had ended", UNCLEAR, "look in its log for memory, or who ended the rest"
)
NOT_LEAVING: Final = Cause("not_leaving", "it did not end", UNCLEAR, "look in its log for what kept it from ending")
OUT_OF_SIGHT: Final = Cause(
    "out_of_sight", "its machine is gone", UNCLEAR,
    "see what became of the machine or container that it ran on",
)  # fmt: skip
PROCESS_CAUSES: Final = (KILLED, HUNG, NO_PROGRESS, NO_START, HALF_GONE, NOT_LEAVING, OUT_OF_SIGHT)
"""Causes for drivers that did not end by themselves, or left no exit record."""
