"""The DAGs of a folder of specs, made for the namespace of a DAG file."""

from collections.abc import MutableMapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from airflow.sdk import DAG

from sessionizer.errors import STREAMS_FOLDER, InvalidSpec
from sessionizer.home.names import check_name, is_name
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import StreamFolder, spec_files, survey_streams
from sessionizer_airflow.dags.all_streams import (
    compaction_dag,
    erase_dag,
    maintenance_dag,
    orphans_dag,
    savepoints_dag,
    upgrade_list_dag,
)
from sessionizer_airflow.dags.one_stream import VERBS, report_dag, steering_dag, supervise_dag
from sessionizer_airflow.dags.operate import operate_dag, upgrade_dag
from sessionizer_airflow.errors import BrokenSpecs
from sessionizer_airflow.operating.approval import ApprovalSettings
from sessionizer_airflow.operating.erasures import ErasureSettings
from sessionizer_airflow.project import Project
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
        """The names of all streams.

        Streams with a broken spec are included, because they run on with their last spec and may need help.
        """
        return sorted({file.stem for file in spec_files(self.project.streams) if is_name(file.stem)})

    @property
    def pool(self) -> str:
        """The pool of scheduled Spark jobs. Each occupies a worker and a JVM, and supervision needs its own slots."""
        return self.supervision.report_pool

    @property
    def watch_lease(self) -> timedelta:
        """The length of one watch."""
        return timedelta(milliseconds=self.supervision.watch_lease_ms)


def fill_namespace(namespace: MutableMapping[str, Any], folder: str, platform: str | None) -> None:
    """Put the DAGs of the streams in ``folder``, and the platform's DAGs unless ``platform`` is None, in ``namespace``.

    Raises InvalidSpec: there is no such folder, or ``platform`` is no name.
    Raises HomeMissing.
    """
    wiring = Wiring.of(folder_beside(namespace, folder))
    dags: list[DAG] = []
    for spec in wiring.specs:
        dags += [supervise_dag(spec, wiring), report_dag(spec, wiring)]
        dags += [steering_dag(spec, wiring, verb) for verb in VERBS]
    if platform is not None:
        check_name("platform", platform)
        of_forms = (operate_dag, upgrade_dag, upgrade_list_dag)
        dags += [
            make(wiring, platform) for make in (*of_forms, savepoints_dag, compaction_dag, maintenance_dag, orphans_dag)
        ]
        dags += [] if wiring.erasures is None else [erase_dag(wiring, platform, wiring.erasures)]
    namespace.update({dag.dag_id: dag for dag in dags})


def require_sound_specs(namespace: MutableMapping[str, Any], folder: str) -> None:
    """Raise BrokenSpecs if a spec in ``folder`` is broken. Airflow then lists the DAG file as an import error."""
    problems = Wiring.of(folder_beside(namespace, folder)).folder.problems
    if problems:
        raise BrokenSpecs(problems)


def folder_beside(namespace: MutableMapping[str, Any], folder: str) -> Path:
    """Return the folder as an absolute path. A relative one is beside the DAG file, wherever its bundle is.

    Raises InvalidSpec: it is relative, and ``namespace`` is not that of a file.
    """
    given = Path(folder).expanduser()
    file = namespace.get("__file__")
    if not given.is_absolute() and file is None:
        raise InvalidSpec(STREAMS_FOLDER, folder, "an absolute path, or a call with globals() of a DAG file")
    return given if file is None else Path(file).absolute().parent / given
