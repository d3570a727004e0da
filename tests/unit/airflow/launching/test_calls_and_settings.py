"""Argument vectors, settings and the environment of jobs: checked before anything starts."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sessionizer.errors import InvalidSpec
from sessionizer.home.clock import MINUTE
from sessionizer.home.roots import uri_of
from sessionizer_airflow.launching.argv import DriverCall, StateCall, compaction_argv, report_argv, savepoint_argv
from sessionizer_airflow.launching.spark_submit import job_environment, submitter_environment
from sessionizer_airflow.project import Folders, Project
from sessionizer_airflow.supervision.policy import SupervisionPolicy, SupervisionSettings

FOLDERS = Folders(home=Path("/data"), streams=Path("/specs"))


def test_driver_call() -> None:
    call = DriverCall(stream="clicks", uid="0123ab", folders=FOLDERS)
    assert call.argv() == ("run", "clicks", "--uid", "0123ab", "--home", "/data", "--streams", "/specs")


def test_report_call() -> None:
    assert report_argv(FOLDERS, "clicks")[:2] == ("report", "clicks")


@pytest.mark.parametrize("data", ["/lake", "hdfs://namenode:8020/lake"])
def test_every_job_is_told_of_the_data_root(data: str) -> None:
    folders = replace(FOLDERS, data=data)
    to_change = [
        StateCall(verb=verb, stream="clicks", savepoint=None, options=(), reads_spec=reads_spec, folders=folders)
        for verb, reads_spec in (("restore", False), ("switch", True))
    ]
    for argv in (
        DriverCall(stream="clicks", uid="0123ab", folders=folders).argv(),
        report_argv(folders, "clicks"),
        compaction_argv(folders, "clicks"),
        savepoint_argv(folders, "clicks", "a", why="b"),
        *(call.planned("r") for call in to_change),
        *(call.approved("d", "somebody") for call in to_change),
    ):
        assert argv[-2:] == ("--data", data)


@pytest.mark.parametrize("control", ["/shared", "hdfs://namenode:8020/control"])
def test_every_job_is_told_of_the_control_root_before_its_verb(control: str) -> None:
    folders = replace(FOLDERS, control=control)
    change = StateCall(verb="restore", stream="clicks", savepoint=None, options=(), reads_spec=False, folders=folders)
    for argv in (
        DriverCall(stream="clicks", uid="0123ab", folders=folders).argv(),
        report_argv(folders, "clicks"),
        compaction_argv(folders, "clicks"),
        savepoint_argv(folders, "clicks", "a", why="b"),
        change.planned("r"),
        change.approved("d", "somebody"),
    ):
        assert argv[:2] == ("--control", control)
        assert argv[2] in {"run", "report", "compact", "savepoint", "restore"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("", None),
        ("/platform", None),
        ("/shared/", "/shared"),
        ("hdfs://namenode:8020/control/", "hdfs://namenode:8020/control"),
    ],
)
def test_a_project_hands_the_control_root_on_without_opening_it(given: str, told: str | None) -> None:
    project = Project.from_environment({"SESSIONIZER_HOME": "/platform", "SESSIONIZER_CONTROL": given})
    assert (project.control, project.folders.control) == (told, told)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("", None),
        ("/platform", None),
        ("/lake/", "/lake"),
        ("hdfs://namenode:8020/lake/", "hdfs://namenode:8020/lake"),
        ("s3a://bucket/lake", "s3a://bucket/lake"),
    ],
)
def test_a_project_hands_the_data_root_on_without_opening_it(given: str, told: str | None) -> None:
    project = Project.from_environment({"SESSIONIZER_HOME": "/platform", "SESSIONIZER_DATA": given})
    assert (project.data, project.folders.data) == (told, told)
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
        lambda: report_argv(FOLDERS, name),
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


def test_a_cluster_is_not_told_of_our_python() -> None:
    assert "PYSPARK_PYTHON" not in submitter_environment({"PATH": "/bin"})


def test_yarn_is_not_handed_our_folders() -> None:
    """It would put a PYTHONPATH of ours before what the job brings along."""
    assert submitter_environment({"PATH": "/bin", "PYTHONPATH": "/opt/ours"}).keys() == {"LC_ALL", "PATH"}
