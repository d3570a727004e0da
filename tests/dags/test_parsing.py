"""Parsing stays light: Airflow parses all DAG files again and again. How long it takes is measured by the benchmark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
STREAM_COUNT = 50
DAGS_PER_STREAM = 4
DAGS_OF_THE_PLATFORM = 1
HEAVY = ("pyspark", "pandas", "numpy", "pyarrow", "delta", "confluent_kafka", "typer")
READS_PER_SPEC = 3
"""One for each DAG file of streams."""
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
    "dags": len(bag.dags),
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


def test_many_streams_are_parsed_without_heavy_imports(many_streams: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESSIONIZER_STREAMS", str(many_streams))
    monkeypatch.setenv("PYTHONPATH", f"{REPOSITORY / 'jobs'}:{REPOSITORY / 'plugins'}")
    parse = [sys.executable, "-c", PARSE, str(REPOSITORY / "dags"), str(many_streams)]
    answer = subprocess.run(parse, capture_output=True, text=True, check=True).stdout
    found = json.loads(answer.splitlines()[-1])
    assert found["errors"] == {}
    assert found["dags"] == STREAM_COUNT * DAGS_PER_STREAM + DAGS_OF_THE_PLATFORM
    assert not set(HEAVY) & set(found["modules"])
    assert found["spec_reads"] == STREAM_COUNT * READS_PER_SPEC
