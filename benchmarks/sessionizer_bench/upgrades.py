"""Times of an upgrade of a stopped stream with many open sessions: its plan, in place, and into a new lineage."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import yaml

from sessionizer.control.execution import execute
from sessionizer.control.maintenance import Maintenance, hold_lease
from sessionizer.control.operation import Operation, new_operation
from sessionizer.spark.state.commands.moves import ApplyRunner
from sessionizer.state.commands.upgrades import Upgrade
from sessionizer.stream_spec.spec_folder import find_stream
from sessionizer_bench.measuring.runner import environment
from sessionizer_bench.places import JOBS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import SparkSession

    from sessionizer.control.execution import Step
    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.deployment.upgrade_plan import UpgradePlan
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.state.commands.command import Plan

PROMISES: Final = {
    "upgrade: plan": 5.0,
    "upgrade in place": 10.0,
    "upgrade with a migration and --replay, while the stream is stopped": 10.0,
    "upgrade with a migration": 45.0,
}
"""Longest time (s) of each. Those of the upgrades are without processing."""
_TOLD_FROM_S: Final = 0.1
"""Time (s) from which a step is shown."""


@dataclass(slots=True)
class TimedSteps:
    """Runner that notes how long (s) each step of ``runner`` takes, and each part of a new lineage within one."""

    runner: ApplyRunner
    seconds: dict[str, float] = field(default_factory=dict)
    _since: float = 0

    def __post_init__(self) -> None:
        """Listen to the progress of the runner."""
        self.runner.say = lambda line: self._note(line) if line.startswith("new lineage") else None

    def prepared(self, record: OperationRecord) -> AbstractContextManager[None]:
        """Prepare as the runner does."""
        return self.runner.prepared(record)

    def find_activated(self, record: OperationRecord) -> str | None:
        """Return the lineage of an earlier try."""
        return self.runner.find_activated(record)

    def plan_again(self, record: OperationRecord) -> Plan[UpgradePlan]:
        """Make the plan under the lease, and note its time."""
        self._since = time.perf_counter()
        plan = self.runner.plan_again(record)
        self._note("plan under the lease")
        return plan

    def last_steps(self) -> Sequence[Step]:
        """Return the steps that follow the decisive change."""
        return self.runner.last_steps()

    def run(self, step: Step, operation: Operation) -> str | None:
        """Run a step, and note its time."""
        lineage = self.runner.run(step, operation)
        self._note(type(step).__name__)
        return lineage

    def clean_up(self, operation: Operation) -> None:
        """Clean up as the runner does."""
        self.runner.clean_up(operation)

    def _note(self, what: str) -> None:
        """Note the time since the last note as that of ``what``."""
        now = time.perf_counter()
        self.seconds[what] = round(now - self._since, 2)
        self._since = now


@dataclass(slots=True)
class Upgrades:
    """Upgrades of the stream of ``home``, whose spec is in the folder ``streams``.

    ``steps``: the times (s) of the steps of the newest upgrade.
    """

    spark: SparkSession
    home: StreamHome
    streams: Path
    steps: dict[str, float] = field(default_factory=dict)

    def change_gap(self, seconds: int) -> None:
        """Write another gap into the spec, which is taken in place."""
        values = self._values()
        values["rules"]["gap_timeout"] = f"{seconds} seconds"
        self._write(values)

    def add_migration(self, name: str) -> None:
        """Declare a migration of every open event."""
        values = self._values()
        migration = {"id": name, "columns": {"data": "concat(data, '')"}}
        self._write({**values, "migrations": [*values.get("migrations", []), migration]})

    def plan_seconds(self) -> float:
        """Return the time (s) that the plan takes as a program of its own, without Spark."""
        places = ["--streams", str(self.streams), "--home", str(self.home.platform)]
        command = [sys.executable, str(JOBS / "main.py"), "upgrade", self.home.name, "--json", *places]
        started = time.perf_counter()
        subprocess.run(command, env=environment(), check=True, capture_output=True)
        return round(time.perf_counter() - started, 3)

    def upgrade_seconds(self, *, replay: bool = False) -> float:
        """Carry the upgrade out, and return for how long (s) the stream could process nothing."""
        command, spec = Upgrade(canary=0, replay=replay), find_stream(self.streams, self.home.name)
        runner = ApplyRunner(
            spark=self.spark, home=self.home, command=command, spec=spec, savepoints=self.home.savepoints
        )
        plan, timed = runner.look(), TimedSteps(runner)
        plan.require_possible()
        record = new_operation(self.home, command.name, plan.digest, "benchmark", plan.leaves)
        job = Maintenance(record.id, "benchmark", "a benchmark", record.wanted)
        with runner.prepared(record):
            started = time.perf_counter()
            with hold_lease(self.home, job, 60, lambda _: None) as lease:
                execute(Operation(self.home, record, lease.check), timed)
            took = time.perf_counter() - started
        self.steps = {name: seconds for name, seconds in timed.seconds.items() if seconds >= _TOLD_FROM_S}
        return round(took, 3)

    def turn(self, number: int) -> dict[str, float]:
        """Return the seconds of each part in this turn."""
        self.change_gap(1_801 + number)  # the stream has 1,800
        found = [self.plan_seconds(), self.upgrade_seconds()]
        for replay in (True, False):
            self.add_migration(f"turn-{number}-{'replay' if replay else 'plain'}")
            found.append(self.upgrade_seconds(replay=replay))
        return dict(zip(PROMISES, found, strict=True))

    def _values(self) -> dict[str, Any]:
        values: dict[str, Any] = yaml.safe_load(self._file.read_text())
        return values

    def _write(self, values: dict[str, Any]) -> None:
        self._file.write_text(yaml.safe_dump(values))

    @property
    def _file(self) -> Path:
        return self.streams / f"{self.home.name}.yaml"
