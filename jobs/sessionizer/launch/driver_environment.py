"""The environment variables, JVM options and Spark settings of a driver on this machine, and the locale of every JVM.

A driver gets the variables of a list, not all that Airflow has: the address of its database, the key of its secrets,
and whatever else an installation sets. A driver runs the SQL of a spec, which cannot reach a variable that it lacks.

On a cluster we set no options and no settings, because only its operator knows its cores and memory.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from sessionizer.errors import InvalidSpec

MORE: Final = "SESSIONIZER_DRIVER_ENVIRONMENT"
"""Variable with further names for drivers, separated by commas or blanks. ``*`` stands for any letters (``AWS_*``)."""

ALLOWED: Final = "SESSIONIZER_ALLOWED_VARIABLES"
"""Variable with the names that a spec may hand to a source, written as in ``MORE``. Only the operator sets it."""

ALLOWED_BY_DEFAULT: Final = ("KAFKA_*", "*_KAFKA_*", "*_KAFKA", "*JAAS*", "SASL_*", "*_SASL_*", "*SCHEMA_REGISTRY*")
GIVEN: Final = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "LD_LIBRARY_PATH",
    "JAVA_HOME", "JAVA_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "PYTHON*", "PYSPARK_*", "VIRTUAL_ENV",
    "SPARK_*", "HADOOP_*", "HDFS_*", "YARN_*", "KRB5*", "KUBECONFIG", "SSL_CERT_FILE", "SSL_CERT_DIR", "SESSIONIZER_*",
)  # fmt: skip
"""Variables that Java, Python, Spark and Hadoop need to run at all, and our own settings."""

NEVER: Final = ("AIRFLOW_*", "_AIRFLOW*", "__AIRFLOW*", "SESSIONIZER_NOTIFIER*")
"""Variables that no driver gets, even if a spec or the operator names them: Airflow's own, and the notifier's."""

LOCALE: Final = "C.UTF-8"
"""The locale of all our JVMs, because that of the machine changes names of files.

Delta names the files of its log with the digits of the locale: under ``ar_EG`` no reader finds a table. A file name
outside ASCII is lost if the charset is not a Unicode one. This locale is built into every glibc since 2.35.
"""
LOCALE_VARIABLES: Final = {"LC_ALL": LOCALE}
"""Variable that wins over LANG and the other variables of its family."""
JVM_LOCALE: Final = "-Duser.language=en -Duser.country=US -Dfile.encoding=UTF-8"
"""JVM options that win over ``JAVA_TOOL_OPTIONS``, which wins over the variable."""
PLAIN_SPARK: Final = "SESSIONIZER_PLAIN_SPARK"
"""Variable that switches every door to what is private in Spark to the public way."""


def driver_environment(environment: Mapping[str, str], named: Iterable[str] = ()) -> dict[str, str]:
    """Return the part of ``environment`` for a driver whose spec names the variables ``named``."""
    allowed = read_allowed_patterns(environment)
    wanted = (*GIVEN, *(name for name in named if _fits(name, allowed)), *_patterns(environment.get(MORE, "")))
    return {name: value for name, value in environment.items() if _fits(name, wanted) and not _fits(name, NEVER)}


def read_allowed_patterns(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that a spec may name, according to the operator of this ``environment``."""
    return _patterns(environment[ALLOWED]) if ALLOWED in environment else ALLOWED_BY_DEFAULT


def is_allowed(name: str, environment: Mapping[str, str]) -> bool:
    """Whether a spec may hand the variable ``name`` to its source."""
    return _fits(name, read_allowed_patterns(environment)) and not is_airflows(name)


@contextmanager
def hide_airflows(environment: MutableMapping[str, str]) -> Iterator[None]:
    """Keep Airflow's own variables from a JVM that the block starts, and from its Python workers."""
    own = {name: environment.pop(name) for name in list(environment) if _fits(name, NEVER)}
    try:
        yield
    finally:
        environment.update(own)


def is_airflows(name: str) -> bool:
    """Whether no driver gets the variable ``name``."""
    return _fits(name, NEVER)


def _patterns(written: str) -> tuple[str, ...]:
    return tuple(written.replace(",", " ").split())


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def cluster_locale(driver_prefix: str | None = None) -> dict[str, str]:
    """Return Spark settings that give executors the locale, and the driver if the cluster starts it.

    ``driver_prefix``: beginning of Spark's setting for a variable of that driver.
    """
    prefixes = ["spark.executorEnv.", *([driver_prefix] if driver_prefix else [])]
    return {f"{prefix}{name}": value for prefix in prefixes for name, value in LOCALE_VARIABLES.items()}


def plain(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether only public interfaces may be used. Raises InvalidSpec for a value that is neither 1 nor 0 nor empty."""
    value = environment.get(PLAIN_SPARK, "")
    if value not in ("", "0", "1"):
        raise InvalidSpec(PLAIN_SPARK, value, "1 (public interfaces of Spark only) or 0, or unset it")
    return value == "1"


LOGGING: Final = Path(__file__).absolute().parents[1] / "spark" / "log4j2.properties"
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
COMPILE_LATER: Final = (
    "-XX:Tier4InvocationThreshold=40000",
    "-XX:Tier4MinInvocationThreshold=5000",
    "-XX:Tier4CompileThreshold=60000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
"""Options by which the JVM's second compiler takes code that was called four to ten times as often as by default.

On two cores it took a quarter of the processor in a driver's first minutes (docs/develop/tuning.md).
"""
SMALL_ARRAYS: Final = {
    # A broadcast fills a block, a sort a page, and be it with one row. Spark's defaults, 4 MiB and by the heap 32, are
    # humongous: G1 then marks the whole heap time and again (docs/develop/tuning.md).
    "spark.broadcast.blockSize": "512k",
    "spark.buffer.pageSize": "2m",
}


def class_archive(jars: Path) -> Path:
    """Return the place of the archive of classes for the class path ``jars``, which may not exist.

    ``make`` makes it once, from a short stream's life. It spares each driver to read, check and link some twenty
    thousand classes (docs/develop/tuning.md). The JVM ignores an archive that does not fit its class path.
    """
    return Path(f"{jars}.jsa")  # with_suffix would take the last digit of jars-4.1.1 for one


def jvm_options(jars: Path) -> str:
    """Return the JVM options of a driver with the class path ``jars``, as a text."""
    options = [
        JVM_LOCALE,
        f'"-Dlog4j2.configurationFile={LOGGING.as_uri()}"',
        HEAP_REGIONS,
        END_WITHOUT_MEMORY,
        *COMPILE_LATER,
    ]
    archive = class_archive(jars)
    if archive.is_file():
        # an archive that does not fit must not put a line in the log of each driver
        options += [f'"-XX:SharedArchiveFile={archive}"', "-Xlog:cds*=off"]
    return " ".join(options)


def is_local_master(master: str) -> bool:
    """Whether Spark runs on this machine alone: ``local[4]``, and ``local-cluster[2,1,1024]`` as well."""
    return master.startswith("local")


def launch_settings(jars: Path) -> dict[str, str]:
    """Return the settings that cannot change once the JVM runs, whose class path is ``jars``.

    A site's ``spark.driver.extraJavaOptions`` come after the JVM's options and win.
    """
    return {"spark.driver.defaultJavaOptions": jvm_options(jars), **SMALL_ARRAYS}


def session_settings() -> dict[str, str]:
    """Return the settings that a session may set for itself, unless others were submitted."""
    return {
        # a task per core and stage
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
        # Delta's default of 50 costs seconds per commit on a laptop; each task of it generates its code anew
        "spark.databricks.delta.snapshotPartitions": "1",
    }
