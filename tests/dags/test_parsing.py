"""Parsing stays light: Airflow parses all DAG files again and again. How long it takes is in docs/benchmarks.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.places import REPOSITORY

STREAM_COUNT = 50
DAGS_PER_STREAM = 4
DAGS_OF_THE_PLATFORM = 6
HEAVY = ("pyspark", "pandas", "numpy", "pyarrow", "delta", "confluent_kafka", "typer")
READS_PER_SPEC = 2
"""One for all DAGs, and one that asks whether a spec is broken."""
SPEC = """
name: {name}
description: a stream
owner: tests
source: {{format: files, path: feed, encoding: json, columns: "k string, t timestamp, i string"}}
mapping: {{key: k, event_time: t, event_id: i}}
"""
PARSE = """
import json, sys
from airflow.dag_processing.dagbag import DagBag

reads = []
sys.addaudithook(lambda event, args: reads.append(args[0]) if event == "open" else None)
bag = DagBag(sys.argv[1])
print(json.dumps({
    "errors": {str(file): str(error) for file, error in bag.import_errors.items()},
    "dags": sorted(bag.dags),
    "modules": sorted({name.partition(".")[0] for name in sys.modules}),
    "spec_reads": sum(str(file).startswith(sys.argv[2]) and str(file).endswith(".yaml") for file in reads),
}))
"""


@pytest.fixture
def many_streams(tmp_path: Path) -> Path:
    for number in range(STREAM_COUNT):
        name = f"stream_{number:02d}"
        (tmp_path / f"{name}.yaml").write_text(SPEC.format(name=name))
    return tmp_path


def parse(streams: Path, home: str = "/platform") -> dict[str, Any]:
    """What a fresh process finds in the DAG folder, over the specs in `streams`."""
    environment = {
        **os.environ,
        "SESSIONIZER_STREAMS": str(streams),
        "SESSIONIZER_HOME": home,
        "PYTHONPATH": f"{REPOSITORY / 'jobs'}:{REPOSITORY / 'plugins'}",
    }
    command = [sys.executable, "-c", PARSE, str(REPOSITORY / "dags"), str(streams)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    found: dict[str, Any] = json.loads(answer.splitlines()[-1])
    return found


def test_many_streams_are_parsed_without_heavy_imports(many_streams: Path) -> None:
    found = parse(many_streams)
    assert found["errors"] == {}
    assert len(found["dags"]) == STREAM_COUNT * DAGS_PER_STREAM + DAGS_OF_THE_PLATFORM
    assert not set(HEAVY) & set(found["modules"])
    assert found["spec_reads"] == STREAM_COUNT * READS_PER_SPEC


def test_a_broken_spec_is_an_import_error_and_the_others_keep_their_dags(tmp_path: Path) -> None:
    for name in ("good", "bad"):
        (tmp_path / f"{name}.yaml").write_text(SPEC.format(name=name))
    bad = tmp_path / "bad.yaml"
    bad.write_text(bad.read_text().replace("key: k", "kee: k"))
    found = parse(tmp_path)
    assert {dag_id.partition(".")[0] for dag_id in found["dags"]} == {"good", "sessionizer"}
    assert len(found["dags"]) == DAGS_PER_STREAM + DAGS_OF_THE_PLATFORM
    ((file, error),) = found["errors"].items()
    assert Path(file).name == "broken_specs.py"
    for fact in (f"{bad}:6", "mapping.kee is 'k'", "Did you mean 'key'"):
        assert fact in error


@pytest.mark.parametrize("home", ["", ".sessionizer"])
def test_without_a_home_no_file_is_imported_and_each_says_why(many_streams: Path, home: str) -> None:
    found = parse(many_streams, home)
    assert found["dags"] == []
    assert {Path(file).name for file in found["errors"]} == {file.name for file in (REPOSITORY / "dags").glob("*.py")}
    for error in found["errors"].values():
        assert "HomeMissing: SESSIONIZER_HOME" in error
