"""The DAGs of a folder of specs, made for the namespace of a DAG file, and those of each stream. Wiring only."""

from collections.abc import MutableMapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from airflow.sdk import DAG, Param

from sessionizer.control.records.supervision_records import DesiredState
from sessionizer.errors import STREAMS_FOLDER, InvalidSpec
from sessionizer.home.names import Verb, check_name, dag_id, is_name
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import StreamFolder, spec_files, survey_streams
from sessionizer_airflow.alerting import watch_deadline
from sessionizer_airflow.assets import report_due_asset, watched_sessions_asset
from sessionizer_airflow.dags.all_streams import (
    compaction_dag,
    erase_dag,
    maintenance_dag,
    orphans_dag,
    savepoints_dag,
    upgrade_list_dag,
)
from sessionizer_airflow.dags.operate import operate_dag, upgrade_dag
from sessionizer_airflow.errors import BrokenSpecs
from sessionizer_airflow.operating.approval import ApprovalSettings
from sessionizer_airflow.operating.erasures import ErasureSettings
from sessionizer_airflow.operators.batch_jobs import SparkBatchJob
from sessionizer_airflow.operators.desired_state import SetDesiredState
from sessionizer_airflow.operators.supervise_stream import SuperviseStream
from sessionizer_airflow.project import Project, dag_options
from sessionizer_airflow.supervision.policy import SupervisionSettings


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """Places and settings of the DAGs of one DAG file."""

    project: Project
    supervision: SupervisionSettings
    approval: ApprovalSettings
    erasures: ErasureSettings | None = None
    """None without a table of requests: then no DAG reads it."""

    @classmethod
    def of(cls, streams: Path) -> Self:
        """Read the settings, for the specs in the folder ``streams``. Raises InvalidSpec, HomeMissing."""
        return cls(
            project=Project.from_environment(streams=streams),
            supervision=SupervisionSettings.from_environment(),
            approval=ApprovalSettings.from_environment(),
            erasures=ErasureSettings.from_environment(),
        )

    @cached_property
    def folder(self) -> StreamFolder:
        """The specs, and the problems of the broken ones."""
        return survey_streams(self.project.streams)

    @property
    def specs(self) -> list[StreamSpec]:
        """The specs that can be read."""
        return list(self.folder.specs.values())

    @property
    def stream_names(self) -> list[str]:
        """The names of all streams, also of broken specs: they run on with their last spec, and may need help."""
        return sorted({file.stem for file in spec_files(self.project.streams) if is_name(file.stem)})


SUPERVISE_DOCUMENTATION = """
Keeps the stream's driver running.

Each run is a bounded watch: it adopts the live driver or launches one, then follows its heartbeat without holding a
worker. The driver outlives runs, restarts and upgrades of Airflow.

- **Stop the stream**: run the DAG `{stream}.stop`, or mark the running task failed.
- **Start it**: run `{stream}.start`, and unpause this DAG if it is paused. A task marked failed pauses it too.
- **Clear the running task**: the driver stops at the next batch boundary, and another one is launched.
- **Pause this DAG**: the supervision ends, but *not* the stream. The driver keeps running without a watch.
- **A failed run** means that a restart cannot help. The task's log says why and what to do. This DAG has paused
  itself. Remove the cause, then unpause it.
"""

# Retries are for Airflow's own faults, such as a killed worker or an unreachable API server. They may last. A task that
# gave up meanwhile would pause the DAG, and the stream would have no watch. A fault that a retry cannot fix fails at
# once.
RETRIES: dict[str, Any] = {
    "retries": 240,
    "retry_delay": timedelta(seconds=5),
    "retry_exponential_backoff": 1.5,
    "max_retry_delay": timedelta(minutes=1),
}


def supervise_dag(spec: StreamSpec, wiring: Wiring) -> DAG:
    """Return the DAG that keeps the driver of ``spec`` up."""
    watch_lease = timedelta(milliseconds=wiring.supervision.watch_lease_ms)
    overdue_after = watch_lease + timedelta(milliseconds=wiring.supervision.watch_grace_ms)
    documentation = SUPERVISE_DOCUMENTATION.format(stream=spec.name)
    with DAG(
        **dag_options(spec, Verb.SUPERVISE, documentation, run_limit=watch_lease + timedelta(hours=1)),
        schedule="@continuous",
        max_consecutive_failed_dag_runs=1,
        # A user runs it by unpausing it. The ids of scheduled runs sort by date, by which past runs are recognised.
        allowed_run_types=["scheduled"],  # type: ignore[list-item]  # Airflow takes the name
        deadline=watch_deadline(spec.name, wiring.project.home, overdue_after),
    ) as dag:
        SuperviseStream(
            task_id="supervise",
            stream=spec.name,
            project=wiring.project,
            policy=wiring.supervision.policy,
            watch_lease_ms=wiring.supervision.watch_lease_ms,
            **RETRIES,
        )
    return dag


