"""The whole benchmark, run by ``python benchmarks/run.py``. ``--help`` lists the options."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
for root in (HERE, HERE.parent / "jobs", HERE.parent / "plugins", HERE.parent / "demo", HERE.parent / "tests"):
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))

from sessionizer_bench.command import app  # noqa: E402  the paths come first

if __name__ == "__main__":
    app()
