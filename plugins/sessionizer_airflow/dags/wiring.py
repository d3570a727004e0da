"""Facts that the DAGs of one DAG file share: the places, the settings and the specs, each read once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from sessionizer.home.names import is_name
from sessionizer.stream_spec.spec_folder import StreamFolder, spec_files, survey_streams
from sessionizer_airflow.operating.approval import ApprovalSettings
from sessionizer_airflow.project import Project
from sessionizer_airflow.supervision.policy import SupervisionSettings

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer.stream_spec.document.stream import StreamSpec


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """Places and settings of the DAGs of one DAG file."""

    project: Project
    supervision: SupervisionSettings
    approval: ApprovalSettings

    @classmethod
    def of(cls, streams: Path) -> Wiring:
        """Read the settings, for the specs in the folder ``streams``. Raises InvalidSpec, HomeMissing."""
        return cls(
            project=Project.from_environment(streams=streams),
            supervision=SupervisionSettings.from_environment(),
            approval=ApprovalSettings.from_environment(),
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
