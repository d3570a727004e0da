"""What a Spark connection comes to, and what is refused before anything starts."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit

from sessionizer.causes.table import cause_of, cause_of_error
from sessionizer.errors import (
    ClusterUnreachable,
    DriverOutOfReach,
    DriverWouldNotEnd,
    KubernetesSupportMissing,
    ProgramMissing,
    ResourceManagerUnknown,
    RetryEffect,
    SparkConnectionMissing,
    TransientError,
    UnusableConnection,
)
from sessionizer.launch.local_jvm import class_archive
from sessionizer.launch.local_settings import launch_settings
from sessionizer.launch.package_archive import PackageArchive
from sessionizer_airflow.failed_task import remedy_of
from sessionizer_airflow.launching.connection import Manager, SparkTarget, manager_of
from sessionizer_airflow.launching.spark_submit import job_environment

if TYPE_CHECKING:
    from sessionizer.errors import SessionizerError
    from support.fixtures.reviewed import Reviewed

JARS = Path("/shared/jars")
APPLICATION = Path("/shared/jobs/main.py")
ARCHIVE = PackageArchive(Path("/shared/jobs/sessionizer"), Path("/shared/home/packages"))


def connect(monkeypatch: pytest.MonkeyPatch, host: str, **extra: Any) -> None:
    connection = {"conn_type": "spark", "host": host, "extra": {name.replace("_", "-"): extra[name] for name in extra}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))


@pytest.mark.parametrize(
    ("master", "manager"),
    [
        ("local", Manager.LOCAL),
        ("local[*]", Manager.LOCAL),
        ("local-cluster[2,1,1024]", Manager.LOCAL),
        ("spark://one:7077,two:7077", Manager.STANDALONE),
        ("yarn", Manager.YARN),
        ("k8s://https://kubernetes:6443", Manager.KUBERNETES),
        ("sparkle://one", None),
        ("spark://", None),
        ("http://one:7077", None),
    ],
)
def test_masters(master: str, manager: Manager | None) -> None:
    assert manager_of(master) is manager


def test_missing_connection_is_said() -> None:
    with pytest.raises(SparkConnectionMissing, match="no connection 'no_such_connection'"):
        SparkTarget.of("no_such_connection")


@pytest.mark.parametrize(
    ("host", "extra", "message"),
    [
        ("sparkle://one:7077", {}, "host is 'sparkle://one:7077'. Use local"),
        ("spark://one:7077", {"deploy_mode": "cluster"}, "deploy-mode is 'cluster'. Use client, for Python"),
        ("local[2]", {"deploy_mode": "cluster"}, "deploy-mode is 'cluster'. Use client"),
        ("yarn", {"deploy_mode": "somewhere"}, "deploy-mode is 'somewhere'. Use client or cluster"),
        ("k8s://https://kubernetes:6443", {"deploy_mode": "cluster"}, "namespace is None. Use the namespace"),
    ],
)
def test_connection_that_cannot_run_drivers(
    host: str, extra: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    connect(monkeypatch, host, **extra)
    with pytest.raises(UnusableConnection, match=message):
        SparkTarget.of("spark_default")


def test_kubernetes_needs_the_provider_s_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(spark_submit, "kube_client", raising=False)
    connect(monkeypatch, "k8s://https://kubernetes:6443", deploy_mode="cluster", namespace="streams")
    with pytest.raises(KubernetesSupportMissing, match="spark_default"):
        SparkTarget.of("spark_default")


def test_pods_are_told_of_files_that_they_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    connect(monkeypatch, "k8s://https://kubernetes:6443", deploy_mode="cluster", namespace="streams")
    assert SparkTarget.of("spark_default").address(APPLICATION) == "local:///shared/jobs/main.py"
    connect(monkeypatch, "k8s://https://kubernetes:6443", deploy_mode="client", namespace="streams")
    assert SparkTarget.of("spark_default").address(APPLICATION) == "/shared/jobs/main.py"


def test_a_standalone_master_hands_our_package_on(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "spark://one:7077")
    options = SparkTarget.of("spark_default").options(JARS, ARCHIVE)
    assert options["conf"] == {"spark.executorEnv.LC_ALL": "C.UTF-8"}
    assert options["py_files"] == str(ARCHIVE.place)


def test_our_package_is_found_by_its_path_where_nothing_hands_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    connect(monkeypatch, "k8s://https://kubernetes:6443", deploy_mode="client", namespace="streams")
    options = SparkTarget.of("spark_default").options(JARS, ARCHIVE)
    assert options["conf"] == {"spark.executorEnv.PYTHONPATH": "/shared/jobs", "spark.executorEnv.LC_ALL": "C.UTF-8"}
    assert options["py_files"] is None


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_yarn_hands_our_package_on(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "yarn", deploy_mode=mode)
    options = SparkTarget.of("spark_default").options(JARS, ARCHIVE)
    assert options["py_files"] == str(ARCHIVE.place)
    driver = {"spark.yarn.appMasterEnv.LC_ALL": "C.UTF-8"} if mode == "cluster" else {}
    assert options["conf"] == {"spark.executorEnv.LC_ALL": "C.UTF-8", **driver}, "nothing is looked for by its path"


def test_drivers_with_a_python_of_their_own_get_nothing_of_airflows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESSIONIZER_PYTHON", "/opt/driver/bin/python")
    monkeypatch.setenv("PATH", "/airflow/bin")
    connect(monkeypatch, "local[2]")
    options = SparkTarget.of("spark_default").options(JARS, ARCHIVE)
    assert options["env_vars"] == {
        "PYSPARK_PYTHON": "/opt/driver/bin/python",
        "PATH": f"/opt/driver/bin{os.pathsep}/airflow/bin",
    }
    assert "spark.executorEnv.PYTHONPATH" not in options["conf"], "Airflow's packages would come before the driver's"
    environment = job_environment(dict(os.environ))
    assert environment["PYSPARK_PYTHON"] == "/opt/driver/bin/python"
    assert environment["PATH"].split(os.pathsep)[0] == "/opt/driver/bin"


def test_where_yarn_is_asked_may_stand_in_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "yarn", deploy_mode="cluster", resource_manager="http://rm:8088")
    assert SparkTarget.of("spark_default").resource_manager == "http://rm:8088"
    connect(monkeypatch, "yarn", deploy_mode="cluster")
    assert SparkTarget.of("spark_default").resource_manager is None


def test_a_driver_on_this_machine_gets_our_options_for_its_jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "local[2]")
    jars = tmp_path / "spark"
    class_archive(jars).touch()
    conf = SparkTarget.of("spark_default").options(jars, ARCHIVE)["conf"]
    assert conf == {**launch_settings(jars), "spark.executorEnv.PYTHONPATH": "/shared/jobs"}
    options = shlex.split(conf["spark.driver.defaultJavaOptions"])
    assert f"-XX:SharedArchiveFile={jars}.jsa" in options


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (SparkConnectionMissing("spark_default"), "airflow connections add spark_default"),
        (UnusableConnection("spark_default", "host", "sparkle://one", "yarn"), "correct host of the connection"),
        (KubernetesSupportMissing("spark_default"), "cncf-kubernetes"),
        (ProgramMissing("spark-submit"), "put it on its PATH"),
        (ResourceManagerUnknown(), "set HADOOP_CONF_DIR"),
        (DriverOutOfReach(17, "worker-7"), "`kill -9 17`"),
        (DriverWouldNotEnd("process 17"), "a disk or mount"),
        (ClusterUnreachable(("curl", "http://rm"), "refused"), "`curl http://rm` answers"),
    ],
)
def test_every_refusal_says_what_to_do(error: SessionizerError, remedy: str, reviewed: Reviewed) -> None:
    assert remedy in remedy_of(error)
    reviewed(remedy_of(error))
    passes = isinstance(error, TransientError)
    assert cause_of_error(error).verdict is (RetryEffect.TRANSIENT if passes else RetryEffect.TERMINAL)
    assert cause_of(cause_of_error(error).name).called, "a record of it knows how it is called"
