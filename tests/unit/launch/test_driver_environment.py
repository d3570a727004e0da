"""What a driver is started with, of all that Airflow's processes have."""

import json
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from sessionizer.errors import JarsNotFetched
from sessionizer.home.roots import ObjectStore
from sessionizer.launch.driver_environment import (
    ALLOWED,
    COMPILE_LATER,
    END_WITHOUT_MEMORY,
    LOGGING,
    MORE,
    class_archive,
    driver_environment,
    hide_airflows,
    is_allowed,
    is_local_master,
    jvm_options,
    launch_settings,
    session_settings,
)
from sessionizer.launch.installation import (
    APPLICATION,
    PACKAGE,
    PackageArchive,
    driver_python,
    has_own_python,
    jar_folder,
)
from sessionizer.launch.jars import DIGESTS, altered_jars, fetch_jars, jar_names, missing_jars, other_versions
from sessionizer_airflow.launching.spark_submit import CONNECTION, SparkTarget

AIRFLOW = {
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://airflow:pw@db/airflow",
    "AIRFLOW__CORE__FERNET_KEY": "k",
    "AIRFLOW_CONN_WAREHOUSE": "c",
    "_AIRFLOW_PROCESS_CONTEXT": "server",
    "SESSIONIZER_NOTIFIER_ARGUMENTS": '{"token": "t"}',
}
NEEDED = dict.fromkeys(("PATH", "HOME", "LANG", "LC_ALL", "TZ", "JAVA_HOME", "SPARK_LOCAL_IP", "HADOOP_CONF_DIR"), "x")
OTHERS = dict.fromkeys(("DATABASE_URL", "AWS_ACCESS_KEY_ID", "AWS_REGION", "AZURE_CLIENT_SECRET", "KAFKA_JAAS"), "x")


@pytest.mark.parametrize(
    ("environment", "named", "given"),
    [
        pytest.param({**AIRFLOW, **NEEDED, **OTHERS}, (), {*NEEDED}, id="what it needs"),
        pytest.param(
            {**AIRFLOW, **OTHERS, MORE: "AWS_*, AZURE_CLIENT_SECRET"}, ["KAFKA_JAAS"],
            {MORE, *OTHERS} - {"DATABASE_URL"}, id="what its spec or the installation names",
        ),
        pytest.param(OTHERS, OTHERS, {"KAFKA_JAAS"}, id="no variable that is not allowed by default"),
        pytest.param(
            {**OTHERS, ALLOWED: "AWS_REGION, DATABASE_*"}, OTHERS, {ALLOWED, "AWS_REGION", "DATABASE_URL"},
            id="what the operator allows",
        ),
        pytest.param({**OTHERS, ALLOWED: ""}, OTHERS, {ALLOWED}, id="nothing, if the operator allows nothing"),
        pytest.param({**AIRFLOW, ALLOWED: "*"}, AIRFLOW, {ALLOWED}, id="nothing of Airflow, whatever is allowed"),
        pytest.param({**AIRFLOW, MORE: "*"}, AIRFLOW, {MORE}, id="nothing of Airflow, whatever is named"),
    ],
)  # fmt: skip
def test_a_driver_gets_this_part_of_the_environment(
    environment: dict[str, str], named: Iterable[str], given: set[str]
) -> None:
    environment = {**environment, "SESSIONIZER_HOME": "h"}
    assert driver_environment(environment, named) == {name: environment[name] for name in {*given, "SESSIONIZER_HOME"}}


OF_KAFKA = {
    "KAFKA_JAAS", "CLICKS_KAFKA_JAAS", "VISITS_JAAS", "JAAS", "EU_KAFKA", "SASL_PLAIN", "A_SCHEMA_REGISTRY_LOGIN",
}  # fmt: skip
OTHER_NAMES = (
    "AWS_SECRET_ACCESS_KEY", "DATABASE_URL", "AZURE_CLIENT_SECRET", "JDBC_PASSWORD", "PATH", "AIRFLOW_KAFKA_X",
    "CI_REGISTRY_PASSWORD",
)  # fmt: skip


@pytest.mark.parametrize("name", [*sorted(OF_KAFKA), *OTHER_NAMES])
def test_names_that_speak_of_kafka_need_no_word_of_the_operator(name: str) -> None:
    assert is_allowed(name, {}) == (name in OF_KAFKA)


