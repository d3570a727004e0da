"""Set-ups of a cluster in which no stream can work: each is told by name before anything of the stream is made."""

import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from upath import UPath

from sessionizer.causes.table import CAUSES
from sessionizer.home.data_files import list_names
from sessionizer.home.roots import uri_of
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import claim_data
from sessionizer_airflow.errors import SupervisionEnded
from sessionizer_airflow.launching.cluster import ConnectionLauncher
from sessionizer_airflow.project import Project
from sessionizer_airflow.supervision.act import Supervisor
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from sessionizer_demo.local_airflow.api import wait_until
from support.cluster.machines import Machine
from support.cluster.site import Site
from support.expected.driver_statuses import Heard
from support.places import REPOSITORY
from support.streams.stage import Stage, clicks_spec

POLICY = SupervisionPolicy(startup_grace_ms=90_000, first_backoff_ms=300)
LAKE = "lake"
OLDER = """\
import sys
class Version(tuple):
    major, minor, micro = 3, 9, 0
sys.version_info = Version((3, 9, 0, "final", 0))
"""


@dataclass(frozen=True)
class SetUp:
    """Spark is ``arranged`` so, in a folder of the test's; the stream is given up for ``cause``, which ``says`` so.

    ``on_a_path``: the data is in the folder ``LAKE``, not in HDFS. ``taken``: another home has had it first.
    """

    cause: str
    says: str
    arranged: Callable[[Site, Path], dict[str, str]]
    on_a_path: bool = False
    taken: bool = False


def home_of_airflow_only(site: Site, folder: Path) -> dict[str, str]:
    return {"spark.yarn.appMasterEnv.JAVA_HOME": str(Machine("worker-9", (site.platform,)).java_home(folder))}


def bare_python(_: Site, folder: Path) -> dict[str, str]:
    venv.create(folder / "bare")
    return {"spark.pyspark.driver.python": sys.executable, "spark.pyspark.python": f"{folder}/bare/bin/python"}


def older_python(site: Site, folder: Path) -> dict[str, str]:
    """There is but one Python here: this one says that it is another."""
    arranged = bare_python(site, folder)
    (packages,) = (folder / "bare" / "lib").glob("python*/site-packages")
    (packages / "older.py").write_text(OLDER)
    (packages / "older.pth").write_text("import older\n")
    return arranged


def no_python(_: Site, folder: Path) -> dict[str, str]:
    return {"spark.pyspark.driver.python": sys.executable, "spark.pyspark.python": f"{folder}/nowhere/python"}


def as_it_is(_: Site, __: Path) -> dict[str, str]:
    """Of a path: here it is on this machine's disk, for Spark in HDFS, the file system that the cluster has."""
    return {}


def read_only_there(site: Site, folder: Path) -> dict[str, str]:
    """Paths are for Spark of the machines' own disks, and the executors' has the data where nobody may write."""
    executors = Machine("worker-6", (site.platform, folder / LAKE)).java_home(folder)
    return {
        "spark.hadoop.fs.defaultFS": "file:///",
        "spark.yarn.stagingDir": f"file://{folder}/staging",
        "spark.executorEnv.JAVA_HOME": str(executors),
    }


SET_UPS = {
    "control is seen by Airflow only": SetUp("HomeNotShared", "YARN says that application_", home_of_airflow_only),
    "packages are missing there": SetUp(
        "ExecutorsUnfit",
        "executor on worker-8 cannot run this stream: their Python lacks pyarrow, pandas, numpy",
        bare_python,
    ),
    "Python is another there": SetUp(
        "ExecutorsUnfit",
        "executors cannot run this stream: their Python is 3.9, the driver's is 3.11",
        older_python,
    ),
    "no Python is there": SetUp("ExecutorsUnfit", "they have no program", no_python),
    "data is another place there": SetUp(
        "ExecutorsUnfit", "lake/streams/clicks is not there for the driver", as_it_is, on_a_path=True
    ),
    "data cannot be written there": SetUp("ExecutorsUnfit", "Mkdirs failed to create", read_only_there, on_a_path=True),
    "data is another home's": SetUp("DataOwned", "/streams/clicks belongs to clicks@", as_it_is, taken=True),
}


@pytest.mark.long
@pytest.mark.parametrize("name", SET_UPS)
def test_what_cannot_work_is_given_up_by_name_and_nothing_is_made(
    name: str, site: Site, tmp_path: Path, hdfs_folder: UPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up = SET_UPS[name]
    (tmp_path / LAKE).mkdir()
    for variable, value in site.but(set_up.arranged(site, tmp_path)).environment.items():
        monkeypatch.setenv(variable, value)
    data = uri_of(tmp_path / LAKE if set_up.on_a_path else hdfs_folder)
    stage = Stage.set_up(tmp_path / "stage", clicks_spec(), home=site.platform, data=data)
    if set_up.taken:
        take_first(stage, tmp_path)
    supervisor = supervisor_of(stage)
    with pytest.raises(SupervisionEnded) as ended:
        wait_until(lambda: not supervisor.settle(), 200.0, "the supervisor to give up")
    assert set_up.says in ended.value.reason
    assert CAUSES[set_up.cause].remedy in ended.value.remedy
    assert stage.lineage is None
    assert [*list_names(stage.stream_home.lineages), *list_names(stage.stream_home.tables)] == []


def take_first(stage: Stage, folder: Path) -> None:
    other = StreamHome.of(folder / "other", stage.name, stage.stream_home.data_root)
    other.prepare()
    other.prepare_data()
    claim_data(other)


def supervisor_of(stage: Stage) -> Supervisor:
    project = Project(
        application=REPOSITORY / "jobs" / "main.py",
        streams=stage.streams,
        jars=REPOSITORY / ".jars" / "spark",
        home=stage.home,
        data=stage.data,
    )
    return Supervisor(
        home=StreamHome.of(stage.home, stage.name),
        folders=project,
        launcher=ConnectionLauncher(project=project),
        policy=POLICY,
        say=Heard(),
    )
