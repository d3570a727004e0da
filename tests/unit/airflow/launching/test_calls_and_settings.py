"""Argument vectors, settings and the environment of jobs: checked before anything starts."""

import json
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit

from sessionizer.causes.table import cause_of, cause_of_error
from sessionizer.errors import (
    ClusterUnreachable,
    DriverOutOfReach,
    DriverWouldNotEnd,
    InvalidSpec,
    KubernetesSupportMissing,
    ProgramMissing,
    ResourceManagerUnknown,
    RetryEffect,
    SessionizerError,
    SparkConnectionMissing,
    TransientError,
    UnusableConnection,
)
from sessionizer.home.clock import MINUTE
from sessionizer.home.roots import uri_of
from sessionizer.launch.driver_environment import class_archive, launch_settings
from sessionizer.launch.installation import PackageArchive
from sessionizer_airflow.errors import PersonNeeded
from sessionizer_airflow.launching.spark_submit import (
    STORE_CONNECTION,
    DriverCall,
    Manager,
    SparkTarget,
    job_environment,
    manager_of,
    store_variables,
    submitter_environment,
)
from sessionizer_airflow.project import Folders, Project
from sessionizer_airflow.supervision.policy import SupervisionPolicy, SupervisionSettings
from support.fixtures.reviewed import Reviewed

FOLDERS = Folders(home=Path("/data"), streams=Path("/specs"))


def test_calls_of_a_driver_and_of_a_report() -> None:
    call = DriverCall(stream="clicks", uid="0123ab", folders=FOLDERS)
    assert call.argv() == ("run", "clicks", "--uid", "0123ab", "--home", "/data", "--streams", "/specs")
    assert FOLDERS.job_argv("clicks", "report")[:2] == ("report", "clicks")


@pytest.mark.parametrize("root", ["/shared", "hdfs://namenode:8020/lake"])
def test_every_job_is_told_of_the_control_root_before_its_verb_and_of_the_data_root(root: str) -> None:
    folders = replace(FOLDERS, control=root, data=f"{root}/data")
    for argv in (
        DriverCall(stream="clicks", uid="0123ab", folders=folders).argv(),
        folders.job_argv("clicks", "report"),
        folders.job_argv("clicks", "compact", options=("--yes",)),
        folders.savepoint_argv("clicks", "a", why="b"),
        folders.carry_out_argv("clicks", "r"),
    ):
        assert (argv[:2], argv[-2:]) == (("--control", root), ("--data", f"{root}/data"))
        assert argv[2] in {"run", "report", "compact", "savepoint", "carry-out"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("", None),
        ("/platform", None),
        ("/lake/", "/lake"),
        ("hdfs://namenode:8020/lake/", "hdfs://namenode:8020/lake"),
        ("s3://bucket/lake", "s3://bucket/lake"),
    ],
)
def test_a_project_hands_its_roots_on_without_opening_them(given: str, told: str | None) -> None:
    roots = dict.fromkeys(("SESSIONIZER_CONTROL", "SESSIONIZER_DATA"), given)
    project = Project.from_environment({"SESSIONIZER_HOME": "/platform", **roots})
    assert (project.control, project.data) == (told,) * 2
    assert uri_of(project.home_of("clicks").data) == f"{told or '/platform'}/streams/clicks"


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("SESSIONIZER_DATA", "lake", "an absolute path, or a URI"),
        ("SESSIONIZER_DATA", "nothing://there/lake", "a path, or a URI without"),
        ("SESSIONIZER_HOME", "hdfs://namenode:8020/home", "a path"),
        ("SESSIONIZER_CONTROL", "shared", "an absolute path, or a URI"),
        ("SESSIONIZER_CONTROL", "ftp://host/control", "a path that Airflow and drivers share, hdfs://"),
    ],
)
def test_a_root_that_is_none_is_named(variable: str, value: str, allowed: str) -> None:
    with pytest.raises(InvalidSpec, match=f"^{variable} is '{value}'. Use {allowed}"):
        Project.from_environment({"SESSIONIZER_HOME": "/platform", variable: value})


@pytest.mark.parametrize("name", ["--master", "../clicks", "Clicks", "", "a" * 64])
def test_names_that_are_none(name: str) -> None:
    for refuse in (
        lambda: DriverCall(stream=name, uid="0123ab", folders=FOLDERS),
        lambda: FOLDERS.job_argv(name, "report"),
    ):
        with pytest.raises(InvalidSpec, match="name is"):
            refuse()


@pytest.mark.parametrize("uid", ["", "../x", "-x", "a b"])
def test_uids_that_are_none(uid: str) -> None:
    with pytest.raises(InvalidSpec, match="uid is"):
        DriverCall(stream="clicks", uid=uid, folders=FOLDERS)


