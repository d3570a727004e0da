"""The spark-submit command of a job, as the Spark provider would run it, for the master of an Airflow connection.

Secrets never appear in an argument vector or in Spark's settings, because other users of the machine can list them. The
driver reads them from its environment, under the names that the stream spec gives. An Airflow connection may hold the
variables of an object store.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Self

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from sessionizer.errors import UnusableConnection
from sessionizer.home.names import check_identifier, check_name
from sessionizer.launch.driver_environment import (
    DRIVER_MEMORY,
    LOCALE_VARIABLES,
    cluster_locale,
    driver_environment,
    is_local_master,
    launch_settings,
)
from sessionizer.launch.installation import PackageArchive, driver_python, has_own_python
from sessionizer_airflow.internals import resolve_connection
from sessionizer_airflow.project import Folders

CONNECTION = "spark_default"
MASTERS = "local[n], spark://host:7077, yarn or k8s://https://host:6443"
"""Examples with port numbers, because a word in place of a number passes for a password and is hidden."""


class Manager(StrEnum):
    """Cluster manager that gives Spark its executors, and in cluster mode runs its driver."""

    LOCAL = "local"
    STANDALONE = "standalone"
    YARN = "yarn"
    KUBERNETES = "kubernetes"


DRIVER_VARIABLES: Final = {Manager.YARN: "spark.yarn.appMasterEnv.", Manager.KUBERNETES: "spark.kubernetes.driverEnv."}
"""Beginning of Spark's setting for a variable of a driver, by the manager that runs it."""


@dataclass(frozen=True, kw_only=True)
class SparkTarget:
    """The place where a connection has Spark run. ``binary`` is the program that submits.

    ``resource_manager``: URLs of YARN's ResourceManager, separated by commas. None if Hadoop's configuration has them.
    """

    manager: Manager
    master: str
    deploy_mode: str | None
    namespace: str | None
    binary: str
    resource_manager: str | None = None

    @classmethod
    def of(cls, connection: str) -> Self:
        """Return the target that the provider's hook makes of ``connection``.

        Raises SparkConnectionMissing: the hook itself would fall back to YARN silently.
        Raises UnusableConnection: Spark cannot run Python drivers like that, or we could not find them again.
        """
        found = resolve_connection(connection)
        manager = manager_of(found["master"])
        if manager is None:
            raise UnusableConnection(connection, "host", found["master"], MASTERS)
        target = cls(
            manager=manager,
            master=found["master"],
            deploy_mode=found["deploy_mode"],
            namespace=found["namespace"],
            binary=found["spark_binary"],
            resource_manager=found["resource_manager"],
        )
        if target.deploy_mode not in {None, "client", "cluster"}:
            raise UnusableConnection(connection, "deploy-mode", target.deploy_mode, "client or cluster")
        if target.is_in_cluster and manager in {Manager.LOCAL, Manager.STANDALONE}:
            raise UnusableConnection(connection, "deploy-mode", "cluster", f"client, for Python on {target.master}")
        if target.is_in_cluster and manager is Manager.KUBERNETES and not target.namespace:
            raise UnusableConnection(connection, "namespace", None, "the namespace of the driver's pod")
        return target

    @property
    def is_in_cluster(self) -> bool:
        """Whether the driver is run by the cluster, not by a process of this machine."""
        return self.deploy_mode == "cluster"

    @property
    def hands_on(self) -> bool:
        """Whether the cluster copies submitted files to its machines, so that these need none of ours."""
        return self.manager in {Manager.YARN, Manager.STANDALONE}

    def options(
        self, jars: Path, archive: PackageArchive, environment: Mapping[str, str] = os.environ
    ) -> dict[str, Any]:
        """Return the options by which the package, ``jars`` and the Python of ``environment`` reach the job.

        A driver on this machine uses the Python of drivers, a driver elsewhere its own. YARN and a standalone master
        are given the package as its ``archive``. On Kubernetes each named path must exist in the image.
        """
        # For these the provider copies variables into settings, and the machines of a cluster may lack our Python.
        copies_variables = self.manager in {Manager.YARN, Manager.KUBERNETES}
        python = None if self.is_in_cluster or copies_variables else python_variables(environment)
        # Every option is set, because a task may have options of another connection.
        found: dict[str, Any] = {"driver_class_path": None, "jars": None, "py_files": None, "env_vars": python}
        # Drivers with a Python environment of their own find the package there.
        by_path = {} if has_own_python(environment) else {"spark.executorEnv.PYTHONPATH": str(archive.package.parent)}
        locale = cluster_locale(DRIVER_VARIABLES.get(self.manager) if self.is_in_cluster else None)
        if self.manager is Manager.LOCAL:
            return {**found, "driver_class_path": f"{jars}/*", "conf": {**launch_settings(jars), **by_path}}
        found["jars"] = ",".join(self.address(jar) for jar in sorted(jars.glob("*.jar"))) or None
        if self.hands_on:
            return {**found, "py_files": str(archive.place), "conf": locale}
        return {**found, "conf": {**locale, **by_path}}

    def address(self, file: Path) -> str:
        """Return the name of a file for spark-submit. A pod must have the file already: nothing can be copied there."""
        return f"local://{file}" if self.is_in_cluster and self.manager is Manager.KUBERNETES else str(file)


