"""A site with a YARN cluster, and one stream on it under a running Airflow."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sessionizer.home.roots import CONTROL_VARIABLE
from sessionizer_airflow.supervision.act import Supervisor
from sessionizer_demo.local_airflow.installation import Installation
from support.cluster.site import (
    HERE,
    ClusterStage,
    Site,
    end_newest_driver,
    environment_of,
    supervisor_of_scripted_drivers,
)
from support.processes.hadoop import Hdfs, Yarn
from support.processes.live_airflow import Platform, running_airflow


@pytest.fixture
def site(request: pytest.FixtureRequest, yarn: Yarn, tmp_path: Path) -> Site:
    """Its drivers and executors have hosts of their own, which takes root, unless a test wants them ``HERE``."""
    platform = tmp_path / "platform"
    platform.mkdir()
    return Site.of(yarn, tmp_path, platform, apart=getattr(request, "param", "") != HERE)


@pytest.fixture
def supervisor(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    """Its drivers do without Spark's work; the last of them is killed."""
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    found = supervisor_of_scripted_drivers(site, tmp_path)
    yield found
    end_newest_driver(found)


@pytest.fixture(scope="module")
def control_in_hdfs() -> bool:
    """Whether control is there, too: a module may say so."""
    return False


@pytest.fixture(scope="module")
def clicks(
    running_hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory, *, control_in_hdfs: bool
) -> Iterator[ClusterStage]:
    """The one stream of a module; its platform is beside its specs."""
    root = tmp_path_factory.mktemp("cluster")
    data = f"{running_hdfs.uri}/{root.name}"
    with pytest.MonkeyPatch.context() as environment:
        if control_in_hdfs:
            environment.setenv(CONTROL_VARIABLE, f"{data}/control")
        yield ClusterStage.set_up(root, root / "sessionizer", data, f"{data}/control" if control_in_hdfs else None)


@pytest.fixture(scope="module")
def platform(clicks: ClusterStage, running_yarn: Yarn) -> Iterator[Platform]:
    stage = clicks.stage
    installation = Installation(
        root=stage.root,
        settings={
            **environment_of(clicks, running_yarn),
            "SESSIONIZER_STARTUP_GRACE": "3 minutes",
            # a new executor takes its time to come: a driver that waits for one does not hang
            "SESSIONIZER_STALE_LIMIT": "1 minute",
            # each of several faults in a row finds a full budget
            "SESSIONIZER_HEALTHY_AFTER": "20 seconds",
            "SESSIONIZER_FIRST_BACKOFF": "2 seconds",
        },
    )
    with running_airflow(installation, {"clicks.supervise"}) as found:
        yield found
