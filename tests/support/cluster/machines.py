"""Makes machines of one: what YARN starts finds itself on a host of its own, where some folders are empty.

A container runs the ``java`` below the JAVA_HOME that it is given. Ours enters name spaces of Linux first (host name,
mounts), which all that it forks inherits, Python too. That takes root.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyspark

from support.processes.driver_process import QUICK_JVM
from support.processes.hadoop import java

ENTER = """\
#!/bin/sh
exec unshare --mount --uts sh -c '
  hostname {host}
  for hidden in {hidden}; do mount -t tmpfs -o ro,size=4k tmpfs "$hidden" || exit 70; done
  exec {java} "$@"
' java "$@"
"""
FRUGAL = {
    "spark.driver.memory": "800m",
    "spark.executor.memory": "800m",
    "spark.executor.instances": "1",
    "spark.executor.cores": "2",
    "spark.driver.extraJavaOptions": QUICK_JVM,
    "spark.executor.extraJavaOptions": QUICK_JVM,
    "spark.pyspark.python": sys.executable,
    "spark.yarn.jars": f"local:{Path(pyspark.__file__).parent}/jars/*",
    "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
    "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
}
"""For a driver and an executor in 3 GB."""


@dataclass(frozen=True)
class Machine:
    host: str
    hidden: tuple[Path, ...] = ()

    def java_home(self, folder: Path) -> Path:
        home = folder / self.host
        program = home / "bin" / "java"
        program.parent.mkdir(parents=True)
        hidden = " ".join(f'"{path}"' for path in self.hidden)
        program.write_text(ENTER.format(host=self.host, hidden=hidden, java=java()))
        program.chmod(0o755)
        return home


def write_spark_defaults(folder: Path, settings: Mapping[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{name}  {value}\n" for name, value in settings.items()]
    (folder / "spark-defaults.conf").write_text("".join(lines))
    return folder
