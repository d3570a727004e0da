"""The options of a driver's JVM on this machine; on a cluster they belong to whoever runs it.

An archive of classes, made once by ``make`` from a short stream's life, spares each driver to read, check and link some
twenty thousand of them (docs/adr/0035). The JVM itself checks that the archive fits its class path, and does without it
where it does not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sessionizer.launch.fixed_locale import JVM_LOCALE

LOGGING: Final = Path(__file__).absolute().parents[1] / "spark" / "log4j2.properties"
DEFAULT_JAVA_OPTIONS: Final = "spark.driver.defaultJavaOptions"
"""Where they go: what a site sets in ``extraJavaOptions`` comes after them and wins."""
DRIVER_MEMORY: Final = {"SPARK_DRIVER_MEMORY": "2g"}
"""The limit of the heap, as a variable of the environment: ``spark.driver.memory`` wins wherever it is said, and so
does the variable where a site has set it."""
END_WITHOUT_MEMORY: Final = "-XX:+ExitOnOutOfMemoryError"
"""Spark would shut its context down and end after it: people were told of what broke on the way, not of the memory."""
ENDED_WITHOUT_MEMORY: Final = 3
"""The exit code of a JVM that ``END_WITHOUT_MEMORY`` ended."""
HEAP_REGIONS: Final = "-XX:G1HeapRegionSize=8m"
"""G1 treats what fills half a region as humongous: blobs, with the regions of 1 MiB that a small heap gets."""
SMALL_ARRAYS: Final = {
    # A broadcast fills a block, a sort a page, and be it with one row. Spark's defaults, 4 MiB and by the heap 32, are
    # humongous: G1 then marks the whole heap time and again (docs/adr/0041).
    "spark.broadcast.blockSize": "512k",
    "spark.buffer.pageSize": "2m",
}


def class_archive(jars: Path) -> Path:
    """Where the archive for the class path ``jars`` is, if it was made."""
    return jars.with_suffix(".jsa")


def jvm_options(jars: Path) -> str:
    """What a driver with the class path ``jars`` is started with, as one text."""
    options = [JVM_LOCALE, f'"-Dlog4j2.configurationFile={LOGGING.as_uri()}"', HEAP_REGIONS, END_WITHOUT_MEMORY]
    archive = class_archive(jars)
    if archive.is_file():
        # an archive that does not fit is no reason for a line in the log of each driver
        options += [f'"-XX:SharedArchiveFile={archive}"', "-Xlog:cds*=off"]
    return " ".join(options)
