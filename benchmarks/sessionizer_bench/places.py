"""Where the benchmark keeps things."""

from __future__ import annotations

from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[2]
JOBS: Final = REPOSITORY / "jobs"
SOURCE_ROOTS: Final = (JOBS, REPOSITORY / "benchmarks")
SCRATCH: Final = REPOSITORY / ".bench"
"""Data sets, checkpoints, tables and logs; git-ignored, safe to delete."""

DATASETS: Final = SCRATCH / "datasets"
RUNS: Final = SCRATCH / "runs"
DOCS: Final = REPOSITORY / "docs"
