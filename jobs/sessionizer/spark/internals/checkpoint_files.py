"""Names of the files of a local checkpoint, given without starting four processes each time (docs/develop/tuning.md).

**Private**: the name of one of Spark's classes, as a setting.
**Public**: Hadoop's setting for local files, with Hadoop's class that keeps no checksums of its own. It gives half as
many names, and starts half the processes (docs/develop/tuning.md).
**Lost**: some thirty processes a batch, ``readlink``, on a machine without Hadoop's native library. Hadoop's checksum
beside each file of the checkpoint, which shows that a log was altered.
"""

from typing import Final

from sessionizer.launch.driver_environment import plain

LOCAL_FILES: Final = "fs.AbstractFileSystem.file.impl"
"""Hadoop's setting for the names of the files of a local checkpoint. Spark uses it for no other file of ours."""
HADOOPS: Final = "spark.hadoop."
"""Prefix that Spark wants before a setting of Hadoop's when a JVM starts. In a session the setting has its own name."""


def local_checkpoint_settings() -> dict[str, str]:
    """Return settings for a checkpoint on this machine. On other file systems a rename may not be one step."""
    if plain():
        return {f"{HADOOPS}{LOCAL_FILES}": "org.apache.hadoop.fs.local.RawLocalFs"}
    package = "org.apache.spark.sql.execution.streaming.checkpointing"
    return {"spark.sql.streaming.checkpointFileManagerClass": f"{package}.FileSystemBasedCheckpointFileManager"}
