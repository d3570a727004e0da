"""Why a driver ended or did not start: how each cause is called, whether trying again helps, and what to do.

There is one remedy for one cause, whoever tells it: ``status``, ``run``, the task log, an alert. How to go on
afterwards is added where it is known: the command line says ``sessionizer run``, Airflow says unpause.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Verdict(StrEnum):
    """Whether trying again helps."""

    TERMINAL = "terminal"
    """It would end the same way until somebody has changed something: it is not tried again."""
    TRANSIENT = "transient"
    """Its surroundings explain it. It is tried again for as long as they last, and never given up."""
    UNCLEAR = "unclear"
    """Another try may help. If several in a row do not, somebody has to look."""


@dataclass(frozen=True, slots=True)
class Cause:
    """``name`` is what exit records say; ``called`` is its name in a sentence; ``remedy`` is one line.

    ``for_good``: the stream is over, and nothing is to be started again.
    """

    name: str
    called: str
    verdict: Verdict
    remedy: str
    for_good: bool = False


TERMINAL, TRANSIENT, UNCLEAR = Verdict

PLAIN_SPARK: Final = (
    "set SESSIONIZER_PLAIN_SPARK=1 where drivers are started from: the public way everywhere, slower and as exact; or "
    "go back to the Spark and Delta of before"
)

OF_QUERIES: Final = (
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
        "events are gone from the source: decide what to do about them before you start it again",
    ),
    Cause(
        "source_rewritten", "the source was rewritten", TERMINAL,
        "the source is no longer only added to; if that is meant, say so in source.options "
        "(skipChangeCommits: true), else seed a new lineage",
    ),
    Cause(
        "state_not_at_head", "the state does not match the checkpoint", TERMINAL,
        "the checkpoint lacks state; do not edit it: seed a new lineage from what is known",
    ),
    Cause(
        "state_refused", "Spark refuses the state", TERMINAL,
        "take back the change of Spark's version or settings: the state was written with others",
    ),
    Cause(
        "schema_change", "columns have changed", TERMINAL,
        "undo the change of the columns, or start a new lineage with it",
    ),
    Cause("bad_option", "an option is refused", TERMINAL, "correct the option in source.options"),
    Cause("bad_data", "a file cannot be read", TERMINAL, "remove or repair the file that the message names"),
    Cause(
        "driver_jvm_died", "the driver's JVM ended", UNCLEAR,
        "look for the JVM's last words (memory, kill) in the driver's log",
    ),
    Cause(
        "state_silent", "the state store failed", UNCLEAR,
        "look for a full disk or a machine under load in the driver's log",
    ),
    Cause("executor_lost", "an executor was lost", TRANSIENT, "look for memory or machine trouble in the driver's log"),
    Cause("private_door", "this Spark or Delta has moved what is private in it", TERMINAL, PLAIN_SPARK),
    Cause("unknown", "it is not known why", UNCLEAR, "read the driver's log: it has the whole story"),
)  # fmt: skip
"""Of the death of a query, as ``sessionizer.spark.failures.query_failure`` names them."""

OF_ERRORS: Final = (
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
        "OperationPending", "a change of its state is not over", TERMINAL,
        "finish it: type the same command again (`sessionizer restore …`); it goes on where it was",
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
        "BatchOutrun", "the stream was faster", TRANSIENT,
        "make another one; if that happens again and again, make it with a stop (`savepoint create --stop`)",
    ),
    Cause(
        "DataElsewhere", "the data root is another one", TERMINAL,
        "set SESSIONIZER_DATA (or --data) to where the lineage has its data, and unset it where that is the home. "
        "Nothing was changed",
    ),
    Cause(
        "PlanChanged", "the plan has changed", TERMINAL, "look at the plan again, and approve the digest it has now",
    ),
    Cause(
        "EventsGone", "events are no longer in the source", TERMINAL,
        "put back what the plan names, or go back to a savepoint that needs none of it (`sessionizer savepoint list`)",
    ),
    Cause(
        "RowsLeft", "rows came back", TERMINAL,
        "find who writes into the table (its history names them) and end that; then type the same command again",
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
"""By the name of the error's class, of a driver that had no query yet."""

