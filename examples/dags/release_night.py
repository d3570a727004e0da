"""A savepoint of each stream, then their upgrades in waves with one approval, then a report once all are healthy."""

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

from sessionizer_airflow import SavepointStream, StreamSensor, UpgradeStreams

STREAMS = ["clicks", "access_log"]

with DAG("release_night", schedule=None):
    save = SavepointStream.partial(task_id="save", why="before the release").expand(stream=STREAMS)
    upgrade = UpgradeStreams(task_id="upgrade", streams=STREAMS)
    healthy = StreamSensor.partial(task_id="wait_until_healthy", timeout=3600).expand(stream=STREAMS)
    save >> upgrade >> healthy >> BashOperator(task_id="report", bash_command="sessionizer status")
