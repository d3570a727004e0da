"""The wheel in other Pythons, Airflows and Sparks: ``matrix.py FOLDER-OF-THE-WHEEL`` prints a table of what ran.

Each cell is an environment of its own. It installs the wheel, checks that nothing conflicts, lets Airflow load the
plugin, parses a DAG file, runs a stream of files until it has caught up, saves it, runs on, and restores the savepoint.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).absolute().parents[1]
UV: Final = ROOT / ".tools" / "bin" / "uv"
DAG_FILE: Final = 'from sessionizer_airflow import stream_dags\n\nstream_dags(globals(), "streams")\n'
SPEC: Final = """
name: visits
owner: matrix
source: {format: files, path: FEED, encoding: json, columns: "event_id string, user_id string, ts bigint, type string"}
mapping: {key: user_id, event_time: timestamp_millis(ts), event_id: event_id, closes: type <=> 'logout'}
rules: {watermark_delay: 5 seconds, gap_timeout: 10 seconds, emit_every: 5 seconds}
trigger_interval: 1 second
"""
PARSE: Final = """
import sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
assert not bag.import_errors, bag.import_errors
assert "visits.supervise" in bag.dags, sorted(bag.dags)
"""


HEADER: Final = "| Python | Airflow | PySpark | first sessions, stop, savepoint, restore |\n|---|---|---|---|\n"
RESOLVED: Final = "4.2.0"
"""The PySpark that the package's own ranges lead to. Delta's metadata refuse a newer one, with which it works."""


@dataclass(frozen=True)
class Cell:
    """Versions that are tried together."""

    python: str
    airflow: str
    spark: str = RESOLVED

    @property
    def name(self) -> str:
        """The versions, as a row of the table begins."""
        return f"| {self.python} | {self.airflow} | {self.spark} |"


CELLS: Final = (
    Cell("3.11", "3.3.0"),
    Cell("3.11", "3.3.1"),
    Cell("3.11", "3.3.2"),
    Cell("3.12", "3.3.2"),
    Cell("3.13", "3.3.2"),
    Cell("3.11", "3.3.2", spark="4.2.1"),
)


@dataclass(frozen=True)
class Trial:
    """One cell in ``folder``."""

    cell: Cell
    wheel: Path
    folder: Path

    def run(self) -> None:
        """Run every step. Raises CalledProcessError."""
        python = self._programs / "python"
        self._call(str(UV), "venv", "--quiet", "--seed", "--python", self.cell.python, str(self.folder / "venv"))
        package = f"{self.wheel}[airflow,driver,demo]"
        self._pip("install", f"apache-airflow=={self.cell.airflow}", f"pyspark=={RESOLVED}", package)
        self._call(str(UV), "pip", "check", "--python", str(python))
        if self.cell.spark != RESOLVED:
            # Spark's client unpacks into the same folder, and there is none of each patch release
            self._pip("uninstall", "pyspark-client", "pyspark")
            self._pip("install", "--no-deps", f"pyspark=={self.cell.spark}")
        self._write_stream()
        self._call(str(python), "-m", "airflow", "db", "migrate")
        plugins = self._call(str(python), "-m", "airflow", "plugins", "--output", "json")
        if '"sessionizer"' not in plugins:
            raise subprocess.CalledProcessError(1, "airflow plugins", plugins, "the plugin is not loaded")
        self._call(str(python), "-c", PARSE, str(self.folder / "dags"))
        self._run_stream()

    def _write_stream(self) -> None:
        streams = self.folder / "dags" / "streams"
        streams.mkdir(parents=True)
        (self.folder / "dags" / "shop.py").write_text(DAG_FILE)
        (streams / "visits.yaml").write_text(SPEC.replace("FEED", str(self.folder / "feed")))
        (self.folder / "feed").mkdir()

    def _run_stream(self) -> None:
        self._sessionizer("jars", "fetch")
        self._feed(2000)
        self._sessionizer("run", "visits", "--until", "caught-up")
        self._sessionizer("savepoint", "create", "visits", "--id", "one", "--hurry")
        self._feed(4000)
        self._sessionizer("run", "visits", "--until", "caught-up")
        before = self._lineage()
        digest = json.loads(self._sessionizer("restore", "visits", "one", "--json"))["digest"]
        self._sessionizer("restore", "visits", "one", "--approve", digest)
        self._sessionizer("run", "visits", "--until", "caught-up")
        if self._lineage() == before:
            raise subprocess.CalledProcessError(1, "restore", None, "the lineage before the restore is active")

    def _feed(self, events: int) -> None:
        to = ("--to", "folder", "--path", str(self.folder / "feed"))
        self._call(str(self._programs / "sessionizer-feed"), *to, "--events", str(events), "--clean", "--no-pace")

    def _lineage(self) -> str:
        """Return the active lineage of a stream that has sessions in its table."""
        (seen,) = json.loads(self._sessionizer("status", "visits", "--json"))
        return str(seen["heartbeat"]["lineage"])

    def _sessionizer(self, *words: str) -> str:
        return self._call(str(self._programs / "sessionizer"), *words)

    def _pip(self, verb: str, *words: str) -> None:
        self._call(str(UV), "pip", verb, "--quiet", "--python", str(self._programs / "python"), *words)

    @property
    def _programs(self) -> Path:
        return self.folder / "venv" / "bin"

    def _call(self, *command: str) -> str:
        programs = os.pathsep.join([str(self._programs), os.environ["PATH"]])
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "AIRFLOW", "SESSIONIZER"))
        }
        environment = {
            **kept,
            "PATH": programs,
            "AIRFLOW_HOME": str(self.folder / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "SESSIONIZER_HOME": str(self.folder / "home"),
            "SESSIONIZER_STREAMS": str(self.folder / "dags" / "streams"),
        }
        done = subprocess.run(
            command, env=environment, cwd=self.folder, capture_output=True, text=True, check=True, timeout=1200
        )
        return done.stdout


def tried(cell: Cell, wheel: Path) -> str:
    """Run the cell, and return its row of the table."""
    folder = Path(tempfile.mkdtemp(prefix="matrix-"))
    begun = time.monotonic()
    try:
        Trial(cell, wheel, folder).run()
    except subprocess.CalledProcessError as error:
        reason = ((error.stderr or "") + (error.stdout or "")).strip().splitlines() or ["?"]
        sys.stderr.write("\n".join(reason[-20:]) + "\n")
        step = " ".join(Path(str(word)).name for word in list(error.cmd)[:3])
        return f"{cell.name} no: `{step}`: {reason[-1][:160]} |"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return f"{cell.name} yes, {time.monotonic() - begun:.0f} s |"


def main() -> int:
    """Print the table. ``ONLY`` (JSON, a list of rows' numbers) chooses cells."""
    (wheel,) = Path(sys.argv[1]).absolute().glob("*.whl")
    chosen = json.loads(os.environ.get("ONLY", "null")) or range(len(CELLS))
    sys.stdout.write(HEADER)
    rows = []
    for number in chosen:
        rows.append(tried(CELLS[number], wheel))
        sys.stdout.write(f"{rows[-1]}\n")
        sys.stdout.flush()
    return 0 if all(" yes, " in row for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
