"""Label of a task in Airflow's lists, sent before the task ends.

The public way is a template (``map_index_template``), which Airflow renders when a task ends, but not when it defers.
Then the label is sent over the channel by which a worker's process talks to Airflow.
"""

from __future__ import annotations

from contextlib import suppress

from airflow.sdk.exceptions import AirflowRuntimeError


def send_label(label: str) -> None:
    """Show ``label`` (not empty: Airflow accepts no empty one), if this is a task's process. A refusal is ignored."""
    # imported here, because they are heavy and a worker has them already
    from airflow.sdk.execution_time import task_runner  # noqa: PLC0415
    from airflow.sdk.execution_time.comms import SetRenderedMapIndex  # noqa: PLC0415

    supervisor = getattr(task_runner, "SUPERVISOR_COMMS", None)
    if supervisor is not None:
        with suppress(AirflowRuntimeError):
            supervisor.send(SetRenderedMapIndex(rendered_map_index=label))