VERBS = {
    Verb.STOP: (
        DesiredState.STOPPED,
        "Stops the stream at the next batch boundary, and keeps it stopped until `{start}` runs.",
    ),
    Verb.START: (DesiredState.RUNNING, "Starts the stream: `{supervise}` launches its driver, and must not be paused."),
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


def steering_dag(spec: StreamSpec, wiring: Wiring, verb: Verb) -> DAG:
    """Return the DAG that stops or starts the stream of ``spec``, by its ``verb``."""
    state, documentation = VERBS[verb]
    text = documentation.format(**{str(other): dag_id(spec.name, other) for other in Verb})
    with DAG(
        **dag_options(spec, verb, text, run_limit=timedelta(minutes=10)),
        # A request must take effect at once. A run that a schedule or a backfill starts is not a user's request.
        is_paused_upon_creation=False,
        allowed_run_types=["manual"],  # type: ignore[list-item]  # Airflow takes the name
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


REPORT_DOCUMENTATION = """
Rebuilds `sessions_daily` from the sessions that have landed.

Runs when new rows have landed, at most every five minutes (`SESSIONIZER_REPORT_INTERVAL`), with an event of the asset
`{stream}.report_due`. The asset `{stream}.sessions` has an event at most every minute. It carries the Delta version,
the number of rows and the watermark. Schedule your own DAGs with `schedule=[sessions_asset("{stream}")]`, after
`from sessionizer_airflow import sessions_asset`.
"""


def report_dag(spec: StreamSpec, wiring: Wiring) -> DAG:
    """Return the DAG that rebuilds the daily table of ``spec``."""
    project, settings = wiring.project, wiring.supervision
    documentation = REPORT_DOCUMENTATION.format(stream=spec.name)
    with DAG(
        **dag_options(spec, Verb.REPORT, documentation, run_limit=timedelta(hours=2)),
        schedule=[
            watched_sessions_asset(spec.name, project.home, settings.landing_interval_ms),
            report_due_asset(spec.name, project.home, settings.report_interval_ms),
        ],
    ) as dag:
        SparkBatchJob(
            task_id="sessions_daily",
            name=f"{spec.name}.report",
            arguments=project.job_argv(spec.name, "report"),
            project=project,
            pool=settings.report_pool,
            execution_timeout=timedelta(hours=1),
            retries=2,
            retry_delay=timedelta(minutes=1),
        )
    return dag


def fill_namespace(namespace: MutableMapping[str, Any], folder: str, platform: str | None) -> None:
    """Put the DAGs of the streams in ``folder``, and the platform's DAGs, in ``namespace``. See ``stream_dags``."""
    wiring = Wiring.of(folder_beside(namespace, folder))
    dags: list[DAG] = []
    for spec in wiring.specs:
        dags += [supervise_dag(spec, wiring), report_dag(spec, wiring)]
        dags += [steering_dag(spec, wiring, verb) for verb in VERBS]
    if platform is not None:
        check_name("platform", platform)
        of_forms = (operate_dag, upgrade_dag, upgrade_list_dag)
        of_schedules = (savepoints_dag, compaction_dag, maintenance_dag, orphans_dag)
        dags += [make(wiring, platform) for make in (*of_forms, *of_schedules)]
        dags += [] if wiring.erasures is None else [erase_dag(wiring, platform, wiring.erasures)]
    namespace.update({dag.dag_id: dag for dag in dags})


def require_sound_specs(namespace: MutableMapping[str, Any], folder: str) -> None:
    """Raise BrokenSpecs if a spec in ``folder`` is broken. Airflow then lists the DAG file as an import error."""
    problems = Wiring.of(folder_beside(namespace, folder)).folder.problems
    if problems:
        raise BrokenSpecs(problems)


def folder_beside(namespace: MutableMapping[str, Any], folder: str) -> Path:
    """Return the folder, absolute or beside the DAG file. Raises InvalidSpec if ``namespace`` is not that of a file."""
    given = Path(folder).expanduser()
    file = namespace.get("__file__")
    if not given.is_absolute() and file is None:
        raise InvalidSpec(STREAMS_FOLDER, folder, "an absolute path, or a call with globals() of a DAG file")
    return given if file is None else Path(file).absolute().parent / given
