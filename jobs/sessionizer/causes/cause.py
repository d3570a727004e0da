"""Causes of a driver that others ended, or that never came to its first batch. Pure, but for the reading of a log.

The texts of a driver's output are those of the pinned Spark.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from sessionizer.errors import RetryEffect


@dataclass(frozen=True, slots=True)
class Cause:
    """The cause of an error or of a driver's end.

    ``name`` is the word in exit records. ``called`` is its name in a sentence. ``remedy`` is a line of advice.
    ``for_good``: the stream is over, and nothing is to be started again. ``of_any_lineage``: no rollback helps.
    ``symptoms``: what a driver that did not start prints, each with its description. ``is_vague``: a driver may have
    recorded it before its first batch while its output says more.
    """

    name: str
    called: str
    verdict: RetryEffect
    remedy: str
    for_good: bool = False
    of_any_lineage: bool = False
    symptoms: tuple[tuple[str, str], ...] = ()
    is_vague: bool = False


TERMINAL, TRANSIENT, UNCLEAR = RetryEffect


def name_stream(remedy: str, stream: str) -> str:
    """Return the ``remedy`` with its commands as they are typed for ``stream``, in place of the ellipsis."""
    return re.sub(r"`sessionizer [^`]*`", lambda command: command[0].replace("…", stream, 1), remedy)


KILLED: Final = Cause(
    "killed", "it left no exit record", UNCLEAR,
    "find out what ended it: the machine's out-of-memory killer, a user, or a reboot",
)  # fmt: skip
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


NO_JAVA: Final = Cause(
    "no_java", "Java is missing", TERMINAL,
    "install Java 17 or 21 where the driver runs and set JAVA_HOME to it for Airflow's processes",
    of_any_lineage=True,
    symptoms=(
        (r"^JAVA_HOME is not set", "there is no Java"),
        (r"(\S+/bin/java): No such file or directory", "there is no Java at {}"),
    ),
)  # fmt: skip
OLD_JAVA: Final = Cause(
    "old_java", "Java is too old", TERMINAL, "set JAVA_HOME to Java 17 or 21 for Airflow's processes",
    of_any_lineage=True,
    symptoms=((r"only recognizes class file versions up to (\d+)", "Java is too old (class files up to {})"),),
)  # fmt: skip
NO_MEMORY: Final = Cause(
    "no_memory", "memory for a driver is lacking", TRANSIENT,
    "free memory where the driver runs, or lower spark.driver.memory",
    symptoms=(
        (r"Could not reserve enough space for (\S+)", "no memory for {} of heap"),
        (r"There is insufficient memory for the Java Runtime", "no memory for Java"),
    ),
)  # fmt: skip
NO_APPLICATION: Final = Cause(
    "no_application", "the application is missing", TERMINAL,
    "put the application there, or set SESSIONIZER_APPLICATION to its path",
    symptoms=((r"can't open file '([^']+)'", "there is no application {}"),),
)  # fmt: skip
NO_JAR: Final = Cause(
    "no_jar", "a jar is missing", TERMINAL,
    "run `sessionizer jars fetch`, or set SESSIONIZER_JARS to the folder with the jars",
    symptoms=(
        (r"Local jar (\S+) does not exist", "there is no jar {}"),
        (r"Jar (\S+) not found", "there is no jar {}"),
        (r"ClassNotFoundException: (io\.delta\.\S+)", "no jar has {}"),
        (r"Failed to find the data source: (\w+)", "no jar has the data source {}"),
    ),
)  # fmt: skip
BROKEN_CODE: Final = Cause(
    "broken_code", "its code does not load", TERMINAL,
    "install the release again, with every package that it needs (`sessionizer doctor`)",
    symptoms=((r"^((?:ModuleNotFoundError|ImportError|SyntaxError): [^\n]+)", "its code fails with {}"),),
)  # fmt: skip
BAD_MASTER: Final = Cause(
    "bad_master", "the Spark master is invalid", TERMINAL, "correct the host of the Spark connection",
    of_any_lineage=True,
    symptoms=(
        (r"Could not parse Master URL: '([^']+)'", "{} is no Spark master"),
        (r"Invalid master URL: (\S+)", "{} is no Spark master: it lacks a port"),
    ),
)  # fmt: skip
NO_YARN_CONFIGURATION: Final = Cause(
    "no_yarn_configuration", "YARN's configuration is missing", TERMINAL,
    "set HADOOP_CONF_DIR for Airflow's processes to the cluster's configuration",
    of_any_lineage=True,
    symptoms=(
        (r"either HADOOP_CONF_DIR or YARN_CONF_DIR must be set", "neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set"),
    ),
)  # fmt: skip
UNREACHABLE: Final = Cause(
    "cluster_unreachable", "the cluster does not answer", TRANSIENT,
    "start the cluster's master (or its file system), or correct the host and port of the Spark connection",
    symptoms=(
        (r"Failed to connect to (\S+)/<unresolved>", "there is no host {}"),
        (r"Failed to connect to master (\S+)", "master {} does not answer"),
        (r"Call From \S+ to (\S+) failed on connection", "YARN or its file system does not answer at {}"),
        (
            r"(?s)KubernetesClientException.*?Caused by: java\.io\.IOException: ([^\n]+)",
            "Kubernetes does not answer ({})",
        ),
    ),
)  # fmt: skip
NO_RESOURCES: Final = Cause(
    "no_resources", "the cluster has no free resources", TRANSIENT,
    "start workers, or free cores and memory in the cluster",
    symptoms=((r"Initial job has not accepted any resources", "the cluster gives it no executor"),),
)  # fmt: skip
START_CAUSES: Final = tuple(each for each in [*vars().values()] if isinstance(each, Cause) and each.symptoms)
"""Causes that keep a driver from starting. An earlier one explains a later one."""


class StartProblem(NamedTuple):
    """The ``cause`` that kept a driver from starting, and what the output says of it in words."""

    cause: Cause
    said: str


def start_problem(printed: str) -> StartProblem | None:
    """Find a known symptom in the beginning of a driver's log, or return None."""
    for cause in START_CAUSES:
        for symptom, words in cause.symptoms:
            found = re.search(symptom, printed, re.MULTILINE)
            if found is not None:
                return StartProblem(cause, words.format(*found.groups()))
    return None


LOG_HEAD = 256 * 1024
"""Bytes of a log that are searched for the cause."""


def find_start_problem(log: Path) -> StartProblem | None:
    """Find a known symptom in the beginning of a log file. None if there is none or the file cannot be read."""
    try:
        with log.open("rb") as opened:
            return start_problem(opened.read(LOG_HEAD).decode(errors="replace"))
    except OSError:
        return None
