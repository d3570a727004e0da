"""What a driver is started with, of all that Airflow's processes have."""

from __future__ import annotations

import pytest

from sessionizer.launch.driver_environment import ALLOWED, MORE, driver_environment, hide_airflows, is_allowed

AIRFLOW = {
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://airflow:pw@db/airflow",
    "AIRFLOW__CORE__FERNET_KEY": "k",
    "AIRFLOW_CONN_WAREHOUSE": "c",
    "_AIRFLOW_PROCESS_CONTEXT": "server",
    "SESSIONIZER_NOTIFIER_ARGUMENTS": '{"token": "t"}',
}
NEEDED = dict.fromkeys(("PATH", "HOME", "LANG", "LC_ALL", "TZ", "JAVA_HOME", "SPARK_LOCAL_IP", "HADOOP_CONF_DIR"), "x")
OTHERS = {
    "DATABASE_URL": "x",
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_REGION": "x",
    "AZURE_CLIENT_SECRET": "x",
    "KAFKA_JAAS": "x",
}


def test_it_gets_what_it_needs_and_nothing_else() -> None:
    assert driver_environment({**AIRFLOW, **NEEDED, **OTHERS, "SESSIONIZER_HOME": "h"}) == {
        **NEEDED,
        "SESSIONIZER_HOME": "h",
    }


def test_what_its_spec_or_the_installation_names_comes_too() -> None:
    more = {MORE: "AWS_*, AZURE_CLIENT_SECRET"}
    given = driver_environment({**AIRFLOW, **OTHERS, **more}, ["KAFKA_JAAS"])
    assert sorted(given.keys() - more.keys()) == sorted(OTHERS.keys() - {"DATABASE_URL"})


def test_a_spec_names_no_variable_that_the_operator_does_not_allow() -> None:
    assert driver_environment(OTHERS, OTHERS) == {"KAFKA_JAAS": "x"}
    operator = {ALLOWED: "AWS_REGION, DATABASE_*"}
    given = driver_environment({**OTHERS, **operator}, OTHERS)
    assert sorted(given.keys() - operator.keys()) == ["AWS_REGION", "DATABASE_URL"]
    assert driver_environment({**OTHERS, ALLOWED: ""}, OTHERS) == {ALLOWED: ""}
    assert driver_environment({**AIRFLOW, ALLOWED: "*"}, AIRFLOW) == {ALLOWED: "*"}


@pytest.mark.parametrize(
    "name",
    ["KAFKA_JAAS", "CLICKS_KAFKA_JAAS", "VISITS_JAAS", "JAAS", "EU_KAFKA", "SASL_PLAIN", "A_SCHEMA_REGISTRY_LOGIN"],
)
def test_names_that_speak_of_kafka_need_no_word_of_the_operator(name: str) -> None:
    assert is_allowed(name, {})


@pytest.mark.parametrize(
    "name",
    [
        "AWS_SECRET_ACCESS_KEY",
        "DATABASE_URL",
        "AZURE_CLIENT_SECRET",
        "JDBC_PASSWORD",
        "PATH",
        "AIRFLOW_KAFKA_X",
        "CI_REGISTRY_PASSWORD",
    ],
)
def test_others_do(name: str) -> None:
    assert not is_allowed(name, {})


def test_what_is_airflows_own_is_away_for_as_long_as_a_child_is_started() -> None:
    environment = {**AIRFLOW, **NEEDED}
    with hide_airflows(environment):
        assert environment == NEEDED
    assert environment == {**AIRFLOW, **NEEDED}


def test_what_is_airflows_own_is_not_to_be_had() -> None:
    assert driver_environment({**AIRFLOW, MORE: "*"}, list(AIRFLOW)) == {MORE: "*"}
