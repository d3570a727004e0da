"""Events built and sent by OpenLineage's own client. Imported only in the thread that sends them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from openlineage.client import OpenLineageClient
from openlineage.client import event_v2 as events
from openlineage.client.facet_v2 import JobFacet, RunFacet, error_message_run, job_type_job, parent_run, tags_run
from openlineage.client.uuid import generate_static_uuid

from sessionizer import __version__
from sessionizer.redaction import redact_and_cut

if TYPE_CHECKING:
    from sessionizer.control.openlineage.reporter import Run, RunName

events.set_producer(f"urn:streaming-state:{__version__}")
LONGEST_MESSAGE = 500


def run_event(run: Run, state: str, at: int, failure: str = "") -> events.RunEvent:
    """Return the event that ``run`` reached ``state`` (START, RUNNING, COMPLETE, FAIL) at ``at`` (epoch ms)."""
    kind = "STREAMING" if run.is_streaming else "BATCH"
    job_type: dict[str, JobFacet] = {
        "jobType": job_type_job.JobTypeJobFacet(
            processingType=kind, integration="SPARK", jobType="JOB" if run.is_streaming else "COMMAND"
        )
    }
    return events.RunEvent(
        eventType=events.RunState[state],
        eventTime=_instant(at).isoformat(),
        run=events.Run(runId=_run_id(run.name), facets=_facets(run, failure)),
        job=events.Job(namespace=run.name.namespace, name=run.name.job, facets=job_type),
        inputs=[events.InputDataset(namespace=each.namespace, name=each.name) for each in run.inputs],
        outputs=[events.OutputDataset(namespace=each.namespace, name=each.name) for each in run.outputs],
    )


def client() -> OpenLineageClient:
    """Return the client that OpenLineage's own variables and files configure."""
    return OpenLineageClient()


def _facets(run: Run, failure: str) -> dict[str, RunFacet]:
    found: dict[str, RunFacet] = {}
    if run.parent is not None:
        found["parent"] = parent_run.ParentRunFacet(
            run=parent_run.Run(runId=_run_id(run.parent)),
            job=parent_run.Job(namespace=run.parent.namespace, name=run.parent.job),
        )
    if run.lineage is not None:
        tag = tags_run.TagsRunFacetFields(key="lineage", value=run.lineage, source="streaming-state")
        found["tags"] = tags_run.TagsRunFacet(tags=[tag])
    if failure:
        found["errorMessage"] = error_message_run.ErrorMessageRunFacet(
            message=redact_and_cut(failure, LONGEST_MESSAGE), programmingLanguage="PYTHON"
        )
    return found


def _run_id(name: RunName) -> str:
    if name.minted is None:
        return name.run_id
    at, key = name.minted
    return str(generate_static_uuid(_instant(at), f"{name.namespace}/{name.job}/{key}".encode()))


def _instant(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1000, UTC)
