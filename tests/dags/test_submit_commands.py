"""The exact spark-submit command of every task, on every kind of master, against golden files."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.providers.apache.spark.hooks import spark_submit

from sessionizer_airflow.launching.cluster import ConnectionLauncher
from sessionizer_airflow.launching.spark_submit import DriverCall, SparkTarget
from sessionizer_airflow.operating.jobs import OperateJob
from sessionizer_airflow.operators.batch_jobs import SparkBatchJob
from sessionizer_airflow.operators.supervise_stream import SuperviseStream
from sessionizer_airflow.project import Folders
from support.places import REPOSITORY

UID = "0123456789ab"
YARN = {"queue": "streams", "resource-manager": "http://resourcemanager:8088"}
CONNECTIONS = {
    "local": {"conn_type": "spark", "host": "local[2]"},
    "standalone_client": {"conn_type": "spark", "host": "spark://master", "port": 7077},
    "yarn_client": {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "client", "queue": "streams"}},
    "yarn_cluster": {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster", **YARN}},
    "kubernetes_cluster": {
        "conn_type": "spark",
        "host": "k8s://https://kubernetes",
        "port": 6443,
        "extra": {"deploy-mode": "cluster", "namespace": "streams"},
    },
}


@pytest.mark.usefixtures("tuned")
@pytest.mark.parametrize("kind", CONNECTIONS)
def test_submit_commands(
    kind: str, dag_bag: DagBag, jars: Path, golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The client that the provider's extra `cncf-kubernetes` brings; a submission does not use it.
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(CONNECTIONS[kind]))
    commands = {
        f"{dag_id}.{task.task_id}": command
        for dag_id, dag in sorted(dag_bag.dags.items())
        for task in dag.tasks
        if (command := command_of(task)) is not None
    }
    of_streams = [dag_id for dag_id in dag_bag.dags if not dag_id.startswith("sessionizer.")]
    assert len(commands) == len(of_streams) / 2, "each stream has two DAGs that start Spark"
    text = "".join(f"# {task}\n{shlex.join(command)}\n\n" for task, command in commands.items())
    text = re.sub(r"sessionizer-[0-9a-f]{12}\.zip", "sessionizer-$DIGEST.zip", text)
    golden(f"spark_submit/{kind}.txt", text.replace(str(jars), "$JARS").replace(str(REPOSITORY), "$ROOT"))


def command_of(task: object) -> list[str] | None:
    """None as well for the jobs of a form: what those are called with is known when it is filled in."""
    if isinstance(task, SuperviseStream):
        assert isinstance(task.launcher, ConnectionLauncher)
        folders = Folders(home=task.project.home, streams=task.project.streams)
        call = DriverCall(stream=task.stream, uid=UID, folders=folders)
        return task.launcher.command(call, settings_of(task.launcher))
    if isinstance(task, SparkBatchJob) and not isinstance(task, OperateJob):
        task.fit_to_connection()
        return [str(word) for word in task._get_hook()._build_spark_submit_command(task.application)]
    return None


def settings_of(launcher: ConnectionLauncher) -> dict[str, str]:
    target = SparkTarget.of(launcher.connection)
    if not target.is_in_cluster:
        return {}
    manager = launcher._cluster(target.master, target.namespace).manager
    return manager.settings(manager.submission(UID))
