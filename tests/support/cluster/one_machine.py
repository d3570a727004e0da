"""HDFS and YARN on this machine until Ctrl-C, to try a stream on: ``python -m support.cluster.one_machine``.

The folder that is given gets all of it. What is printed is for the shell in which Airflow is started.
"""

import signal
import sys
from contextlib import suppress
from pathlib import Path

from support.cluster.machines import FRUGAL, write_spark_defaults
from support.processes.hadoop import Hdfs, Yarn


def main(root: Path) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with Hdfs(root / "hdfs") as hdfs, Yarn(root / "yarn", hdfs.configuration / "core-site.xml") as yarn:
        spark = write_spark_defaults(root / "spark", FRUGAL)
        sys.stdout.write(
            f"export HADOOP_CONF_DIR={yarn.configuration}\n"
            f"export SPARK_CONF_DIR={spark}\n"
            f"export SESSIONIZER_DATA={hdfs.uri}/sessionizer\n"
            f"# YARN's page: http://{yarn.web}\n"
        )
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
