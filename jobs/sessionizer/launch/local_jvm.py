"""The options of a driver's JVM on this machine. On a cluster its operator sets them.

``make`` makes an archive of classes once, from a short stream's life. It spares each driver to read, check and link
some twenty thousand classes (docs/tuning.md). The JVM itself checks that the archive fits its class path, and ignores
it otherwise.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sessionizer.launch.driver_environment import JVM_LOCALE

LOGGING: Final = Path(__file__).absolute().parents[1] / "spark" / "log4j2.properties"
DEFAULT_JAVA_OPTIONS: Final = "spark.driver.defaultJavaOptions"
"""Setting for the options. A site's ``extraJavaOptions`` come after them and win."""
DRIVER_MEMORY: Final = {"SPARK_DRIVER_MEMORY": "2g"}
"""The limit of the heap, as an environment variable. ``spark.driver.memory`` wins wherever it is set, and so does a
site's own value of the variable."""
END_WITHOUT_MEMORY: Final = "-XX:+ExitOnOutOfMemoryError"
"""Option that ends the JVM when memory runs out. Otherwise Spark would shut its context down first, and the report
would name a later failure, not the memory."""
ENDED_WITHOUT_MEMORY: Final = 3
"""The exit code of a JVM that ``END_WITHOUT_MEMORY`` ended."""
HEAP_REGIONS: Final = "-XX:G1HeapRegionSize=8m"
"""Option for larger regions of the heap. G1 treats an array that fills half a region as humongous: blobs, with the
regions of 1 MiB that a small heap gets."""
SMALL_ARRAYS: Final = {
    # A broadcast fills a block, a sort a page, and be it with one row. Spark's defaults, 4 MiB and by the heap 32, are
    # humongous: G1 then marks the whole heap time and again (docs/tuning.md).
    "spark.broadcast.blockSize": "512k",
    "spark.buffer.pageSize": "2m",
}


def class_archive(jars: Path) -> Path:
    """Return the place of the archive for the class path ``jars``, which may not exist."""
    return jars.with_suffix(".jsa")


def jvm_options(jars: Path) -> str:
    """Return the JVM options of a driver with the class path ``jars``, as a text."""
    options = [JVM_LOCALE, f'"-Dlog4j2.configurationFile={LOGGING.as_uri()}"', HEAP_REGIONS, END_WITHOUT_MEMORY]
    archive = class_archive(jars)
    if archive.is_file():
        # an archive that does not fit must not put a line in the log of each driver
        options += [f'"-XX:SharedArchiveFile={archive}"', "-Xlog:cds*=off"]
    return " ".join(options)
