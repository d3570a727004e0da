"""A supervisor whose drivers YARN runs for real, without Spark's work in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.launching.by_connection import ConnectionLauncher
from sessionizer_airflow.project import Folders, Project
from sessionizer_airflow.supervision.act import Supervisor
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from support.expected.heard import Heard
from support.places import REPOSITORY, SUPPORT

if TYPE_CHECKING:
    from pathlib import Path

    from support.cluster.site import Site

PATIENT_ENOUGH = SupervisionPolicy(
    startup_grace_ms=90_000, stale_limit_ms=4_000, first_backoff_ms=300, longest_backoff_ms=1_000, restart_budget=3
)


def supervisor_of_scripted_drivers(site: Site, folder: Path) -> Supervisor:
    """The application that brings the drivers is made in ``folder``, and is real."""
    application = folder / "application"
    application.mkdir()
    (application / "main.py").symlink_to(SUPPORT / "processes" / "scripted_driver.py")
    (application / "sessionizer").symlink_to(REPOSITORY / "jobs" / "sessionizer")
    project = Project(application=application / "main.py", streams=site.platform, jars=folder, home=site.platform)
    return Supervisor(
        stream="clicks",
        home=StreamHome.of(site.platform, "clicks"),
        folders=Folders(home=site.platform, streams=site.platform),
        launcher=ConnectionLauncher(project=project),
        policy=PATIENT_ENOUGH,
        say=Heard(),
    )
