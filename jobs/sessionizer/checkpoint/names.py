"""Names of the files of a checkpoint: its logs, the sources of our query, and the parts of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionizer.home.data_files import list_names

if TYPE_CHECKING:
    from sessionizer.home.roots import DataPath

METADATA: Final = "metadata"
OFFSETS: Final = "offsets"
COMMITS: Final = "commits"
SOURCES: Final = "sources"
STATE: Final = "state"

EVENTS: Final = "0"
PUNCTUATIONS: Final = "1"
"""The sources of our query. A checkpoint knows them by their places (docs/adr/0072), the events first."""
OPERATOR: Final = 0
"""The number of the only stateful operator of our query."""
PARTITIONS: Final = "spark.sql.shuffle.partitions"
"""The setting that is pinned in a checkpoint from its first batch on: its number of state partitions."""


def offset_log(checkpoint: DataPath) -> DataPath:
    """Return Spark's log of the batches whose input is settled: a file for each, named by its number."""
    return checkpoint / OFFSETS


def commit_log(checkpoint: DataPath) -> DataPath:
    """Return Spark's log of the committed batches."""
    return checkpoint / COMMITS


def source_log(checkpoint: DataPath, source: str) -> DataPath:
    """Return Spark's log of the ``source``, given by its place in the query or its name: a file source's files."""
    return checkpoint / SOURCES / source


def list_numbers(log: DataPath) -> set[int]:
    """Return the numbers that name the parts of one of Spark's logs."""
    names = (name.removesuffix(".compact") for name in list_names(log))
    return {int(name) for name in names if name.isdecimal()}
