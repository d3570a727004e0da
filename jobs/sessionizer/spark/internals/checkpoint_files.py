"""How the files of a local checkpoint get their names: without starting four processes each time (docs/adr/0037).

**Private**: the name of one of Spark's classes, as a setting.
**Public**: the same where Spark's jars have a class of that name, else Spark's own choice. The setting is documented,
the names of the classes are not.
**Lost**: without the class 65 processes a batch, ``readlink``, on a machine without Hadoop's native library.
"""

from __future__ import annotations

import os
import zipfile
from functools import cache
from pathlib import Path
from typing import Final

import pyspark

from sessionizer.launch.plain_spark import plain

CHECKPOINT_FILES: Final = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_JARS: Final = "spark-sql_*.jar"


def local_checkpoint_settings() -> dict[str, str]:
    """For a driver whose checkpoint is on a file system of its own machine: elsewhere a rename may not be one step."""
    if plain() and not in_a_jar(CHECKPOINT_FILES, _folder_of_jars()):
        return {}
    return {"spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES}


@cache
def in_a_jar(name: str, folder: Path) -> bool:
    """Whether a jar of Spark's SQL in ``folder`` has the class ``name``; not where there is no such jar."""
    entry = f"{name.replace('.', '/')}.class"
    for jar in folder.glob(_JARS):
        with zipfile.ZipFile(jar) as archive:
            if entry in archive.namelist():
                return True
    return False


def _folder_of_jars() -> Path:
    """Where the Spark that runs has its own: a site's, or that of PySpark."""
    home = os.environ.get("SPARK_HOME")
    return (Path(home) if home else Path(pyspark.__file__).parent) / "jars"
