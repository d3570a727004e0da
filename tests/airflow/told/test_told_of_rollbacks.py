"""The way back over releases and engines, with a real supervisor, real drivers and environments side by side."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sessionizer.causes.cause import BROKEN_CODE
from sessionizer.cli.app import app
from sessionizer.control.records.operation_record import Ending, read_operations
from sessionizer.deployment.releases import RELEASES_VARIABLE
from sessionizer.launch.installation import APPLICATION, JARS_VARIABLE, PYTHON_VARIABLE, jar_folder
from sessionizer.lineage.batch_log import OpenSessions
from sessionizer.lineage.canary.canary_record import BY_CANARY
from sessionizer.lineage.fingerprint import RELEASE, SPARK, read_fingerprint
from sessionizer_airflow.launching.cluster import ConnectionLauncher
from sessionizer_airflow.project import Project
from support.expected.checkpoint_log import CheckpointLog
from support.expected.driver_statuses import launched, works
from support.expected.landed import assert_as_defined
from support.expected.told_causes import made
from support.places import REPOSITORY
from support.processes.driver_process import environment, run_to_end
from support.processes.watched_stream import WatchedStream
from support.releases.environments import (
    break_release,
    environment_like_this,
    environment_with_release,
    environment_with_spark,
    run_by,
)
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

LIMITS = {"startup_grace_ms": 120_000, "stale_limit_ms": 60_000}
NEWEST_PATCH = "4.2.1"


class Site:
    """A stream whose drivers run by ``default``, beside the environments in ``releases``."""

    def __init__(self, watched: WatchedStream, default: Path, releases: Path, patch: pytest.MonkeyPatch) -> None:
        self.watched, self.default, self.releases = watched, default, releases
        self.stage = watched.stage(clicks_spec(idle_after=None))
        self.clicks = watched.home.platform / "clicks"
        self.files = write_click_files(self.clicks, files=10)
        self.jars = jar_folder()
        self._fed = 0
        patch.delenv("PYTHONPATH", raising=False)
        for name, value in {
            PYTHON_VARIABLE: str(default),
            RELEASES_VARIABLE: str(releases),
            JARS_VARIABLE: str(self.jars),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }.items():
            patch.setenv(name, value)

    def feed(self, count: int) -> None:
        for file in sorted(self.clicks.iterdir())[self._fed : self._fed + count]:
            shutil.copy2(file, self.stage.feed)
        self._fed += count

    def run(self, python: Path, *arguments: str) -> str:
        verb, *options = arguments
        reads_spec = verb in {"run", "upgrade"}
        places = ["--home", str(self.stage.home), *(["--streams", str(self.stage.streams)] if reads_spec else [])]
        known = {RELEASES_VARIABLE: str(self.releases), JARS_VARIABLE: str(self.jars)}
        return run_by(python, verb, self.stage.name, *options, *places, "--master", "local[2]", **known)

    def catch_up(self, python: Path, files: int) -> None:
        self.feed(files)
        self.run(python, "run", "--until", "caught-up")

    def approve(self, python: Path, *command: str) -> dict[str, Any]:
        plan: dict[str, Any] = json.loads(self.run(python, *command, "--json"))
        self.run(python, *command, "--approve", plan["digest"])
        return plan

    def watch(self, until: Callable[[], object]) -> None:
        """Supervise the stream until then, or until users are told something."""
        home, streams = self.stage.home, self.stage.streams
        project = Project(application=APPLICATION, streams=streams, jars=self.jars, home=home)
        self.watched.watch(ConnectionLauncher(project=project), until, within_s=300, patience=LIMITS)

    def ran_by(self, program: str) -> str:
        return read_fingerprint(self.stage.stream_home, str(self.stage.lineage)).versions[program]

    @property
    def open_sessions(self) -> int:
        return OpenSessions(self.stage.stream_home.lineage(str(self.stage.lineage)).open_sessions).total or 0

    def ask(self, verb: str) -> str:
        places = ["--streams", str(self.stage.streams), "--home", str(self.stage.home)]
        return CliRunner().invoke(app, [verb, self.stage.name, *places]).stdout


def has_read(stage: Stage, names: Sequence[str]) -> bool:
    return set(names) <= {name for batch in CheckpointLog(stage.checkpoint).committed() for name in batch.files}


@pytest.mark.long
def test_a_release_that_does_not_load_is_left_while_nobody_looks(
    watched: WatchedStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = environment_like_this(tmp_path / "releases" / "old")
    new = environment_with_release(tmp_path / "new", "9.0.0")
    site = Site(watched, new, tmp_path / "releases", monkeypatch)
    site.catch_up(old, 2)
    before, release = site.stage.lineage, site.ran_by(RELEASE)
    plan = site.approve(new, "upgrade", "--new-lineage", "--roll-back-if-failed")
    assert str(old.parent.parent) in plan["rollback"]
    left = site.stage.lineage
    assert (left == before, site.ran_by(RELEASE)) == (False, "9.0.0")

    break_release(new)
    site.feed(2)
    site.watch(lambda: False)
    (alert,) = watched.told
    assert (alert["kind"], alert["lineage"]) == ("rolled_back", None)
    assert all(part in alert["text"] for part in (str(before), str(left), "no_such_package", BROKEN_CODE.remedy))
    site.watch(lambda: site.stage.lineage == before and works(watched.home))

    assert len(watched.told) == 1
    assert (launched(watched.home).python, site.ran_by(RELEASE)) == (str(old), release)
    done = read_operations(watched.home)[-1]
    assert (done.verb, done.by, done.outcome) == ("rollback", f"{BY_CANARY}{left}", Ending.DONE)
    assert all(part in site.ask("status") for part in (f"lineage {left} failed", str(before), str(old)))


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_an_installed_release_is_taken_by_its_upgrade_only(
    watched: WatchedStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that died after `pip install` is followed by one of the same release, if that is installed, too."""
    old, new = environment_like_this(tmp_path / "old"), environment_with_release(tmp_path / "new", "9.0.0")
    (tmp_path / "releases").mkdir()
    site = Site(watched, new, tmp_path / "releases", monkeypatch)
    site.catch_up(old, 2)
    lineage, release = site.stage.lineage, site.ran_by(RELEASE)
    sinks = next(new.parent.parent.glob("lib/*/site-packages/sessionizer/spark/sinks/write.py"))
    sinks.write_text(f"{sinks.read_text()}\nSTEP = 1\n")
    site.feed(2)
    site.watch(lambda: False)
    (alert,) = watched.told
    assert all(part in alert["text"] for part in (release, "9.0.0", "sessionizer upgrade"))
    assert site.ran_by(RELEASE) == release

    (site.releases / "kept").symlink_to(old.parent.parent)
    site.watch(lambda: works(watched.home))
    assert (site.ran_by(RELEASE), site.stage.lineage) == (release, lineage)
    site.approve(new, "upgrade")
    site.watch(lambda: works(watched.home) and site.ran_by(RELEASE) == "9.0.0")
    assert site.stage.lineage == lineage


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_open_sessions_stay_whole_from_one_spark_to_the_next_and_back(
    watched: WatchedStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Go there and back in place first, then in a new lineage that a user leaves hours later."""
    old = environment_like_this(tmp_path / "releases" / "old")
    new = environment_with_spark(tmp_path / "releases" / "new", NEWEST_PATCH)
    site = Site(watched, new, tmp_path / "releases", monkeypatch)
    site.catch_up(old, 2)
    first, pinned = site.stage.lineage, site.ran_by(SPARK)
    assert (pinned == NEWEST_PATCH, site.open_sessions > 0) == (False, True)

    plan = site.approve(new, "upgrade")
    assert [(each["name"], each["verdict"]) for each in plan["differences"] if each["name"] == SPARK] == [
        (SPARK, "in place")
    ]
    site.catch_up(new, 2)
    assert (site.stage.lineage, site.ran_by(SPARK), site.open_sessions > 0) == (first, NEWEST_PATCH, True)
    site.catch_up(old, 2)
    assert (site.stage.lineage, site.ran_by(SPARK), site.open_sessions > 0) == (first, pinned, True)

    plan = site.approve(new, "upgrade", "--new-lineage")
    assert str(old.parent.parent) in plan["rollback"]
    site.catch_up(new, 2)
    assert (site.stage.lineage == first, site.ran_by(SPARK), site.open_sessions > 0) == (False, NEWEST_PATCH, True)
    plan = site.approve(new, "rollback")
    assert [line for line in plan["remarks"] if str(old.parent.parent) in line]

    site.feed(2)
    site.watch(lambda: works(watched.home) and has_read(site.stage, list(site.files)))
    assert watched.told == []
    assert (site.stage.lineage, site.ran_by(SPARK), launched(watched.home).python) == (first, pinned, str(old))
    assert "stopped" in site.ask("stop")
    site.run(old, "run", "--until", "drained")
    assert_as_defined(site.stage, site.files)


PROGRAM_WITHIN_S = 300
REFUSING = {**clicks_spec()["mapping"], "event_time": "cast(null as timestamp)"}


def apply(stage: Stage, *options: str) -> str:
    """What the command prints, as a program of its own."""
    places = ("--streams", str(stage.streams), "--home", str(stage.home), "--master", "local[2]")
    argv = [sys.executable, str(REPOSITORY / "jobs" / "main.py"), "apply", stage.name, *options, *places]
    done = subprocess.run(
        argv, env=environment(), capture_output=True, text=True, timeout=PROGRAM_WITHIN_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@made("LineageLeft")
@pytest.mark.long
def test_a_mistake_in_a_spec_is_taken_back_while_nobody_looks(watched: WatchedStream, tmp_path: Path) -> None:
    stage = watched.stage(clicks_spec())
    write_click_files(tmp_path / "clicks", files=4)
    files = sorted((tmp_path / "clicks").iterdir())
    shutil.copy2(files[0], stage.feed)
    run_to_end(stage, "first", until="caught-up")
    before = stage.lineage

    stage.write_spec({**clicks_spec(), "mapping": REFUSING})
    wanted = ("--accept", "mapping.event_time", "--roll-back-if-failed", "--canary", "2")
    plan = json.loads(apply(stage, *wanted, "--json"))
    assert (plan["possible"], plan["anew"], plan["canary"]["goes_back"]) == (True, True, True)
    apply(stage, *wanted, "--approve", plan["digest"])
    failed = stage.lineage
    assert failed not in {before, None}

    for file in files[1:]:
        shutil.copy2(file, stage.feed)
    watched.drive()
    watched.check("LineageLeft", names=f"lineage {before}")
    watched.drive(lambda: stage.lineage == before and works(watched.home))
    assert stage.lineage == before
    assert len(watched.told) == 1, "the driver that follows has nothing to tell"
    done = read_operations(watched.home)[-1]
    assert (done.verb, done.outcome) == ("rollback", Ending.DONE)
    assert done.by.endswith(f" {failed}")
