"""A stage on a cluster: its data and its feed are in HDFS, its control there or in a folder that no executor sees."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from upath import UPath

from sessionizer_demo.feed.generator import Row
from sessionizer_demo.local_airflow.api import wait_until
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import assert_as_defined
from support.processes.driver_process import run_to_end
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

FILES = 30
COMMITTED_SECONDS = 240.0


@dataclass
class ClusterStage:
    """``stage`` is the stream; files of clicks come to its feed when a test says so."""

    stage: Stage
    feed: UPath
    rows: dict[str, tuple[Row, ...]]
    made: Path
    fed: list[str] = field(default_factory=list)

    @classmethod
    def set_up(cls, root: Path, home: Path, data: str, control: str | None = None) -> ClusterStage:
        """Below ``data``, a folder in HDFS; ``home`` is the platform's, ``control`` a control root of its own."""
        feed = UPath(f"{data}/feed")
        feed.mkdir(parents=True)
        # a quiet moment of a slow machine must not move the watermark
        spec = clicks_spec(idle_after=None)
        spec["source"]["path"] = f"{data}/feed"
        stage = Stage.set_up(root, spec, home=home, data=f"{data}/platform", control=control)
        made = root / "made"
        return cls(stage, feed, dict(write_click_files(made, FILES)), made)

    def bring(self, count: int) -> None:
        """The next ``count`` files, each complete before its name appears."""
        names = sorted(self.rows)[len(self.fed) :][:count]
        assert len(names) == count, "there are no more files"
        for name in names:
            hidden = self.feed / f".{name}.incomplete"
            hidden.write_bytes((self.made / name).read_bytes())
            hidden.rename(self.feed / name)
        self.fed += names

    def wait_until_all_is_in(self) -> None:
        wait_until(self._all_is_in, COMMITTED_SECONDS, f"{len(self.fed)} files in committed batches")

    def _all_is_in(self) -> bool:
        if self.stage.lineage is None:
            return False
        log = CheckpointLog(self.stage.checkpoint)
        committed = log.committed()
        return set(self.fed) <= {name for one in committed for name in one.files} and len(committed) == len(log.begun())

    def assert_exact(self) -> None:
        """A driver on this machine drains the stopped stream, for good; then each table holds what it must.

        Of a stream that is not drained something may still be due: a conflict that the next merge finds, a session.
        """
        run_to_end(self.stage, "drained")
        assert_as_defined(self.stage, self.files)

    @property
    def files(self) -> dict[str, tuple[Row, ...]]:
        return {name: self.rows[name] for name in self.fed}
