"""Times of an upgrade of a stopped stream with many open sessions: its plan, in place, and into a new lineage."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml

from sessionizer.control.execution import execute
from sessionizer.control.maintenance import Maintenance, held_for
from sessionizer.control.operation import Operation, new_operation
from sessionizer.spark.state.commands.apply import ApplyRunner
from sessionizer.state.commands.upgrade import Upgrade
from sessionizer.stream_spec.loading.folder import find_stream
from sessionizer_bench.measuring.runner import environment
from sessionizer_bench.places import JOBS

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from sessionizer.home.stream_home import StreamHome

PROMISES: Final = {"upgrade: plan": 5.0, "upgrade in place": 10.0, "upgrade with a migration": 45.0}
"""Longest time (s) of each. Those of the upgrades are without processing."""


@dataclass(slots=True)
class Upgrades:
    """Upgrades of the stream of ``home``, whose spec is in the folder ``streams``."""

    spark: SparkSession
    home: StreamHome
    streams: Path

    def change_gap(self, seconds: int) -> None:
        """Write another gap into the spec, which is taken in place."""
        values = self._values()
        values["rules"]["gap_timeout"] = f"{seconds} seconds"
        self._write(values)

    def add_migration(self, number: int) -> None:
        """Declare a migration of every open event."""
        values = self._values()
        migration = {"id": f"turn-{number}", "columns": {"data": "concat(data, '')"}}
        self._write({**values, "migrations": [*values.get("migrations", []), migration]})

    def plan_seconds(self) -> float:
        """Return the time (s) that the plan takes as a program of its own, without Spark."""
        places = ["--streams", str(self.streams), "--home", str(self.home.platform)]
        command = [sys.executable, str(JOBS / "main.py"), "upgrade", self.home.name, "--json", *places]
        started = time.perf_counter()
        subprocess.run(command, env=environment(), check=True, capture_output=True)
        return round(time.perf_counter() - started, 3)

    def upgrade_seconds(self) -> float:
        """Carry the upgrade out, and return for how long (s) the stream could process nothing."""
        command, spec = Upgrade(trial=0), find_stream(self.streams, self.home.name)
        runner = ApplyRunner(
            spark=self.spark, home=self.home, command=command, spec=spec, savepoints=self.home.savepoints
        )
        plan = runner.look()
        plan.require_possible()
        record = new_operation(self.home, command.name, plan.digest, "benchmark", plan.leaves)
        job = Maintenance(record.id, "benchmark", "a benchmark", record.wanted)
        started = time.perf_counter()
        with held_for(self.home, job, 60, lambda _: None) as lease:
            execute(Operation(self.home, record, lease.check), runner)
        return round(time.perf_counter() - started, 3)

    def turn(self, number: int) -> dict[str, float]:
        """Return the seconds of each part in this turn."""
        self.change_gap(1_801 + number)  # the stream has 1,800
        found = dict(zip(PROMISES, (self.plan_seconds(), self.upgrade_seconds()), strict=False))
        self.add_migration(number)
        return {**found, "upgrade with a migration": self.upgrade_seconds()}

    def _values(self) -> dict[str, Any]:
        values: dict[str, Any] = yaml.safe_load(self._file.read_text())
        return values

    def _write(self, values: dict[str, Any]) -> None:
        self._file.write_text(yaml.safe_dump(values))

    @property
    def _file(self) -> Path:
        return self.streams / f"{self.home.name}.yaml"
