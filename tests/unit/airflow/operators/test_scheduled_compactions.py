"""A compaction is due by the clock, and never while a command works on the stream."""

from pathlib import Path

import pytest

from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.state.compaction.plan import COMPACTION_FILE, CompactionRecord
from sessionizer_airflow.operators.scheduled import CompactTables, streams_due_for_compaction
from sessionizer_airflow.project import Project
from support.verbs.begun_restore import begun_restore, write_operation

HOUR = 3_600_000
SPEC = """
name: {name}
source: {{format: files, path: feed, encoding: json, columns: "k string, t timestamp, i string"}}
mapping: {{key: k, event_time: t, event_id: i}}
"""
STREAMS = ("busy", "damaged", "fresh", "new", "old", "silent", "unborn")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A platform with a stream for each case. All but ``silent`` ask for a compaction every day."""
    specs = tmp_path / "specs"
    specs.mkdir()
    for name in STREAMS:
        asks = "" if name == "silent" else "compaction: {every: 1 day}\n"
        (specs / f"{name}.yaml").write_text(SPEC.format(name=name) + asks)
        home = StreamHome.of(tmp_path, name)
        home.prepare()
        if name != "unborn":
            start_lineage(home)
    for name, hours in (("busy", 30), ("fresh", 23), ("old", 24), ("silent", 30)):
        COMPACTION_FILE.of(StreamHome.of(tmp_path, name)).write(CompactionRecord(at=epoch_ms() - hours * HOUR))
    write_operation(StreamHome.of(tmp_path, "busy"), begun_restore())
    StreamHome.of(tmp_path, "damaged").lineage_record.write_text("{")
    return Project.from_environment({"SESSIONIZER_HOME": str(tmp_path), "SESSIONIZER_STREAMS": str(specs)})


def test_those_are_due_whose_last_one_is_old(project: Project) -> None:
    said: list[str] = []
    assert streams_due_for_compaction(project, said.append) == [
        {"stream": "damaged"},
        {"stream": "new"},
        {"stream": "old"},
    ]
    assert [line.partition(":")[0] for line in said] == [name for name in STREAMS if name != "silent"]


def test_the_job_of_a_stream_compacts_it_without_asking(project: Project, tmp_path: Path) -> None:
    task = CompactTables(task_id="t", stream="old", project=project)
    assert task.job.arguments == (
        "compact", "old", "--yes", "--home", str(tmp_path), "--streams", str(tmp_path / "specs"),
    )  # fmt: skip
