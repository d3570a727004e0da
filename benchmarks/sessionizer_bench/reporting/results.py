"""The results on disk, a JSON file from which the tables and the plot are made."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from sessionizer_bench.measuring import machine
from sessionizer_bench.places import REPOSITORY
from sessionizer_bench.reporting.plot import draw
from sessionizer_bench.reporting.tables import document

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer_bench.reporting.figures import Record

JSON_NAME, TABLES_NAME, PLOT_NAME = "benchmark-results.json", "benchmark-results.md", "benchmarks.png"
_PACKAGES: Final = ("pyspark", "delta-spark", "pyarrow", "pandas", "numpy")


def new_results(titles: dict[str, str], *, quick: bool) -> dict[str, Any]:
    """Return results without runs. ``titles`` maps a workload to its title."""
    return {
        "quick": quick,
        "taken_at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "revision": revision(),
        "machine": machine.description(),
        "versions": {package: version(package) for package in _PACKAGES},
        "workloads": titles,
        "runs": [],
    }


def merge_results(kept: dict[str, Any], new: dict[str, Any], workloads: set[str]) -> dict[str, Any]:
    """Return ``new`` with the runs of ``kept``, except those of ``workloads``. Each run keeps its revision."""
    stay = [record for record in kept["runs"] if record["workload"] not in workloads]
    earlier = {name: kept[name] for name in ("taken_at", "revision")}
    return {**new, "runs": [{**earlier, **record} for record in stay]}


def revision() -> str:
    """Return the present commit, with a plus if files differ from it."""
    commit = _git("rev-parse", "--short", "HEAD") or "unknown"
    return commit + ("+" if _git("status", "--porcelain", "--", "jobs", "benchmarks") else "")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False)  # noqa: S607
    return done.stdout.strip()


def compact(record: Record) -> Record:
    """Return a run without the fields that only a breakdown needs, with rounded numbers."""
    kept = {name: value for name, value in record.items() if name not in {"batches", "diary"}}
    return {name: round(value, 1) if isinstance(value, float) else value for name, value in kept.items()}


def store(results: dict[str, Any], folder: Path) -> None:
    """Write the results file. It is called after every run, so that an interruption costs one run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / JSON_NAME).write_text(json.dumps(results, indent=1) + "\n")


def found_in(folder: Path) -> bool:
    """Whether the folder has a results file."""
    return (folder / JSON_NAME).is_file()


def load(folder: Path) -> dict[str, Any]:
    """Read the results file."""
    results: dict[str, Any] = json.loads((folder / JSON_NAME).read_text())
    return results


def publish(results: dict[str, Any], folder: Path) -> None:
    """Write the tables and the plot beside the results."""
    (folder / TABLES_NAME).write_text(document(results))
    draw(results["runs"], folder / PLOT_NAME)