def test_relative_folder_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="absolute"):
        Folders(home=Path("data"), streams=Path("/specs"))


def test_settings_from_the_environment() -> None:
    given = {"SESSIONIZER_STALE_LIMIT": "5 minutes", "SESSIONIZER_RESTART_BUDGET": "9"}
    settings = SupervisionSettings.from_environment(given)
    assert settings.policy == SupervisionPolicy(stale_limit_ms=5 * MINUTE, restart_budget=9)
    assert settings.watch_lease_ms == 240 * MINUTE
    assert settings.landing_interval_ms == MINUTE


@pytest.mark.parametrize(
    ("name", "value"),
    [("SESSIONIZER_STALE_LIMIT", "5"), ("SESSIONIZER_WATCH_LEASE", "soon"), ("SESSIONIZER_RESTART_BUDGET", "some")],
)
def test_bad_setting_is_named(name: str, value: str) -> None:
    with pytest.raises(InvalidSpec, match=f"{name} is '{value}'"):
        SupervisionSettings.from_environment({name: value})


def test_job_gets_its_secrets_but_not_those_of_airflow() -> None:
    ours = {"PATH": "/bin", "KAFKA_LOGIN": "x", "AIRFLOW__CORE__FERNET_KEY": "y", "AIRFLOW_CONN_DB": "z", "OTHER": "o"}
    job = job_environment(ours, named=["KAFKA_LOGIN", "AIRFLOW__CORE__FERNET_KEY"])
    assert job["KAFKA_LOGIN"] == "x"
    assert job["PYSPARK_PYTHON"] == sys.executable
    assert sorted(job) == ["KAFKA_LOGIN", "LC_ALL", "PATH", "PYSPARK_PYTHON", "SPARK_DRIVER_MEMORY"]


def test_no_process_of_spark_has_the_locale_of_its_machine() -> None:
    arabic = {"PATH": "/bin", "LANG": "ar_EG.UTF-8", "LC_ALL": "ar_EG.UTF-8"}
    assert job_environment(arabic)["LC_ALL"] == "C.UTF-8"
    assert submitter_environment(arabic)["LC_ALL"] == "C.UTF-8"


def test_a_cluster_is_told_neither_of_our_python_nor_of_our_folders() -> None:
    """YARN would put a PYTHONPATH of ours before what the job brings along."""
    assert submitter_environment({"PATH": "/bin", "PYTHONPATH": "/opt/ours"}).keys() == {"LC_ALL", "PATH"}


NAMED = {STORE_CONNECTION: "lake"}


def connect(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(fields))


def target(monkeypatch: pytest.MonkeyPatch, host: str = "spark://one:7077", **extra: str) -> SparkTarget:
    connection = {"conn_type": "spark", "host": host, "extra": {name.replace("_", "-"): extra[name] for name in extra}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    return SparkTarget.of("spark_default")


def on_kubernetes(monkeypatch: pytest.MonkeyPatch, deploy_mode: str) -> SparkTarget:
    return target(monkeypatch, "k8s://https://kubernetes:6443", deploy_mode=deploy_mode, namespace="streams")


@pytest.mark.parametrize(
    ("fields", "variables"),
    [
        (
            {"conn_type": "aws", "login": "AK", "password": "secret"},
            {"AWS_ACCESS_KEY_ID": "AK", "AWS_SECRET_ACCESS_KEY": "secret"},
        ),
        (
            {
                "conn_type": "aws", "login": "AK", "password": "secret",
                "extra": {"aws_session_token": "T", "region_name": "eu-west-1", "endpoint_url": "http://s3:7070"},
            },
            {
                "AWS_ACCESS_KEY_ID": "AK", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "T",
                "AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-1", "AWS_ENDPOINT_URL": "http://s3:7070",
            },
        ),
        ({"conn_type": "aws", "extra": {"role_arn": "of the machine"}}, {}),
        (
            {"conn_type": "google_cloud_platform", "extra": {"key_path": "/keys/lake.json", "project": "shop"}},
            {"GOOGLE_APPLICATION_CREDENTIALS": "/keys/lake.json", "GOOGLE_CLOUD_PROJECT": "shop"},
        ),
        ({"conn_type": "wasb", "login": "lake", "password": "secret"}, {"AZURE_STORAGE_ACCOUNT_KEY": "secret"}),
        (
            {"conn_type": "adls", "login": "id", "password": "secret", "extra": {"tenant_id": "shop"}},
            {
                "AZURE_STORAGE_CLIENT_ID": "id", "AZURE_STORAGE_CLIENT_SECRET": "secret",
                "AZURE_STORAGE_TENANT_ID": "shop",
            },
        ),
    ],
)  # fmt: skip
def test_each_kind_of_store_has_its_variables(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], variables: dict[str, str]
) -> None:
    connect(monkeypatch, **fields)
    assert store_variables(target(monkeypatch), NAMED) == variables
    assert store_variables(target(monkeypatch), {}) == {}, "without the setting no connection is looked for"


