"""Variables of an object store, from an Airflow connection into the environment of a driver or a job of this machine.

Options of a job and Spark's settings are visible to other users, so a key goes by the environment only.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from sessionizer.errors import UnusableConnection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer_airflow.launching.connection import SparkTarget

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
    "google_cloud_platform": {
        "GOOGLE_APPLICATION_CREDENTIALS": "key_path",
        "GOOGLE_CLOUD_PROJECT": "project",
    },
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
