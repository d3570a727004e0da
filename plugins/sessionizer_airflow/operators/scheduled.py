"""Tasks over many streams: due compactions and due savepoints, one job for each, and the deletion of old savepoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator, Context

from sessionizer.errors import SessionizerError
from sessionizer.home.clock import epoch_ms
from sessionizer.home.names import mint_id
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import locate_data
from sessionizer.state.compaction.plan import judge_compaction
from sessionizer.state.savepoints.schedule import Judgement, judge_stream, prune_scheduled, reason
from sessionizer.stream_spec.document.stream import Savepoints
from sessionizer.stream_spec.spec_folder import survey_streams
from sessionizer_airflow.alerting.alert import Alert
from sessionizer_airflow.alerting.notification import notify
from sessionizer_airflow.errors import PersonNeeded, StreamFindings
from sessionizer_airflow.launching.spark_submit import compaction_argv, savepoint_argv
from sessionizer_airflow.operators.batch_jobs import SparkBatchJob, job_of
from sessionizer_airflow.project import Project

if TYPE_CHECKING:
    Say = Callable[[str], None]
    Tell = Callable[[Alert], None]


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


LABEL: Final = "{{ task.stream }}"
"""Label of each mapped task in a list: the name of its stream."""


class TakeSavepoint(SparkBatchJob):
    """Job that makes a savepoint with the id ``savepoint`` of the stream's newest batch.

    A complete one is not made again.
    """

    def __init__(self, *, stream: str, savepoint: str, why: str, native: bool, project: Project, **kwargs: Any) -> None:
        argv = savepoint_argv(project.folders, stream, savepoint, why=why, native=native)
        super().__init__(job=job_of(project, f"{stream}.savepoint", argv), **kwargs)
        self.stream = stream


def streams_due_for_savepoints(project: Project, say: Callable[[str], None]) -> list[dict[str, str | bool]]:
    """Return the arguments for each due stream, and say a line for each stream that asks for savepoints.

    A stream that cannot be examined counts as due, so that its own job fails of it, and no other job.
    """
    now = epoch_ms()
    due: list[dict[str, str | bool]] = []
    for home, wanted, every_ms in _asking(project):
        try:
            judgement = judge_stream(home, every_ms, now, native=wanted.native)
            is_due, because = judgement.due, judgement.because
        except (SessionizerError, OSError) as error:
            is_due, because = True, f"it cannot be looked at: {error}"
        say(f"{home.name}: {'due' if is_due else 'not due'}: {because}")
        if is_due:
            asked = {"stream": home.name, "savepoint": mint_id(now), "why": reason(every_ms)}
            due.append({**asked, "native": wanted.native})
    return due


def prune_savepoints(project: Project, say: Callable[[str], None]) -> None:
    """Delete the savepoints that the specs do not keep.

    Raises StreamFindings, at the end, for streams where that failed.
    """
    wrong = []
    for home, wanted, _ in _asking(project):
        try:
            prune_scheduled(home, wanted, say)
        except (SessionizerError, OSError) as error:
            wrong.append(f"{home.name}: {error}")
            say(wrong[-1])
    if wrong:
        raise StreamFindings(
            wrong,
            "correct what the message names. `sessionizer savepoint prune <stream> --plan` shows what would be removed",
        )


def _asking(project: Project) -> Iterator[tuple[StreamHome, Savepoints, int]]:
    """Yield the streams whose spec asks for savepoints, with its settings and the time between savepoints, in ms."""
    for name, spec in survey_streams(project.streams).specs.items():
        wanted = spec.savepoints
        if wanted.every_ms is not None:
            yield locate_data(project.home_of(name)), wanted, wanted.every_ms


class StreamsTask(BaseOperator):
    """Task that looks at many streams. It fails, without a retry, if they have findings.

    ``look`` takes a function that logs a line, and one that sends an alert. The task returns its result.
    """

    ui_color = "#dfe6f3"

    def __init__(self, *, look: Callable[[Say, Tell], Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.look = look

    def execute(self, context: Context) -> Any:  # noqa: ANN401, ARG002 - the interface
        """Look at the streams."""
        try:
            return self.look(self.log.info, lambda alert: notify(alert, self.log.warning))
        except StreamFindings as error:
            raise PersonNeeded.wrap(error) from None
