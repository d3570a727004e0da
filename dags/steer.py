"""Two DAGs per stream, one to stop it and one to start it. They record the desired state. Wiring only."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from sessionizer.control.records.desired_state import DesiredState
from sessionizer.home.names import Verb, dag_id
from sessionizer.stream_spec.loading.folder import survey_streams
from sessionizer_airflow.house import steering_dag_options
from sessionizer_airflow.operators.supervise_stream import SetDesiredState
from sessionizer_airflow.project import Project

VERBS = {
    Verb.STOP: (
        DesiredState.STOPPED,
        "Stops the stream at the next batch boundary, and keeps it stopped until `{start}` runs.",
    ),
    Verb.START: (
        DesiredState.RUNNING,
        "Lets the stream run: `{supervise}`, which must not be paused, launches its driver.",
    ),
}

APPLY = Param(
    False,  # noqa: FBT003  Airflow's signature
    type="boolean",
    title="Apply the changed spec",
    description="Run by the stream's file as it is now. Left out, the stream goes on by the spec that it has.",
)
# In Airflow's form only a type that allows null is optional. With another type its button stays grey.
WHY = Param(
    None, type=["null", "string"], maxLength=500, title="Why", description="Optional. Kept with the desired state."
)

project = Project.from_environment()

for spec in survey_streams(project.streams).specs.values():
    for verb, (state, documentation) in VERBS.items():
        text = documentation.format(**{str(other): dag_id(spec.name, other) for other in Verb})
        with DAG(
            **steering_dag_options(spec, verb, text, run_limit=timedelta(minutes=10)),
            schedule=None,
            params={"why": WHY, **({"apply": APPLY} if verb is Verb.START else {})},
        ):
            SetDesiredState(
                task_id=str(verb),
                stream=spec.name,
                project=project,
                state=state,
                why="{{ params.why or '' }}",
                apply="{{ params.apply }}" if verb is Verb.START else False,
                retries=0,
            )
