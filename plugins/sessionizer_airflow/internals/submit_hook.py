"""Private parts of the Spark provider's hook: the fields of a connection, and the command of a job.

The public way is ``SparkSubmitHook.submit``, which runs the command and waits for its end. It fits a job, but not a
driver that outlives its task. With the hook our commands are the same as those of every SparkSubmitOperator, for every
kind of master. Golden files notice when they change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.hooks import spark_submit
from airflow.sdk.exceptions import AirflowNotFoundException

from sessionizer.errors import KubernetesSupportMissing, SparkConnectionMissing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def resolved(connection: str) -> dict[str, Any]:
    """Return the fields of ``connection`` as the provider's hook has them: ``master``, ``deploy_mode`` and so on.

    We add one field from the connection's extra: ``resource_manager``.

    Raises SparkConnectionMissing: there is no such connection.
    Raises KubernetesSupportMissing: the provider cannot handle a Kubernetes master here.
    """
    try:
        found = spark_submit.SparkSubmitHook.get_connection(connection)
    except AirflowNotFoundException as error:
        raise SparkConnectionMissing(connection) from error
    if "k8s" in f"{found.conn_type}{found.host}" and not hasattr(spark_submit, "kube_client"):
        # The hook would report this itself, but fails on the name that it could not import.
        raise KubernetesSupportMissing(connection)
    fields: dict[str, Any] = spark_submit.SparkSubmitHook(conn_id=connection)._connection  # noqa: SLF001
    return {**fields, "resource_manager": found.extra_dejson.get("resource-manager")}


def built_command(
    connection: str, name: str, application: str, arguments: Sequence[str], options: Mapping[str, Any]
) -> list[str]:
    """Return the argument vector by which the hook would start ``application`` as the job ``name``."""
    hook = spark_submit.SparkSubmitHook(conn_id=connection, name=name, application_args=list(arguments), **options)
    command: list[str] = hook._build_spark_submit_command(application)  # noqa: SLF001
    return command
