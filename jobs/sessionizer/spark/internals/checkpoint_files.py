"""How the files of a local checkpoint get their names: without starting four processes each time (docs/adr/0037).

**Private**: the name of one of Spark's classes, as a setting.
**Public**: Spark's own choice.
**Lost**: 65 processes a batch, ``readlink``, on a machine without Hadoop's native library.
"""

from __future__ import annotations

from typing import Final

from sessionizer.launch.plain_spark import plain

CHECKPOINT_FILES: Final = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def local_checkpoint_settings() -> dict[str, str]:
    """For a driver whose checkpoint is on a file system of its own machine: elsewhere a rename may not be one step."""
    return {} if plain() else {"spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES}
