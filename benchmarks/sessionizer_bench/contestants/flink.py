"""The input and the environment of Flink (``flink_job``), made before its process starts."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyarrow import dataset, parquet

from sessionizer_bench.places import REPOSITORY

if TYPE_CHECKING:
    from sessionizer_bench.contestants.race import Race

HOME: Final = REPOSITORY / ".tools" / "flink"
JOB: Final = Path(__file__).with_name("flink_job.py")


class FlinkMissing(Exception):
    """The error for an environment without Flink. ``make bench`` makes it."""

    def __init__(self) -> None:
        super().__init__("Flink is not installed. Run `make .tools/flink/.ready`, or leave its contestants out")


def require_installed() -> None:
    """Raise FlinkMissing without Flink's environment."""
    if not (HOME / ".ready").exists():
        raise FlinkMissing


def prepare(race: Race, uncounted: int) -> dict[str, Any]:
    """Write the warm-up and the measured events into one file each, and return what ``flink_job`` needs to know.

    Flink reads the files of a folder in no order of its own, and drops what comes behind the watermark. One file is
    read in its order. ``uncounted``: batches of the warm-up. Raises FlinkMissing.
    """
    require_installed()
    folder = race.folder / "input"
    folder.mkdir()
    files = sorted(race.files.iterdir())
    warm = uncounted * race.files_per_batch
    for name, part in {"warm_up": files[:warm], "measured": files[warm:]}.items():
        parquet.write_table(dataset.dataset(part).to_table(), folder / f"{name}.parquet")
    return {"input": str(folder), "jars": [str(jar) for jar in _jars()], "cores": os.cpu_count() or 2}


def command(job_file: Path) -> list[str]:
    """Return the command that runs the job in Flink's own environment."""
    return [str(HOME / "bin" / "python"), str(JOB), str(job_file)]


def _jars() -> list[Path]:
    """Return Flink's format of Parquet, and Hadoop's classes that it needs, which pyspark brings."""
    pyspark = find_spec("pyspark")
    assert pyspark is not None  # noqa: S101  the benchmark cannot run without it
    assert pyspark.origin is not None  # noqa: S101  it is a package
    hadoop = (Path(pyspark.origin).parent / "jars").glob("hadoop-client-*.jar")
    return [*sorted((HOME / "jars").glob("*.jar")), *sorted(hadoop)]
