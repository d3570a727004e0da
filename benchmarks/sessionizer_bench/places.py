"""The folders of the benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[2]
JOBS: Final = REPOSITORY / "jobs"
SOURCE_ROOTS: Final = (JOBS, REPOSITORY / "benchmarks")
SCRATCH: Final = REPOSITORY / ".bench"
"""Folder of data sets, checkpoints, tables and logs. Git ignores it, and it is safe to delete."""

DATASETS: Final = SCRATCH / "datasets"
RUNS: Final = SCRATCH / "runs"
DOCS: Final = REPOSITORY / "docs"
