"""Causes: what each is called, whether a retry helps, what to do. Here are those of a driver's end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sessionizer.errors import DiskFull, PrivateDoorBroken, Verdict


@dataclass(frozen=True, slots=True)
class Cause:
    """The cause of an error or of a driver's end.

    ``name`` is the word in exit records. ``called`` is its name in a sentence. ``remedy`` is a line of advice.
    ``for_good``: the stream is over, and nothing is to be started again.
    """

    name: str
    called: str
    verdict: Verdict
    remedy: str
    for_good: bool = False


TERMINAL, TRANSIENT, UNCLEAR = Verdict

_NAMELESS: Final = " …`"
"""End of a command in a remedy that takes the name of the stream."""


def name_stream(remedy: str, stream: str) -> str:
    """Return the ``remedy`` with its commands as they are typed for ``stream``."""
    return remedy.replace(_NAMELESS, f" {stream}`")


QUERY_CAUSES: Final = (
    Cause(
        "unreachable", "a service that it needs does not answer", TRANSIENT,
        "check that the broker, store or name node in the message answers",
    ),
    Cause("disk_full", DiskFull.title, TRANSIENT, DiskFull.remedy),
    Cause(
        "memory", "memory ran out", UNCLEAR,
        "give the driver more memory (SPARK_DRIVER_MEMORY, spark.driver.memory), or make batches smaller "
        "(source.options)",
    ),
    Cause(
        "lease_lost", "another query writes to its checkpoint", TRANSIENT,
        "find that query and end it: a driver that sees this home by another path, or one started by hand",
    ),
    Cause(
        "source_data_loss", "the source has lost events", TERMINAL,
        "run `sessionizer switch --accept-loss …`: it shows what is lost, and continues with the earliest events left",
    ),
    Cause(
        "source_forbidden", "the source may not be read", TERMINAL,
        "grant the right to read it, or correct the credentials in the spec. Then run "
        "`sessionizer spec check --deep …`",
    ),
    Cause(
        "source_missing", "a topic is not there", UNCLEAR,
        "run `sessionizer spec check --deep …`, which names the topic. Check whether it was deleted",
    ),
    Cause(
        "source_rewritten", "the source was rewritten", TERMINAL,
        "choose, because rows of the source were changed or deleted. To skip such commits, write "
        "skipChangeCommits: true into source.options and run `sessionizer run --apply …`. To read the rows as they "
        "are now, run `sessionizer seed --history source --start-over …`",
    ),
    Cause(
        "state_not_at_head", "the state does not match the checkpoint", TERMINAL,
        "restore a savepoint (`sessionizer restore`), because the checkpoint lacks state. "
        "`sessionizer checkpoint inspect` names the file. Do not edit it",
    ),
    Cause(
        "state_refused", "Spark refuses the state", TERMINAL,
        "undo the change of Spark's version or settings, because the state was written with the earlier ones",
    ),
    Cause(
        "schema_change", "columns have changed", TERMINAL,
        "undo the change of the columns, or start over with it: `sessionizer seed --history source --start-over …`",
    ),
    Cause("bad_option", "an option is refused", TERMINAL, "correct the option in source.options"),
    Cause(
        "bad_data", "a file cannot be read", TERMINAL,
        "repair the file that the message names. If it is gone, continue without it: "
        "`sessionizer switch --accept-loss …`",
    ),
    Cause(
        "driver_jvm_died", "the driver's JVM ended", UNCLEAR,
        "look in the end of the driver's log for why the JVM ended (memory, kill)",
    ),
    Cause(
        "state_silent", "the state store failed", UNCLEAR,
        "look in the driver's log for a full disk or an overloaded machine",
    ),
    Cause(
        "python_worker_late", "a Python worker did not come up in time", TRANSIENT,
        "do nothing if it passes, because the machine is busy. If it repeats, reduce the load or add cores",
    ),
    Cause(
        "executor_lost", "an executor was lost", TRANSIENT,
        "look in the driver's log for a lack of memory or a lost machine",
    ),
    Cause("private_door", PrivateDoorBroken.title, TERMINAL, PrivateDoorBroken.remedy),
    Cause("unknown", "the reason is unknown", UNCLEAR, "read the driver's log"),
)  # fmt: skip
"""Causes of a query's death, as ``sessionizer.spark.failures.query_failure`` names them."""

KILLED: Final = Cause(
    "killed",
    "it left no exit record",
    UNCLEAR,
    "find out what ended it: the machine's out-of-memory killer, a user, or a reboot",
)
HUNG: Final = Cause("hung", "it was silent", UNCLEAR, "look in its log at the time when its heartbeats ended")
NO_PROGRESS: Final = Cause(
    "no_progress", "its batch made no progress", UNCLEAR,
    "look at the running batch in the Spark UI or in its log: a task may hang or wait",
)  # fmt: skip
NO_START: Final = Cause("no_start", "it never began a batch", UNCLEAR, "look in its log for what it waited for")
HALF_GONE: Final = Cause(
    "half_gone", "one of its processes had ended", UNCLEAR, "look in its log for a lack of memory or a kill"
)
NOT_LEAVING: Final = Cause("not_leaving", "it did not end", UNCLEAR, "look in its log for what kept it from ending")
OUT_OF_SIGHT: Final = Cause(
    "out_of_sight", "its machine is gone", UNCLEAR,
    "check whether the machine or container that it ran on still exists",
)  # fmt: skip
PROCESS_CAUSES: Final = (KILLED, HUNG, NO_PROGRESS, NO_START, HALF_GONE, NOT_LEAVING, OUT_OF_SIGHT)
"""Causes for drivers that did not end by themselves, or left no exit record."""
