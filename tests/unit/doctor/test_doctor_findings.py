"""Findings of the doctor, from made-up facts: each problem is found, and each has a remedy."""

import json
from pathlib import Path

import pytest

from sessionizer import doctor
from sessionizer.cli.installation import UNFIT
from sessionizer.doctor import (
    CheckResult,
    Level,
    judge_control,
    judge_home,
    judge_jars,
    judge_java,
    judge_packages,
    judge_plugin,
    judge_python,
    judge_release,
    judge_spark,
    judge_streams,
    judge_variables,
)
from sessionizer.home.roots import DEFAULT_STREAMS
from sessionizer.launch.jars import jar_names
from support.fixtures.platform import Captured, Main
from support.processes.fabricated_platform import Platform

HOME, JARS, STREAMS = Path("/srv/home"), Path("/srv/jars"), Path("/srv/streams")
GOOD = {
    "streaming-state": "0.1.0", "pyspark": "4.2.0", "pyspark-client": "4.2.0", "delta-spark": "4.4.0",
    "pyarrow": "26.0", "pandas": "2.3.3", "protobuf": "7.0",
}  # fmt: skip
OLD_JAR = "delta-spark_4.2_2.13-4.3.1.jar"
AIRFLOW = {"SESSIONIZER_HOME": "/srv/home", "PATH": "/bin"}
ELSEWHERE = {"SESSIONIZER_HOME": "/srv/other", "PATH": "/bin"}

FINE = [
    judge_python((3, 11)),
    judge_java(21, "/java"),
    judge_packages("/python", GOOD),
    judge_packages("/python", {name: version for name, version in GOOD.items() if name != "pyspark-client"}),
    judge_release("0.1.0", GOOD),
    judge_jars(JARS, jar_names()),
    judge_home("/srv/home", HOME, ""),
    judge_control("hdfs://namenode:8020/control", ""),
    judge_streams(STREAMS, {"clicks"}, []),
    judge_variables({"scheduler (1)": AIRFLOW, "triggerer (2)": AIRFLOW}),
    judge_variables({"scheduler (1)": {**AIRFLOW, "AIRFLOW_HOME": "/a"}, "scheduler (2)": {"AIRFLOW_HOME": "/b"}}),
    judge_plugin(["streaming-state==0.1.0"]),
    judge_spark("4.2.1", "spark://one:7077", ""),
]
PROBLEMS = {
    "too old a Python": judge_python((3, 10)),
    "no Java": judge_java(None, "java"),
    "an old Java": judge_java(11, "java"),
    "no Python of drivers": judge_packages("/python", None),
    "no Spark in it": judge_packages("/python", {"streaming-state": "0.1.0"}),
    "two packages in one folder": judge_packages("/python", {**GOOD, "pyspark-client": "4.2.1"}),
    "another line of Spark": judge_packages("/python", {**GOOD, "pyspark": "4.1.0", "pyspark-client": "4.1.0"}),
    "two releases": judge_release("0.2.0", GOOD),
    "no jars": judge_jars(JARS, []),
    "jars of two versions": judge_jars(JARS, [*jar_names(), OLD_JAR]),
    "a home that cannot be written": judge_home("/srv/home", HOME, "Read-only file system"),
    "a relative home": judge_home("home", HOME, ""),
    "a store that does not answer": judge_control("s3://bucket/control", "no answer"),
    "a broken spec": judge_streams(STREAMS, {"clicks"}, ["mapping.kee is 'k'"]),
    "homes that differ": judge_variables({"scheduler (1)": AIRFLOW, "triggerer (2)": ELSEWHERE}),
    "no home at all": judge_variables({"scheduler (1)": {"PATH": "/bin"}}),
    "no plugin": judge_plugin([]),
    "two plugins": judge_plugin(["streaming-state==0.1.0", "$PLUGINS_FOLDER/sessionizer_plugin.py"]),
    "no Spark": judge_spark(None, "local[*]", ""),
    "an old Spark": judge_spark("4.1.1", "local[*]", ""),
    "a master that is down": judge_spark("4.2.0", "spark://one:7077", "Connection refused"),
}  # fmt: skip


@pytest.mark.parametrize("finding", FINE, ids=lambda finding: finding.name)
def test_what_is_right_is_told_as_right(finding: CheckResult) -> None:
    assert (finding.level, finding.remedy) == (Level.OK, "")


@pytest.mark.parametrize("case", PROBLEMS)
def test_each_problem_has_a_remedy(case: str) -> None:
    assert PROBLEMS[case].level is Level.PROBLEM
    assert PROBLEMS[case].remedy


def test_what_may_be_meant_is_a_warning() -> None:
    found = [
        judge_home(None, HOME, ""),
        judge_plugin(None),
        judge_variables({}),
        judge_streams(STREAMS, (), []),
    ]
    assert {each.level for each in found} == {Level.WARNING}


def test_a_folder_that_is_not_there_yet_is_not_made(tmp_path: Path) -> None:
    assert doctor.refusal_to_write(tmp_path / "a" / "b") == ""
    (tmp_path / "file").touch()
    assert doctor.refusal_to_write(tmp_path / "file") != ""
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("master", ["spark://one:port", "spark://[one:7077", "spark://:7077"])
def test_a_master_that_is_no_address_is_a_problem(master: str) -> None:
    refused = doctor.refusal_of_master(master)
    assert refused
    assert judge_spark("4.2.0", master, refused).level is Level.PROBLEM


def test_an_airflow_that_does_not_answer_is_not_told_as_without_the_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = doctor.plugin_sources
    make_bare(monkeypatch)
    monkeypatch.setattr(doctor, "plugin_sources", ask)
    monkeypatch.setattr(doctor, "_output", lambda *_: "")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())
    found = {each.name: each for each in doctor.examine_installation(tmp_path, DEFAULT_STREAMS, "local[*]")}
    assert found["plugin"].level is Level.WARNING
    assert "did not answer" in found["plugin"].found


def test_the_source_of_the_plugin_is_shown_without_python() -> None:
    source = "streaming-state==0.1.0: EntryPoint(name='sessionizer', value='x:Y', group='airflow.plugins')"
    assert judge_plugin([source]).found == "streaming-state==0.1.0"


def test_specs_beside_a_dag_file_are_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_bare(monkeypatch)
    found = {each.name: each for each in doctor.examine_installation(tmp_path, DEFAULT_STREAMS, "local[*]")}
    assert found["streams"].level is Level.WARNING
    assert "--streams" in found["streams"].remedy


def test_a_problem_is_the_exit_code(
    main: Main, platform: Platform, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    platform.add("visits")
    make_bare(monkeypatch)
    places = ("--home", str(platform.home), "--streams", str(platform.streams), "--json")
    assert main("doctor", *places) == UNFIT
    found = {each["check"]: each["level"] for each in json.loads(capsys.readouterr().out)}
    assert found["java"] == "problem"
    assert found["streams"] == "ok"


def make_bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend a machine without Java and Airflow's plugin, with all packages."""
    answers: dict[str, object] = {
        "java_program": lambda: "java",
        "java_version": lambda _: None,
        "refusal_to_write": lambda _: "",
        "airflow_variables": lambda: dict.fromkeys(("scheduler (1)",), AIRFLOW),
        "plugin_sources": lambda: None,
        "spark_version": lambda _: "4.2.0",
        "refusal_of_master": lambda _: "",
        "package_versions": lambda *_: GOOD,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(doctor, name, answer)
