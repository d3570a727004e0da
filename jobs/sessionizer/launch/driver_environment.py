"""The environment variables of a driver on this machine, and the locale of every JVM.

A driver gets the variables of a list, not all that Airflow has.

Airflow's processes hold the address of its database, the key of its secrets, and whatever else an installation sets. A
driver runs the SQL of a spec, and a spec cannot reach a variable that the driver lacks.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from sessionizer.errors import InvalidSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, MutableMapping

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
VARIABLE: Final = "LC_ALL"
"""Variable that wins over LANG and the other variables of its family."""
LOCALE_VARIABLES: Final = {VARIABLE: LOCALE}
JVM_LOCALE: Final = "-Duser.language=en -Duser.country=US -Dfile.encoding=UTF-8"
"""JVM options that win over ``JAVA_TOOL_OPTIONS``, which wins over the variable."""
EXECUTORS: Final = "spark.executorEnv."
"""Spark's setting for a variable of the executors of a cluster."""
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
    return _fits(name, read_allowed_patterns(environment)) and not _fits(name, NEVER)


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
    prefixes = [EXECUTORS, *([driver_prefix] if driver_prefix else [])]
    return {f"{prefix}{VARIABLE}": LOCALE for prefix in prefixes}


def plain(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether only public interfaces may be used. Raises InvalidSpec for a value that is neither 1 nor 0 nor empty."""
    value = environment.get(PLAIN_SPARK, "")
    if value not in ("", "0", "1"):
        raise InvalidSpec(PLAIN_SPARK, value, "1 (public interfaces of Spark only) or 0, or unset it")
    return value == "1"