def python_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which spark-submit starts the Python of drivers, and is itself that Python's."""
    python = driver_python(environment)
    if not has_own_python(environment):
        return {"PYSPARK_PYTHON": python}
    return {"PYSPARK_PYTHON": python, "PATH": _path_with(python, environment)}


def _path_with(python: str, environment: Mapping[str, str]) -> str:
    return os.pathsep.join([str(Path(python).parent), environment.get("PATH", os.defpath)])


def manager_of(master: str) -> Manager | None:
    """Return the cluster manager of the URL of a master. None if the URL is unknown."""
    if is_local_master(master):
        return Manager.LOCAL
    for prefix, manager in (("spark://", Manager.STANDALONE), ("k8s://", Manager.KUBERNETES)):
        if master.startswith(prefix) and master != prefix:
            return manager
    return Manager.YARN if master == "yarn" else None


STORE_CONNECTION: Final = "SESSIONIZER_STORE_CONNECTION"
"""Variable with the id of the connection that has the store's keys."""

_KINDS: Final[Mapping[str, Mapping[str, str]]] = {
    "aws": {
        "AWS_ACCESS_KEY_ID": "login",
        "AWS_SECRET_ACCESS_KEY": "password",
        "AWS_SESSION_TOKEN": "aws_session_token",
        # some clients read one of the two, some the other
        "AWS_REGION": "region_name",
        "AWS_DEFAULT_REGION": "region_name",
        "AWS_ENDPOINT_URL": "endpoint_url",
    },
    "google_cloud_platform": {"GOOGLE_APPLICATION_CREDENTIALS": "key_path", "GOOGLE_CLOUD_PROJECT": "project"},
    "wasb": {"AZURE_STORAGE_ACCOUNT_KEY": "password"},
    "adls": {
        "AZURE_STORAGE_CLIENT_ID": "login",
        "AZURE_STORAGE_CLIENT_SECRET": "password",
        "AZURE_STORAGE_TENANT_ID": "tenant_id",
    },
}
"""By type of the connection: each variable, and the field of the connection or of its extra that it gets."""


def store_variables(target: SparkTarget, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables of the store for a job that ``target`` runs. Empty if ``environment`` names no connection.

    Airflow then masks the connection's password in the task's log.

    Raises UnusableConnection: Airflow has no such connection, it is of another type, or the cluster runs the driver,
    because the environment does not get there.
    """
    name = environment.get(STORE_CONNECTION)
    if not name:
        return {}
    if target.is_in_cluster:
        allowed = f"{STORE_CONNECTION} with a Spark connection in client mode only"
        raise UnusableConnection(name, "the deploy mode of the driver", target.deploy_mode, allowed)
    try:
        found = Connection.get(name)
    except AirflowNotFoundException as error:
        raise UnusableConnection(name, "id", name, "the id of a connection that Airflow has") from error
    if found.conn_type not in _KINDS:
        raise UnusableConnection(name, "type", found.conn_type, " or ".join(_KINDS))
    fields: dict[str, Any] = {**found.extra_dejson, "login": found.login, "password": found.password}
    wanted = {variable: fields.get(field) for variable, field in _KINDS[found.conn_type].items()}
    return {variable: str(value) for variable, value in wanted.items() if value}


CREDENTIAL_PREFIXES = ("AIRFLOW_", "_AIRFLOW", "__AIRFLOW")
PYTHONPATH = "PYTHONPATH"


def job_environment(environment: Mapping[str, str], named: Iterable[str] = ()) -> dict[str, str]:
    """Return the environment of a driver on this machine: a part of ours, and the ``named`` variables of its spec.

    The programs of the drivers' Python come first, because Spark would start its workers with the first ``python3`` of
    the PATH.
    """
    python = driver_python(environment)
    given = {**DRIVER_MEMORY, **driver_environment(environment, named)}
    return {**given, **LOCALE_VARIABLES, "PATH": _path_with(python, environment), "PYSPARK_PYTHON": python}


def submitter_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a program that talks to a cluster.

    The site's own programs come first, because our Python is not the cluster's. PYTHONPATH is removed, because YARN
    would pass it on, before all packages that a job brings along.
    """
    path = os.pathsep.join([environment.get("PATH", os.defpath), str(Path(sys.executable).parent)])
    kept = {name: value for name, value in environment.items() if not name.startswith(CREDENTIAL_PREFIXES)}
    kept.pop(PYTHONPATH, None)
    return {**kept, **LOCALE_VARIABLES, "PATH": path}


@dataclass(frozen=True, kw_only=True)
class DriverCall:
    """Call that runs the stream's driver as ``uid``, the name by which it takes the lease and is watched."""

    stream: str
    uid: str
    folders: Folders

    def __post_init__(self) -> None:
        check_name("name", self.stream)
        check_identifier("uid", self.uid)

    def argv(self) -> tuple[str, ...]:
        """Return the arguments of ``jobs/main.py``."""
        return self.folders.job_argv(self.stream, "run", options=("--uid", self.uid))
