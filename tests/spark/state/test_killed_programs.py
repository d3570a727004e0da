"""The command itself, a program that is killed or frozen: typed again it goes on, and never do two change a stream."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from sessionizer.control.records.desired_state import DesiredState, read_desired, write_desired
from sessionizer.control.records.operation_record import pending_operation, read_operations, require_no_operation
from sessionizer.lineage.trial.trial_record import read_trial
from support.expected.landed import landed
from support.places import REPOSITORY
from support.processes.driver_process import environment
from support.processes.in_process import catch_up, drain
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_500)]

WITHIN_S = 300
FROZEN_S = 5
KILLED_AT = (
    "starting Spark",
    "savepoint: apply-",
    "new lineage: made",
    "new lineage: seeded",
    "new lineage: activated",
)
ON_TRIAL = ("--new-lineage", "--back-if-unfit", "--trial", "2")
HALF, FILES = 2, 4


@dataclass(frozen=True, slots=True)
class Typed:
    """The command, as a program of its own, and what it says."""

    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def apply(cls, stage: Stage, *options: str) -> Typed:
        places = ("--streams", str(stage.streams), "--home", str(stage.home), "--master", "local[2]")
        argv = [sys.executable, str(REPOSITORY / "jobs" / "main.py"), "apply", stage.name, *options, *places]
        log = stage.root / f"apply-{time.monotonic_ns()}.log"
        with log.open("wb") as output:
            return cls(subprocess.Popen(argv, stdout=output, stderr=subprocess.STDOUT, env=environment()), log)

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, line: str) -> None:
        deadline = time.monotonic() + WITHIN_S
        while line not in self.said:
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.02)

    def end(self) -> int:
        return self.process.wait(WITHIN_S)

    def kill(self) -> None:
        """SIGKILL: its JVM sees that and ends."""
        self.process.kill()
        self.process.wait()


def digest_of(stage: Stage, *options: str) -> str:
    typed = Typed.apply(stage, *options, "--json")
    assert typed.end() == 0, typed.said
    plan, _ = json.JSONDecoder().raw_decode(typed.said[typed.said.index("{") :])
    digest: str = plan["digest"]
    return digest


@pytest.fixture
def new_stage(spark: SparkSession, tmp_path: Path) -> Callable[[str], Stage]:
    """A stopped stream that has read half of its files, and whose file says something else by now."""
    write_click_files(tmp_path / "clicks", files=FILES)

    def build(name: str) -> Stage:
        stage = Stage.begun(tmp_path / name, clicks_spec())
        stage.bring(sorted((tmp_path / "clicks").iterdir())[:HALF])
        catch_up(spark, stage)
        write_desired(stage.stream_home, DesiredState.STOPPED, by="ann", why="at night")
        stage.write_spec(clicks_spec(gap_timeout="5 seconds"))
        return stage

    return build


def assert_as_the_steady_one(spark: SparkSession, stage: Stage, steady: Stage, clicks: Path) -> None:
    """The stream ends as one through the same verb that nobody killed."""
    typed = Typed.apply(steady, *ON_TRIAL, "--approve", digest_of(steady, *ON_TRIAL))
    assert typed.end() == 0, typed.said
    for each in (steady, stage):
        each.bring(sorted(clicks.iterdir())[HALF:])
        drain(spark, each)
    assert landed(steady).sessions
    assert landed(stage) == landed(steady)


def test_killed_at_each_line_that_it_says_it_is_finished_by_the_last_one(
    spark: SparkSession, tmp_path: Path, new_stage: Callable[[str], Stage]
) -> None:
    killed, steady = new_stage("killed"), new_stage("steady")
    home, before = killed.stream_home, killed.lineage
    digest = digest_of(killed, *ON_TRIAL)
    for line in KILLED_AT:
        typed = Typed.apply(killed, *ON_TRIAL, "--approve", digest)
        typed.wait_for(line)
        typed.kill()
        activated = line.endswith("activated")
        assert activated or killed.lineage == before, line
    for _ in range(2):  # killed at its last line it may have been over already, and it is now
        typed = Typed.apply(killed, *ON_TRIAL, "--approve", digest)
        assert typed.end() == 0, typed.said
    assert "has carried out" in typed.said
    require_no_operation(home)
    assert len(read_operations(home)) == 1
    assert len(list(home.lineages.iterdir())) == 2, "what was killed is gone"
    assert read_desired(home).state is DesiredState.STOPPED
    trial = read_trial(home, str(killed.lineage))
    assert trial is not None
    assert (trial.terms.batches, trial.terms.goes_back, trial.course.before) == (2, True, before)
    assert_as_the_steady_one(spark, killed, steady, tmp_path / "clicks")


def test_while_one_is_frozen_another_does_nothing_and_it_goes_on_itself(
    spark: SparkSession, tmp_path: Path, new_stage: Callable[[str], Stage]
) -> None:
    frozen, steady = new_stage("frozen"), new_stage("steady")
    home, before = frozen.stream_home, frozen.lineage
    digest = digest_of(frozen, *ON_TRIAL)
    first = Typed.apply(frozen, *ON_TRIAL, "--approve", digest)
    first.wait_for("new lineage: seeded")
    first.process.send_signal(signal.SIGSTOP)
    second = Typed.apply(frozen, *ON_TRIAL, "--approve", digest, "--wait", str(FROZEN_S))
    assert second.end() != 0
    assert "still runs" in second.said
    assert frozen.lineage == before
    assert pending_operation(home) is not None
    assert read_desired(home).state is DesiredState.MAINTENANCE
    first.process.send_signal(signal.SIGCONT)
    assert first.end() == 0, first.said
    require_no_operation(home)
    assert read_desired(home).state is DesiredState.STOPPED
    assert_as_the_steady_one(spark, frozen, steady, tmp_path / "clicks")
