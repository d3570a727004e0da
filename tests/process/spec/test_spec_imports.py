"""Reading specs loads no heavy package."""

from __future__ import annotations

import subprocess
import sys


def test_reading_specs_needs_neither_spark_nor_airflow() -> None:
    program = (
        "import sys, sessionizer.stream_spec.spec_folder; "
        "from sessionizer.stream_spec import decisions, json_schema;"
        "print([m for m in ('pyspark', 'airflow', 'pandas', 'numpy', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"
