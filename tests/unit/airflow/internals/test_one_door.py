"""What is private to Airflow or its Spark provider is used in one room, and is there in the pinned versions."""

import inspect
import re

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk.execution_time.comms import AssetResult, DagResult, GetAssetByName, GetDag, SetRenderedMapIndex
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from support.places import REPOSITORY

PLUGIN = REPOSITORY / "plugins" / "sessionizer_airflow"
SIGNS = (
    r"airflow\.sdk\.execution_time",
    "SUPERVISOR_COMMS",
    "noqa: SLF001",
    "hooks import spark_submit",
    r"hooks\.spark_submit",
)
PRIVATE = re.compile("|".join(SIGNS))


def test_only_the_internals_use_what_is_private() -> None:
    users = {path.relative_to(PLUGIN).parts[0] for path in PLUGIN.rglob("*.py") if PRIVATE.search(path.read_text())}
    assert users == {"internals.py"}


def test_the_internals_name_the_public_way_of_each() -> None:
    assert (PLUGIN / "internals.py").read_text().count("The public way ") == 4


def test_what_is_used_is_there() -> None:
    assert callable(SparkSubmitHook._build_spark_submit_command)
    assert SetRenderedMapIndex(rendered_map_index="working").rendered_map_index == "working"
    assert GetDag(dag_id="clicks.supervise").dag_id == "clicks.supervise"
    assert "is_paused" in DagResult.model_fields
    assert GetAssetByName(name="clicks.sessions").name == "clicks.sessions"
    assert "uri" in AssetResult.model_fields
    asked = {"dag_id": "a", "task_ids": ["b"], "run_ids": ["c"], "map_index": -1}
    assert inspect.signature(RuntimeTaskInstance.get_task_states).bind(**asked).arguments == asked
