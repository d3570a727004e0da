"""Which variables an Airflow connection of an object store comes to, and which connections are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessionizer.errors import UnusableConnection
from sessionizer_airflow.launching.connection import SparkTarget
from sessionizer_airflow.launching.store_connection import STORE_CONNECTION, store_variables

NAMED = {STORE_CONNECTION: "lake"}


def connect(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(fields))


def target(monkeypatch: pytest.MonkeyPatch, host: str = "spark://one:7077", **extra: str) -> SparkTarget:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": host, "extra": extra}))
    return SparkTarget.of("spark_default")


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


def test_without_the_setting_no_connection_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert store_variables(target(monkeypatch), {}) == {}


@pytest.mark.parametrize(
    ("fields", "spark", "field"),
    [
        (None, {}, "id"),
        ({"conn_type": "postgres", "password": "secret"}, {}, "type"),
        (
            {"conn_type": "aws", "password": "secret"},
            {"host": "yarn", "deploy-mode": "cluster"},
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
