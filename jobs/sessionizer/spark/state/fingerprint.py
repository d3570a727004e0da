"""By what a savepoint was made: our code, and the versions of what is below it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from functools import cache
from typing import TYPE_CHECKING

from sessionizer.spark.session import package_root
from sessionizer.state.manifest import Fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession


def fingerprint(spark: SparkSession, settings: Mapping[str, str]) -> Fingerprint:
    """Of this process; ``settings`` are those that Spark pinned in the checkpoint."""
    java = spark.sql("select java_method('java.lang.System', 'getProperty', 'java.version') version").first()
    versions = {
        "spark": spark.version,
        "java": java.version if java else "",
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in ("delta-spark", "pyarrow")},
    }
    return Fingerprint(code_digest(), versions, settings)


@cache
def code_digest() -> str:
    """SHA-256 of all modules of the package, whatever folder it is in; of nothing where they are no files."""
    digest = hashlib.sha256()
    root = package_root() / "sessionizer"
    for module in sorted(root.rglob("*.py")):
        digest.update(module.relative_to(root).as_posix().encode() + b"\0" + module.read_bytes() + b"\0")
    return digest.hexdigest()
