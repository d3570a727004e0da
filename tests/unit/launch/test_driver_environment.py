"""What a driver is started with, of all that Airflow's processes have."""

from __future__ import annotations

from sessionizer.launch.driver_environment import MORE, driver_environment

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


def test_what_is_airflows_own_is_not_to_be_had() -> None:
    assert driver_environment({**AIRFLOW, MORE: "*"}, list(AIRFLOW)) == {MORE: "*"}