@pytest.mark.parametrize(
    ("fields", "spark", "field"),
    [
        (None, {}, "id"),
        ({"conn_type": "postgres", "password": "secret"}, {}, "type"),
        (
            {"conn_type": "aws", "password": "secret"},
            {"host": "yarn", "deploy_mode": "cluster"},
            "the deploy mode of the driver",
        ),
    ],
)
def test_what_cannot_give_keys_to_a_driver_is_refused(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any] | None, spark: dict[str, str], field: str
) -> None:
    if fields is not None:
        connect(monkeypatch, **fields)
    with pytest.raises(UnusableConnection) as refused:
        store_variables(target(monkeypatch, **spark), NAMED)
    assert (refused.value.connection, refused.value.field) == ("lake", field)
    assert "secret" not in str(refused.value)


JARS = Path("/shared/jars")
APPLICATION = Path("/shared/jobs/main.py")
ARCHIVE = PackageArchive(Path("/shared/jobs/sessionizer"), Path("/shared/home/packages"))


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
    with pytest.raises(UnusableConnection, match=message):
        target(monkeypatch, host, **extra)


def test_kubernetes_needs_the_provider_s_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(spark_submit, "kube_client", raising=False)
    with pytest.raises(KubernetesSupportMissing, match="spark_default"):
        on_kubernetes(monkeypatch, "cluster")


def test_pods_are_told_of_files_that_they_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    assert on_kubernetes(monkeypatch, "cluster").address(APPLICATION) == "local:///shared/jobs/main.py"
    assert on_kubernetes(monkeypatch, "client").address(APPLICATION) == "/shared/jobs/main.py"


LOCALE = {"spark.executorEnv.LC_ALL": "C.UTF-8"}


@pytest.mark.parametrize(
    ("host", "extra", "conf"),
    [
        ("spark://one:7077", {}, LOCALE),
        ("yarn", {"deploy_mode": "client"}, LOCALE),
        ("yarn", {"deploy_mode": "cluster"}, {**LOCALE, "spark.yarn.appMasterEnv.LC_ALL": "C.UTF-8"}),
    ],
)
def test_a_standalone_master_and_yarn_hand_our_package_on(
    monkeypatch: pytest.MonkeyPatch, host: str, extra: dict[str, str], conf: dict[str, str]
) -> None:
    options = target(monkeypatch, host, **extra).options(JARS, ARCHIVE)
    assert options["py_files"] == str(ARCHIVE.place)
    assert options["conf"] == conf, "nothing is looked for by its path"


def test_our_package_is_found_by_its_path_where_nothing_hands_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    options = on_kubernetes(monkeypatch, "client").options(JARS, ARCHIVE)
    assert options["conf"] == {"spark.executorEnv.PYTHONPATH": "/shared/jobs", **LOCALE}
    assert options["py_files"] is None


def test_drivers_with_a_python_of_their_own_get_nothing_of_airflows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESSIONIZER_PYTHON", "/opt/driver/bin/python")
    monkeypatch.setenv("PATH", "/airflow/bin")
    options = target(monkeypatch, "local[2]").options(JARS, ARCHIVE)
    assert options["env_vars"] == {
        "PYSPARK_PYTHON": "/opt/driver/bin/python",
        "PATH": f"/opt/driver/bin{os.pathsep}/airflow/bin",
    }
    assert "spark.executorEnv.PYTHONPATH" not in options["conf"], "Airflow's packages would come before the driver's"
    environment = job_environment(dict(os.environ))
    assert environment["PYSPARK_PYTHON"] == "/opt/driver/bin/python"
    assert environment["PATH"].split(os.pathsep)[0] == "/opt/driver/bin"


def test_where_yarn_is_asked_may_stand_in_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = target(monkeypatch, "yarn", deploy_mode="cluster", resource_manager="http://rm:8088")
    assert asked.resource_manager == "http://rm:8088"
    assert target(monkeypatch, "yarn", deploy_mode="cluster").resource_manager is None


def test_a_driver_on_this_machine_gets_our_options_for_its_jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars = tmp_path / "spark"
    class_archive(jars).touch()
    conf = target(monkeypatch, "local[2]").options(jars, ARCHIVE)["conf"]
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
    told = PersonNeeded.wrap(error).remedy
    assert remedy in told
    reviewed(told)
    passes = isinstance(error, TransientError)
    assert cause_of_error(error).verdict is (RetryEffect.TRANSIENT if passes else RetryEffect.TERMINAL)
    assert cause_of(cause_of_error(error).name).called, "a record of it knows how it is called"
