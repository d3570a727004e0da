"""A Hive metastore of Derby in a folder, the commands that use it, and a Spark session that asks it."""

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from support.processes.driver_process import JOBS, SPARK_SETTINGS, environment
from support.streams.stage import Stage

NOBODY = "thrift://127.0.0.1:9"
"""An address at which no metastore answers."""

_SESSION = """
import contextlib, io, json, shutil, sys
from sessionizer.cli import main
from sessionizer.errors import InvalidSpec
from sessionizer.spark.session import spark_session
from sessionizer.spark.sinks.tables import name_tables

def typed(argv):
    said, sys.argv, code = io.StringIO(), ["sessionizer", *argv], 0
    with contextlib.redirect_stdout(said):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    print(*argv, said.getvalue(), f"exit {code}", file=sys.stderr, flush=True)
    return code, said.getvalue()

def carry_out(step):
    if "argv" in step:
        code, said = typed(step["argv"])
        if step["approved"] and not code:
            digest = said.split("--approve ")[1].split()[0]
            code, said = typed([*step["argv"], "--approve", digest, "--by", "ann"])
        return code
    if "remove" in step:
        return shutil.rmtree(step["remove"])
    spark = spark_session("reader", "local[2]")
    if "sql" in step:
        return [list(row) for row in spark.sql(step["sql"]).collect()]
    try:
        return name_tables(spark, **step)
    except InvalidSpec as error:
        return {"field": error.field, "value": error.value, "allowed": error.allowed}

print(json.dumps([carry_out(step) for step in json.loads(sys.argv[1])], default=str))
"""


class HiveMetastore:
    """A metastore below ``root``, which one process at a time can open. With ``address`` it is asked there instead."""

    def __init__(self, root: Path, address: str | None = None) -> None:
        lines = [
            SPARK_SETTINGS.read_text(),
            "spark.sql.catalogImplementation hive",
            f"spark.hadoop.javax.jdo.option.ConnectionURL jdbc:derby:;databaseName={root / 'metastore'};create=true",
            f"spark.sql.warehouse.dir {root / 'warehouse'}",
            *([] if address is None else [f"spark.hadoop.hive.metastore.uris {address}"]),
        ]
        settings = root / ("away.conf" if address else "hive.conf")
        settings.write_text("\n".join([*lines, ""]))
        submit = f"--properties-file {shlex.quote(str(settings))} pyspark-shell"
        self._root, self._environment = root, {**environment(), "PYSPARK_SUBMIT_ARGS": submit}

    def ask(self, *steps: dict[str, Any]) -> list[Any]:
        """Carry out the steps one after the other in a process of their own, and return the answer to each.

        A step is a command, SQL, ``remove`` with a folder, or the arguments of ``name_tables``. The answer to a command
        is its exit code, the one to SQL its rows, and a refusal is returned by its fields.
        """
        path = os.pathsep.join([str(JOBS), os.environ.get("PYTHONPATH", "")])
        ended = subprocess.run(
            [sys.executable, "-c", _SESSION, json.dumps(steps)], env=self._environment | {"PYTHONPATH": path},
            cwd=self._root, capture_output=True, text=True, timeout=400, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr[-4_000:]
        (self._root / f"said-{time.monotonic_ns()}.log").write_text(ended.stderr)
        found: list[Any] = json.loads(ended.stdout.splitlines()[-1])
        return found


def command(stage: Stage, verb: str, *arguments: str, approved: bool = False) -> dict[str, Any]:
    """The step that types ``sessionizer VERB`` on the stage's stream. ``approved``: with the plan of a first run."""
    places = ["--home", str(stage.home), "--master", "local[2]"]
    places += ["--streams", str(stage.streams)] if verb in {"run", "report", "compact", "rescale"} else []
    return {"argv": [*verb.split(), stage.name, *arguments, *places], "approved": approved}


def sql(statement: str) -> dict[str, Any]:
    return {"sql": statement}


def count(*tables: str) -> list[dict[str, Any]]:
    return [sql(f"FROM {table} SELECT count(*)") for table in tables]
