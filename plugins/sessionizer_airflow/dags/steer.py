"""The two DAGs of a stream that stop it and start it. They record the desired state. Wiring only."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG, Param

from sessionizer.control.records.desired_state import DesiredState
from sessionizer.home.names import Verb, dag_id
from sessionizer_airflow.dag_defaults import steering_dag_options
from sessionizer_airflow.operators.set_desired_state import SetDesiredState

if TYPE_CHECKING:
    from sessionizer.stream_spec.document.stream import StreamSpec
    from sessionizer_airflow.dags.wiring import Wiring

VERBS = {
    Verb.STOP: (
        DesiredState.STOPPED,
        "Stops the stream at the next batch boundary, and keeps it stopped until `{start}` runs.",
    ),
    Verb.START: (
        DesiredState.RUNNING,
        "Starts the stream: `{supervise}` launches its driver, and must not be paused.",
    ),
}

APPLY = Param(
    False,  # noqa: FBT003  Airflow's signature
    type="boolean",
    title="Apply the changed spec",
    description="Use the stream's file as it is now. Otherwise the stream continues with its recorded spec.",
)
# In Airflow's form only a type that allows null is optional. With another type its button stays grey.
WHY = Param(
    None, type=["null", "string"], maxLength=500, title="Why", description="Optional. Kept with the desired state."
)


def steering_dags(spec: StreamSpec, wiring: Wiring) -> list[DAG]:
    """Return the DAG that stops the stream of ``spec``, and the one that starts it."""
    return [_steering_dag(spec, wiring, verb) for verb in VERBS]


def _steering_dag(spec: StreamSpec, wiring: Wiring, verb: Verb) -> DAG:
    state, documentation = VERBS[verb]
    text = documentation.format(**{str(other): dag_id(spec.name, other) for other in Verb})
    with DAG(
        **steering_dag_options(spec, verb, text, run_limit=timedelta(minutes=10)),
        schedule=None,
        params={"why": WHY, **({"apply": APPLY} if verb is Verb.START else {})},
    ) as dag:
        SetDesiredState(
            task_id=str(verb),
            stream=spec.name,
            project=wiring.project,
            state=state,
            why="{{ params.why or '' }}",
            apply="{{ params.apply }}" if verb is Verb.START else False,
            retries=0,
        )
    return dag
