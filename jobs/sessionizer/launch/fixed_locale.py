"""The locale and charset of all our JVMs, because those of the machine change names of files.

Delta names the files of its log with the digits of the JVM's locale: under ``ar_EG`` no reader finds a table. A file
name outside ASCII is lost if the charset is not a Unicode one.
"""

from __future__ import annotations

from typing import Final

LOCALE: Final = "C.UTF-8"
"""A locale that is built into every glibc since 2.35, and into Debian's since long before."""
VARIABLE: Final = "LC_ALL"
"""Variable that wins over LANG and the other variables of its family."""
LOCALE_VARIABLES: Final = {VARIABLE: LOCALE}
JVM_LOCALE: Final = "-Duser.language=en -Duser.country=US -Dfile.encoding=UTF-8"
"""JVM options that win over ``JAVA_TOOL_OPTIONS``, which wins over the variable."""
EXECUTORS: Final = "spark.executorEnv."
"""Spark's setting for a variable of the executors of a cluster."""
DRIVERS: Final = {"yarn": "spark.yarn.appMasterEnv.", "kubernetes": "spark.kubernetes.driverEnv."}
"""Prefixes of Spark's setting for a variable of a driver that the cluster starts, by cluster manager."""


def cluster_locale(manager: str | None = None) -> dict[str, str]:
    """Return Spark settings that give executors the locale, and the driver if ``manager`` starts it."""
    prefixes = [EXECUTORS, *(DRIVERS[name] for name in DRIVERS if name == manager)]
    return {f"{prefix}{VARIABLE}": LOCALE for prefix in prefixes}