def test_what_is_airflows_own_is_away_for_as_long_as_a_child_is_started() -> None:
    environment = {**AIRFLOW, **NEEDED}
    with hide_airflows(environment):
        assert environment == NEEDED
    assert environment == {**AIRFLOW, **NEEDED}


DELTA = "delta-spark_4.2_2.13-4.4.0.jar"


def test_missing_altered_and_other_jars_than_those_of_the_package_are_named(tmp_path: Path) -> None:
    assert DELTA in jar_names()
    assert all(name.endswith(".jar") for name in jar_names())
    assert len(jar_names()) >= 9
    assert missing_jars(jar_names()) == []
    assert missing_jars(set(jar_names()) - {DELTA}) == [DELTA]
    assert {line.split()[1] for line in DIGESTS.read_text().splitlines()} == set(jar_names(ObjectStore))
    (tmp_path / DELTA).write_bytes(b"other bytes")
    assert altered_jars(tmp_path, [DELTA]) == [DELTA]
    older = "delta-spark_4.2_2.13-4.3.1.jar"
    assert other_versions([*jar_names(), older, "mine-1.0.jar"]) == [older]


def test_a_folder_with_all_jars_needs_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in jar_names():
        (tmp_path / name).touch()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert fetch_jars(tmp_path) == []
    (tmp_path / DELTA).unlink()
    with pytest.raises(JarsNotFetched, match="no Java"):
        fetch_jars(tmp_path)
    assert [each.name for each in tmp_path.iterdir() if each.name not in jar_names()] == []


def test_places_are_inside_the_package_and_the_environment() -> None:
    assert APPLICATION.is_file()
    assert APPLICATION.is_relative_to(PACKAGE)
    assert str(jar_folder({})).endswith("share/streaming-state/jars")
    assert str(jar_folder({"SESSIONIZER_JARS": "/jars"})) == "/jars"


def test_drivers_may_have_a_python_of_their_own() -> None:
    there = {"SESSIONIZER_PYTHON": "/opt/driver/bin/python"}
    assert driver_python(there) == "/opt/driver/bin/python"
    assert has_own_python(there)
    assert str(jar_folder(there)) == "/opt/driver/share/streaming-state/jars"
    assert driver_python({}) == sys.executable
    assert not has_own_python({})


def test_a_jvm_has_our_logging_no_locale_of_the_machine_and_does_not_live_on_without_memory(tmp_path: Path) -> None:
    assert LOGGING.is_file()
    logging = f"-Dlog4j2.configurationFile={LOGGING.as_uri()}"
    expected = {logging, "-Duser.language=en", "-Duser.country=US", END_WITHOUT_MEMORY, *COMPILE_LATER}
    assert expected <= set(shlex.split(jvm_options(tmp_path / "spark")))


def test_an_archive_of_classes_is_named_only_where_there_is_one(tmp_path: Path) -> None:
    jars = tmp_path / "with a space" / "spark-4.1.1"
    jars.mkdir(parents=True)
    assert "SharedArchiveFile" not in jvm_options(jars)
    class_archive(jars).touch()
    assert f"-XX:SharedArchiveFile={jars}.jsa" in shlex.split(jvm_options(jars))


JARS = Path("/platform/jars")
ARCHIVE = PackageArchive(Path("/platform/jobs/sessionizer"), Path("/platform/home/packages"))


def options_on(master: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv(f"AIRFLOW_CONN_{CONNECTION.upper()}", json.dumps({"conn_type": "spark", "host": master}))
    conf: dict[str, str] = SparkTarget.of(CONNECTION).options(JARS, ARCHIVE)["conf"]
    return conf


@pytest.mark.parametrize("master", ["local[*]", "local[2]", "local-cluster[2,1,1024]"])
def test_airflow_starts_a_local_driver_with_all_that_cannot_change_later(
    master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_local_master(master)
    assert options_on(master, monkeypatch) == {
        **launch_settings(JARS),
        "spark.executorEnv.PYTHONPATH": "/platform/jobs",
    }


@pytest.mark.parametrize("master", ["spark://master:7077", "yarn"])
def test_a_cluster_gets_none_of_them(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_local_master(master)
    assert not options_on(master, monkeypatch).keys() & {*launch_settings(JARS), *session_settings()}
