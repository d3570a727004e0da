"""The locale and charset of every JVM of ours: those of the machine change names of files.

Delta names the files of its log with the digits of the JVM's locale: under ``ar_EG`` no reader finds a table.
A file name that is no ASCII is lost where the charset is none of Unicode's.
"""

from __future__ import annotations

from typing import Final

LOCALE: Final = "C.UTF-8"
"""Every glibc since 2.35 has it built in, Debian since long before."""
VARIABLE: Final = "LC_ALL"
"""Wins over LANG and the other variables of its family."""
LOCALE_VARIABLES: Final = {VARIABLE: LOCALE}
JVM_LOCALE: Final = "-Duser.language=en -Duser.country=US -Dfile.encoding=UTF-8"
"""Wins over ``JAVA_TOOL_OPTIONS``, which wins over the variable."""
EXECUTORS: Final = "spark.executorEnv."
"""Spark's setting for a variable of the executors of a cluster."""
DRIVERS: Final = {"yarn": "spark.yarn.appMasterEnv.", "kubernetes": "spark.kubernetes.driverEnv."}
"""The same for a driver that the cluster starts, by its manager."""


def cluster_locale(manager: str | None = None) -> dict[str, str]:
    """Spark settings that give executors the locale, and the driver if ``manager`` starts it."""
    prefixes = [EXECUTORS, *(DRIVERS[name] for name in DRIVERS if name == manager)]
    return {f"{prefix}{VARIABLE}": LOCALE for prefix in prefixes}
