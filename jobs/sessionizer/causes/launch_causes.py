"""The causes that keep a driver from starting, or from being launched or ended."""

from __future__ import annotations

from typing import Final

from sessionizer.causes.cause import TERMINAL, TRANSIENT, Cause

START_CAUSES: Final = (
    Cause(
        "no_java", "Java is missing", TERMINAL,
        "install Java 17 or 21 where the driver runs and set JAVA_HOME to it for Airflow's processes",
    ),
    Cause("old_java", "Java is too old", TERMINAL, "set JAVA_HOME to Java 17 or 21 for Airflow's processes"),
    Cause(
        "no_memory", "memory for a driver is lacking", TRANSIENT,
        "free memory where the driver runs, or lower spark.driver.memory",
    ),
    Cause(
        "no_application", "the application is missing", TERMINAL,
        "put the application there, or set SESSIONIZER_APPLICATION to its path",
    ),
    Cause(
        "no_jar", "a jar is missing", TERMINAL,
        "run `sessionizer jars fetch`, or set SESSIONIZER_JARS to the folder with the jars",
    ),
    Cause("bad_master", "the Spark master is invalid", TERMINAL, "correct the host of the Spark connection"),
    Cause(
        "no_yarn_configuration", "YARN's configuration is missing", TERMINAL,
        "set HADOOP_CONF_DIR for Airflow's processes to the cluster's configuration",
    ),
    Cause(
        "cluster_unreachable", "the cluster does not answer", TRANSIENT,
        "start the cluster's master (or its file system), or correct the host and port of the Spark connection",
    ),
    Cause(
        "no_resources", "the cluster has no free resources", TRANSIENT,
        "start workers, or free cores and memory in the cluster",
    ),
)  # fmt: skip
"""Causes that keep a driver from starting, recognized in its output (``causes/start_problem.py``)."""

LAUNCH_CAUSES: Final = (
    Cause(
        "SparkConnectionMissing", "there is no Spark connection", TERMINAL,
        "run `airflow connections add {error.name} --conn-type spark --conn-host <master>` (docs/spark-clusters.md)",
    ),
    Cause(
        "UnusableConnection", "the Spark connection is wrong", TERMINAL,
        "correct {error.field} of the connection {error.connection}",
    ),
    Cause(
        "KubernetesSupportMissing", "the client of Kubernetes is missing", TERMINAL,
        "run `pip install 'apache-airflow-providers-apache-spark[cncf-kubernetes]'`",
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
        "find out why it cannot be killed: a disk or mount may hang",
    ),
    Cause(
        "ClusterUnreachable", "the cluster does not answer", TRANSIENT,
        "check that `{error.asked}` answers on the Airflow worker",
    ),
    Cause(
        "OSError", "the operating system refuses a call", TRANSIENT,
        "check the file or resource that the message names",
    ),
)  # fmt: skip
"""Causes by the name of the error's class, when launching and ending a driver. ``{error.…}`` are fields of the
error."""
