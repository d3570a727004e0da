"""A folder of specs, a platform home, and drivers that live only in its control directory."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

from typer.testing import CliRunner, Result

from sessionizer.cli.app import app
from sessionizer.control.lease import Lease, acquire
from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Heartbeat, Phase
from sessionizer.control.records.supervision_records import DesiredState, write_desired
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import activate_lineage, make_lineage, start_lineage
from sessionizer.lineage.canary.canary_record import begin_canary, read_canary, write_canary
from sessionizer.lineage.canary.judge import CanaryTerms
from support.places import known, mounted

SPEC = """\
name: {name}
source:
  format: files
  path: in
  encoding: json
  columns: u string, ts bigint, id string
mapping:
  key: u
  event_time: timestamp_millis(ts)
  event_id: id
trigger_interval: 5 minutes
"""
SHORT_SPEC = """
name: {name}
source: {{format: files, path: feed, encoding: json, columns: "k string, t timestamp, i string"}}
mapping: {{key: k, event_time: t, event_id: i}}
"""


@dataclass(frozen=True)
class Platform:
    """Where the commands look; ``call`` runs one."""

    home: Path
    streams: Path

    def add(self, name: str, text: str | None = None) -> StreamHome:
        (self.streams / f"{name}.yaml").write_text(text or SPEC.format(name=name))
        return StreamHome.of(self.home, name)

    def add_prepared(self, name: str) -> StreamHome:
        """A stream with its folders, which no driver has run."""
        home = self.add(name)
        home.prepare()
        home.prepare_data()
        return home

    def add_driven(self, name: str, uid: str = "driver-1", **figures: object) -> tuple[Lease, StreamHome]:
        """A stream with its driver."""
        self.add(name)
        return self.drive(name, uid, **figures)

    def add_running(self, name: str) -> StreamHome:
        """A stream with its folders, which user ``ann`` wants to run."""
        home = self.add_prepared(name)
        write_desired(home, DesiredState.RUNNING, by="ann", why="")
        return home

    def drive(self, name: str, uid: str = "driver-1", **figures: object) -> tuple[Lease, StreamHome]:
        """A driver, or a command by its ``uid``: this process has the lease and beats."""
        home = StreamHome.of(self.home, name)
        home.prepare()
        lease = acquire(home, uid)
        beat(home, uid=uid, **figures)
        return lease, home

    def fall_silent(self, name: str, *, since: int) -> None:
        """Date the driver's last beat, and its lease before it, back (epoch ms)."""
        home = StreamHome.of(self.home, name)
        record = next(mounted(home.leases).iterdir())
        lease = json.loads(record.read_text())
        record.write_text(json.dumps({**lease, "acquired_at": since - 1}))
        beat(home, at=since, uid=lease["uid"])

    def call(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, [*arguments, "--streams", str(self.streams), "--home", str(self.home)])


def beat(home: StreamHome, **figures: object) -> None:
    now = epoch_ms()
    facts: dict[str, object] = {"uid": "driver-1", "at": now, "started_at": now, "phase": Phase.RUNNING, **figures}
    HEARTBEAT_FILE.of(home).write(Heartbeat(**facts))  # type: ignore[arg-type]


def make_canary(home: StreamHome, terms: CanaryTerms | None = None, drivers: str = "") -> str:
    """A second lineage, made by a rescale that never was, which so many drivers have run; returns it."""
    before = start_lineage(home)
    lineage = make_lineage(home, None)
    begin_canary(home, lineage, "rescale", before, terms or CanaryTerms())
    activate_lineage(home, lineage, before)
    canary = known(read_canary(home, lineage))
    write_canary(home, replace(canary, drivers=drivers))
    return lineage
