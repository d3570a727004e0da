"""Scheduled compactions: find the due streams, and run one job for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sessionizer.errors import SessionizerError
from sessionizer.home.clock import epoch_ms
from sessionizer.state.compaction.plan import judge_compaction
from sessionizer.state.savepoints.schedule import Judgement
from sessionizer.stream_spec.spec_folder import survey_streams
from sessionizer_airflow.launching.argv import compaction_argv
from sessionizer_airflow.operators.batch_jobs import SparkBatchJob, job_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer_airflow.project import Project


class CompactTables(SparkBatchJob):
    """Job that compacts the tables of a stream."""

    def __init__(self, *, stream: str, project: Project, **kwargs: Any) -> None:
        argv = compaction_argv(project.folders, stream)
        super().__init__(job=job_of(project, f"{stream}.compaction", argv), **kwargs)
        self.stream = stream


def streams_due_for_compaction(project: Project, say: Callable[[str], None]) -> list[dict[str, str]]:
    """Return the arguments for each due stream, and say a line for each stream that asks for compactions.

    A stream that cannot be examined counts as due, so that its own job fails of it, and no other job.
    """
    due = []
    for name, spec in survey_streams(project.streams).specs.items():
        every_ms = spec.compaction.every_ms
        if every_ms is None:
            continue
        try:
            judgement = judge_compaction(project.home_of(name), every_ms, epoch_ms())
        except (SessionizerError, OSError) as error:
            judgement = Judgement(due=True, because=f"it cannot be looked at: {error}")
        say(f"{name}: {'due' if judgement.due else 'not due'}: {judgement.because}")
        due += [{"stream": name}] if judgement.due else []
    return due