OF_STARTS: Final = (
    Cause(
        "no_java", "there is no Java", TERMINAL,
        "install Java 17 or 21 where the driver runs and set JAVA_HOME to it for Airflow's processes",
    ),
    Cause("old_java", "Java is too old", TERMINAL, "set JAVA_HOME to Java 17 or 21 for Airflow's processes"),
    Cause(
        "no_memory", "there is no memory for a driver", TRANSIENT,
        "free memory where the driver runs, or lower spark.driver.memory",
    ),
    Cause(
        "no_application", "there is no application", TERMINAL,
        "put the application there, or set SESSIONIZER_APPLICATION to where it is",
    ),
    Cause(
        "no_jar", "a jar is missing", TERMINAL,
        "run `make jars`, or set SESSIONIZER_JARS to the folder that has them",
    ),
    Cause("bad_master", "the Spark master is none", TERMINAL, "correct the host of the Spark connection"),
    Cause(
        "no_yarn_configuration", "YARN's configuration is missing", TERMINAL,
        "set HADOOP_CONF_DIR for Airflow's processes to the cluster's configuration",
    ),
    Cause(
        "cluster_unreachable", "the cluster does not answer", TRANSIENT,
        "start the cluster's master, or correct the host and port of the Spark connection",
    ),
    Cause(
        "no_resources", "the cluster has no room", TRANSIENT, "start workers, or free cores and memory in the cluster"
    ),
)  # fmt: skip
"""What keeps a driver from starting, by what it printed (``causes/start_problem.py``)."""

OF_LAUNCHES: Final = (
    Cause(
        "SparkConnectionMissing", "there is no Spark connection", TERMINAL,
        "`airflow connections add {error.name} --conn-type spark --conn-host <master>` (docs/spark-clusters.md)",
    ),
    Cause(
        "UnusableConnection", "the Spark connection is wrong", TERMINAL,
        "correct {error.field} of the connection {error.connection}",
    ),
    Cause(
        "KubernetesSupportMissing", "the client of Kubernetes is missing", TERMINAL,
        "pip install 'apache-airflow-providers-apache-spark[cncf-kubernetes]'",
    ),
    Cause(
        "ResourceManagerUnknown", "YARN's configuration is missing", TERMINAL,
        "set HADOOP_CONF_DIR for Airflow's processes to the cluster's configuration, or give the Spark "
        "connection the extra resource-manager, such as http://<host>:8088",
    ),
    Cause(
        "ProgramMissing", "a program is missing", TERMINAL,
        "install {error.program} for the Airflow worker, or put it on its PATH",
    ),
    Cause(
        "DriverOutOfReach", "a driver is out of reach", TRANSIENT,
        "end process {error.pid} on {error.host} (`kill -9 {error.pid}`), or make sure that {error.host} is down",
    ),
    Cause(
        "DriverWouldNotEnd", "a driver would not end", TRANSIENT,
        "see why it cannot be killed: a disk or mount that hangs",
    ),
    Cause(
        "ClusterUnreachable", "the cluster does not answer", TRANSIENT,
        "see that `{error.asked}` answers on the Airflow worker",
    ),
    Cause("OSError", "the system refuses something", TRANSIENT, "see to what the message names"),
)  # fmt: skip
"""By the name of the error's class, of launching and ending a driver; ``{error.…}`` are fields of the error."""

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
OF_PROCESSES: Final = (KILLED, HUNG, NO_PROGRESS, NO_START, HALF_GONE, NOT_LEAVING, OUT_OF_SIGHT)
"""Of drivers that did not end by themselves, or left no word."""

CAUSES: Final = {cause.name: cause for cause in (*OF_QUERIES, *OF_ERRORS, *OF_LAUNCHES, *OF_STARTS, *OF_PROCESSES)}
DISK_FULL_SIGNS: Final = ("No space left on device", "Disk quota exceeded")


def cause_of(name: str | None, message: str = "", *, terminal: bool = False) -> Cause:
    """The cause that an exit record or an error's class names. ``terminal`` decides about one that is not known."""
    if name == "UnwritablePath" and any(sign in message for sign in DISK_FULL_SIGNS):
        return CAUSES["disk_full"]
    known = CAUSES.get(name or "")
    if known is not None:
        return known
    return Cause(name or "unknown", "", TERMINAL, CAUSES["TerminalError"].remedy) if terminal else CAUSES["unknown"]
