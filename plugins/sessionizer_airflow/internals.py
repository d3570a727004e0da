"""Private parts of Airflow and its Spark provider: the command of a job, and the label of a task that runs.

The public way to submit is ``SparkSubmitHook.submit``, which runs the command and waits for its end. It fits a job, but
not a driver that outlives its task. With the hook our commands are the same as those of every SparkSubmitOperator, for
every kind of master. Golden files notice when they change.

The public way to label a task is a template (``map_index_template``), which Airflow renders when a task ends, but not
when it defers. Then the label is sent over the channel by which a worker's process talks to Airflow.

The public way to read what a task returned is its ``xcom_pull``, which a listener in the scheduler has not. It reads
the table of return values in the session of its run.

The public way to ask whether a DAG is paused, or which asset is active by a name, is Airflow's API, for which a worker
has no credentials. It asks over the same channel.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError

from sessionizer.errors import KubernetesSupportMissing, SparkConnectionMissing


def resolve_connection(connection: str) -> dict[str, Any]:
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


def send_label(label: str) -> None:
    """Show ``label`` (not empty: Airflow accepts no empty one), if this is a task's process. A refusal is ignored."""
    # imported here, because they are heavy and a worker has them already
    from airflow.sdk.execution_time.comms import SetRenderedMapIndex  # noqa: PLC0415

    _ask(SetRenderedMapIndex(rendered_map_index=label))


def is_dag_paused(dag: str) -> bool | None:
    """Return whether Airflow has the DAG paused. None outside of a task's process, or if Airflow does not know it."""
    from airflow.sdk.execution_time.comms import DagResult, GetDag  # noqa: PLC0415  as above

    answer = _ask(GetDag(dag_id=dag))
    return answer.is_paused if isinstance(answer, DagResult) else None


def find_asset_uri(name: str) -> str | None:
    """Return the URI of the active asset of that name. None outside of a task's process, or if there is none."""
    from airflow.sdk.execution_time.comms import AssetResult, GetAssetByName  # noqa: PLC0415  as above

    answer = _ask(GetAssetByName(name=name))
    return answer.uri if isinstance(answer, AssetResult) else None


def _ask(question: Any) -> object:  # noqa: ANN401  a message of Airflow's
    """Return Airflow's answer. None outside of a task's process, or if Airflow refuses it."""
    from airflow.sdk.execution_time import task_runner  # noqa: PLC0415  as above

    supervisor = getattr(task_runner, "SUPERVISOR_COMMS", None)
    with suppress(AirflowRuntimeError):
        return None if supervisor is None else supervisor.send(question)
    return None


def find_returned_tasks(run: DagRun) -> set[str]:
    """Return the tasks of ``run`` whose return value Airflow has. A run has a session only in a listener."""
    from airflow.models.xcom import XCOM_RETURN_KEY, XComModel  # noqa: PLC0415  as above
    from sqlalchemy.orm import object_session  # noqa: PLC0415

    session = object_session(run)
    if session is None:
        return set()
    kept = XComModel.get_many(run_id=run.run_id, dag_ids=run.dag_id, key=XCOM_RETURN_KEY)
    return set(session.scalars(kept.with_only_columns(XComModel.task_id)))
