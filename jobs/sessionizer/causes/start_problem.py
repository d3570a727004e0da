"""The reason why a driver never came to its first batch, from its output: pure.

The texts are those of the pinned Spark.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sessionizer.causes.table import CAUSES

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer.causes.cause import Cause


class StartFault(StrEnum):
    """The faults that keep drivers from starting."""

    NO_JAVA = "no_java"
    OLD_JAVA = "old_java"
    NO_MEMORY = "no_memory"
    NO_APPLICATION = "no_application"
    NO_JAR = "no_jar"
    BAD_MASTER = "bad_master"
    NO_YARN_CONFIGURATION = "no_yarn_configuration"
    UNREACHABLE = "cluster_unreachable"
    NO_RESOURCES = "no_resources"


SYMPTOMS: tuple[tuple[StartFault, str, str], ...] = (
    (StartFault.NO_JAVA, r"^JAVA_HOME is not set", "there is no Java"),
    (StartFault.NO_JAVA, r"(\S+/bin/java): No such file or directory", "there is no Java at {}"),
    (StartFault.OLD_JAVA, r"only recognizes class file versions up to (\d+)", "Java is too old (class files up to {})"),
    (StartFault.NO_MEMORY, r"Could not reserve enough space for (\S+)", "no memory for {} of heap"),
    (StartFault.NO_MEMORY, r"There is insufficient memory for the Java Runtime", "no memory for Java"),
    (StartFault.NO_APPLICATION, r"can't open file '([^']+)'", "there is no application {}"),
    (StartFault.NO_JAR, r"Local jar (\S+) does not exist", "there is no jar {}"),
    (StartFault.NO_JAR, r"Jar (\S+) not found", "there is no jar {}"),
    (StartFault.NO_JAR, r"ClassNotFoundException: (io\.delta\.\S+)", "no jar has {}"),
    (StartFault.NO_JAR, r"Failed to find the data source: (\w+)", "no jar has the data source {}"),
    (StartFault.BAD_MASTER, r"Could not parse Master URL: '([^']+)'", "{} is no Spark master"),
    (StartFault.BAD_MASTER, r"Invalid master URL: (\S+)", "{} is no Spark master: it lacks a port"),
    (
        StartFault.NO_YARN_CONFIGURATION,
        r"either HADOOP_CONF_DIR or YARN_CONF_DIR must be set",
        "neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set",
    ),
    (StartFault.UNREACHABLE, r"Failed to connect to (\S+)/<unresolved>", "there is no host {}"),
    (StartFault.UNREACHABLE, r"Failed to connect to master (\S+)", "master {} does not answer"),
    (
        StartFault.UNREACHABLE,
        r"Call From \S+ to (\S+) failed on connection",
        "YARN or its file system does not answer at {}",
    ),
    (
        StartFault.UNREACHABLE,
        r"(?s)KubernetesClientException.*?Caused by: java\.io\.IOException: ([^\n]+)",
        "Kubernetes does not answer ({})",
    ),
    (StartFault.NO_RESOURCES, r"Initial job has not accepted any resources", "the cluster gives it no executor"),
)
"""Fault, its symptom, and its description. An earlier one explains a later one."""


@dataclass(frozen=True)
class StartProblem:
    """A ``fault``, and its description in words."""

    fault: StartFault
    said: str

    @property
    def cause(self) -> Cause:
        """The cause in the table, with its name and its remedy."""
        return CAUSES[str(self.fault)]


def start_problem(printed: str) -> StartProblem | None:
    """Find a known symptom in the beginning of a driver's log, or return None."""
    for fault, symptom, words in SYMPTOMS:
        found = re.search(symptom, printed, re.MULTILINE)
        if found is not None:
            return StartProblem(fault, words.format(*found.groups()))
    return None


VAGUE: Final = frozenset({"unknown", "executor_lost", "driver_jvm_died"})
"""Causes that a driver may have recorded before its first batch while its output says more."""
LOG_HEAD = 256 * 1024
"""Bytes of a log that are searched for the fault."""


def start_problem_in(log: Path) -> StartProblem | None:
    """Find a known symptom in the beginning of a log file. None if there is none or the file cannot be read."""
    try:
        with log.open("rb") as opened:
            return start_problem(opened.read(LOG_HEAD).decode(errors="replace"))
    except OSError:
        return None
