"""The package in an Airflow that somebody has: installed by pip, two lines in a DAG file, sessions, uninstalled."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable

from sessionizer.home.stream_home import StreamHome
from sessionizer_demo.local_airflow.api import Api, wait_until
from sessionizer_demo.local_airflow.installation import Installation
from sessionizer_demo.local_airflow.parts import end_processes, left_behind
from support.places import REPOSITORY, known

pytestmark = pytest.mark.long

AIRFLOW = "apache-airflow==3.3.2"
"""Where Airflow's official constraints can be had, `--constraint` pins the rest of it as well."""
UV = REPOSITORY / ".tools" / "bin" / "uv"
DAG_FILE = """from sessionizer_airflow import stream_dags

stream_dags(globals(), "streams")
"""
SPEC = """
name: visits
owner: shop
source: {format: files, path: FEED, encoding: json, columns: "event_id string, user_id string, ts bigint, type string"}
mapping: {key: user_id, event_time: timestamp_millis(ts), event_id: event_id, closes: type <=> 'logout'}
rules: {watermark_delay: 5 seconds, gap_timeout: 10 seconds, emit_every: 5 seconds, idle_after: 10 seconds}
trigger_interval: 2 seconds
"""


class Site:
    """A folder with an Airflow, a Python for drivers, and the DAGs of a user."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.airflow, self.driver, self.dags = root / "airflow-venv", root / "driver-venv", root / "dags"
        self.installation = Installation(root=root / "site")

    @cached_property
    def wheel(self) -> Path:
        folder = self.root / "dist"
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
        (built,) = folder.glob("*.whl")
        return built

    @cached_property
    def environment(self) -> dict[str, str]:
        """As a shell of the user has it: nothing of the repository is in it."""
        ours = {
            name: value
            for name, value in self.installation.environment().items()
            if not name.startswith("SESSIONIZER_") or name in {"SESSIONIZER_HOME", "SESSIONIZER_INSTALLATION"}
        }
        java = known(shutil.which("java"))
        ours.pop("PYTHONPATH", None)
        return {
            **ours,
            "PATH": os.pathsep.join([str(self.airflow / "bin"), str(Path(java).parent), "/usr/bin", "/bin"]),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__API__PORT": str(self.installation.port),
            "SESSIONIZER_PYTHON": str(self.driver / "bin" / "python"),
        }

    def run(self, *command: str | Path, seconds: float = 600) -> str:
        words = [str(word) for word in command]
        done = subprocess.run(
            words, env=self.environment, cwd=self.root, capture_output=True, text=True, timeout=seconds, check=False
        )
        assert done.returncode == 0, f"{words}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    def installed(self) -> set[str]:
        return set(self.run(self.airflow / "bin" / "pip", "freeze").splitlines())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    found = Site(tmp_path_factory.mktemp("site"))
    found.installation.prepare()
    yield found
    end_processes(left_behind(found.installation), seconds=5.0)


@pytest.fixture(scope="module")
def before(site: Site) -> set[str]:
    """A stock Airflow, and what is in it before the package comes."""
    for place, wanted in ((site.airflow, AIRFLOW), (site.driver, f"{site.wheel}[driver,demo]")):
        site.run(UV, "venv", "--seed", "--python", sys.executable, place)
        site.run(UV, "pip", "install", "--python", place / "bin" / "python", wanted, seconds=900)
    installed = site.installed()
    site.run(site.airflow / "bin" / "pip", "install", f"{site.wheel}[airflow]")
    return installed


def test_nothing_is_changed_in_the_airflow_that_was_there(site: Site, before: set[str]) -> None:
    assert before - site.installed() == set()
    site.run(site.airflow / "bin" / "pip", "check")
    site.run(site.driver / "bin" / "pip", "check")


@pytest.mark.usefixtures("before")
def test_airflow_shows_it(site: Site) -> None:
    providers = json.loads(site.run("airflow", "providers", "list", "--output", "json"))
    assert "streaming-state" in {each["package_name"] for each in providers}
    plugins = json.loads(site.run("airflow", "plugins", "--output", "json"))
    assert [each["source"].split(":")[0] for each in plugins if each["name"] == "sessionizer"] == [
        f"streaming-state=={version(site)}"
    ]


@pytest.mark.usefixtures("before")
def test_two_lines_and_a_spec_give_sessions_which_outlive_the_package(site: Site) -> None:
    begin = time.monotonic()
    site.run(site.driver / "bin" / "sessionizer", "jars", "fetch")
    feed = site.root / "feed"
    feed.mkdir()
    (site.dags / "streams").mkdir(parents=True)
    (site.dags / "shop.py").write_text(DAG_FILE)
    (site.dags / "streams" / "visits.yaml").write_text(SPEC.replace("FEED", str(feed)))
    play = [
        str(site.driver / "bin" / "sessionizer-feed"), "--to", "folder", "--path", str(feed), "--rate", "20",
        "--watermark-delay", "5", "--clean",
    ]  # fmt: skip
    with (site.root / "standalone.log").open("wb") as log:
        feeder = subprocess.Popen(play, env=site.environment, stdout=log, stderr=log)
        airflow = subprocess.Popen(
            ["airflow", "standalone"], env=site.environment, stdout=log, stderr=log, cwd=site.root
        )
    api, home = Api(site.installation), StreamHome.of(site.installation.platform_home, "visits")
    try:
        wait_until(api.is_healthy, 300, "a healthy Airflow")
        wait_until(lambda: "visits.supervise" in api.dag_ids(), 120, "the DAGs")
        assert api.import_errors() == []
        assert {name for name in api.dag_ids() if name.startswith(("visits.", "sessionizer."))} == {
            "visits.supervise", "visits.stop", "visits.start", "visits.report",
            "sessionizer.operate", "sessionizer.savepoints", "sessionizer.orphans",
            "sessionizer.upgrade", "sessionizer.upgrade_all", "sessionizer.maintenance", "sessionizer.compaction",
        }  # fmt: skip
        api.unpause("visits.supervise")
        wait_until(lambda: len(sessions(home)) > 0, 300, "the first sessions")
        assert time.monotonic() - begin < 600
        wait_until(lambda: is_watched(api), 60, "a watch that holds no worker")
        api.call("POST", "/api/v2/dags/visits.stop/dagRuns", {"logical_date": None})
        wait_until(lambda: not drivers(site), 120, "the end of the driver")
    finally:
        for process in (feeder, airflow):
            process.terminate()
            process.wait(60)
    landed = len(sessions(home))
    site.run(site.airflow / "bin" / "pip", "uninstall", "--yes", "streaming-state")
    site.run(site.airflow / "bin" / "pip", "check")
    table = DeltaTable(str(home.table("sessions"))).to_pyarrow_dataset()
    rows = duckdb.connect().from_arrow(table).aggregate("count(*), count(distinct session_id)").fetchall()
    assert rows == [(landed, landed)]


def version(site: Site) -> str:
    return site.wheel.name.split("-")[1]


def sessions(home: StreamHome) -> list[str]:
    folder = home.table("sessions")
    if not DeltaTable.is_deltatable(str(folder)):
        return []
    return list(DeltaTable(str(folder)).to_pyarrow_table(columns=["session_id"]).column(0).to_pylist())


def is_watched(api: Api) -> bool:
    runs = api.call("GET", "/api/v2/dags/visits.supervise/dagRuns?order_by=-run_after")["dag_runs"]
    path = f"/api/v2/dags/visits.supervise/dagRuns/{runs[0]['dag_run_id']}/taskInstances/supervise"
    return bool(api.call("GET", path)["state"] == "deferred")


def drivers(site: Site) -> list[str]:
    """The command lines of the JVMs of drivers, which run by the Python that they were given."""
    return [
        line for process in left_behind(site.installation) if "visits.driver" in (line := " ".join(process.cmdline()))
    ]
