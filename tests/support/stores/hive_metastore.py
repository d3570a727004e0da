"""A Hive metastore of Derby in a folder, the commands that use it, and a Spark session that asks it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from support.processes.driver_process import JOBS, SPARK_SETTINGS, environment

if TYPE_CHECKING:
    from pathlib import Path

    from support.streams.stage import Stage

WITHIN_S = 400

_SESSION = """
import json, shutil, sys
from sessionizer.errors import InvalidSpec
from sessionizer.spark.session import spark_session
from sessionizer.spark.sinks.catalog import name_tables
spark = spark_session("reader", "local[2]")
def carry_out(step):
    if isinstance(step, str):
        return [list(row) for row in spark.sql(step).collect()]
    if "remove" in step:
        return shutil.rmtree(step["remove"])
    try:
        return name_tables(spark, **step)
    except InvalidSpec as error:
        return {"field": error.field, "value": error.value, "allowed": error.allowed}
print(json.dumps([carry_out(step) for step in json.loads(sys.argv[1])], default=str))
"""


class HiveMetastore:
    """A metastore below ``root``, which one process at a time can open."""

    def __init__(self, root: Path) -> None:
        lines = [
            SPARK_SETTINGS.read_text(),
            "spark.sql.catalogImplementation hive",
            f"spark.hadoop.javax.jdo.option.ConnectionURL jdbc:derby:;databaseName={root / 'metastore'};create=true",
            f"spark.sql.warehouse.dir {root / 'warehouse'}",
        ]
        settings = root / "hive.conf"
        settings.write_text("\n".join([*lines, ""]))
        submit = f"--properties-file {shlex.quote(str(settings))} pyspark-shell"
        self._root, self._environment = root, {**environment(), "PYSPARK_SUBMIT_ARGS": submit}

    def run(self, stage: Stage, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``sessionizer VERB`` on the stage's stream, with the metastore as Spark's catalog."""
        places = ["--home", str(stage.home), "--master", "local[2]", "--streams", str(stage.streams)]
        return self._run([str(JOBS / "main.py"), *verb.split(), stage.name, *arguments, *places])

    def done(self, stage: Stage, verb: str, *arguments: str) -> str:
        """Return what the command printed, which must end well."""
        ended = self.run(stage, verb, *arguments)
        assert ended.returncode == 0, ended.stderr[-4_000:]
        return ended.stdout

    def ask(self, *steps: str | dict[str, Any]) -> list[Any]:
        """Carry out the steps in a Spark session: SQL, the arguments of ``name_tables``, or ``remove`` with a folder.

        Rows of SQL are returned, and a refusal by its fields.
        """
        ended = self._run(["-c", _SESSION, json.dumps(steps)])
        assert ended.returncode == 0, ended.stderr[-4_000:]
        found: list[Any] = json.loads(ended.stdout.splitlines()[-1])
        return found

    def _run(self, arguments: list[str]) -> subprocess.CompletedProcess[str]:
        variables = {"PYTHONPATH": os.pathsep.join([str(JOBS), os.environ.get("PYTHONPATH", "")])}
        return subprocess.run(
            [sys.executable, *arguments], env=self._environment | variables, cwd=self._root, capture_output=True,
            text=True, timeout=WITHIN_S, check=False,
        )  # fmt: skip
