"""How the files of a local checkpoint get their names: without starting four processes each time (docs/adr/0037).

**Private**: the name of one of Spark's classes, as a setting.
**Public**: Hadoop's setting for local files, with Hadoop's class that keeps no checksums of its own: half as many
names, and half the processes (docs/adr/0122).
**Lost**: some thirty processes a batch, ``readlink``, on a machine without Hadoop's native library; and Hadoop's
checksum beside each file of the checkpoint, by which a look at it tells that a log was altered.
"""

from __future__ import annotations

from typing import Final

from sessionizer.launch.plain_spark import plain

CHECKPOINT_FILES: Final = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
LOCAL_FILES: Final = "fs.AbstractFileSystem.file.impl"
"""Hadoop's setting for what Spark names the files of a local checkpoint through, and nothing else of ours."""
WITHOUT_CHECKSUMS: Final = "org.apache.hadoop.fs.local.RawLocalFs"
HADOOPS: Final = "spark.hadoop."
"""What Spark wants before a setting of Hadoop's where a JVM starts; in a session it goes by its own name."""


def local_checkpoint_settings() -> dict[str, str]:
    """For a driver whose checkpoint is on a file system of its own machine: elsewhere a rename may not be one step."""
    if plain():
        return {f"{HADOOPS}{LOCAL_FILES}": WITHOUT_CHECKSUMS}
    return {"spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES}
