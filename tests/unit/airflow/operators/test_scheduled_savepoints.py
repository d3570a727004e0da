"""One stream's trouble keeps no other from its savepoint, and none from being pruned."""

from pathlib import Path

import pytest

from sessionizer.checkpoint.log_entries import commit_log
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.state.compaction.plan import COMPACTION_FILE, CompactionRecord
from sessionizer.state.savepoints.schedule import reason
from sessionizer_airflow.errors import PersonNeeded, StreamFindings
from sessionizer_airflow.operators.batch_jobs import parse_failure
from sessionizer_airflow.operators.scheduled import (
    CompactTables,
    TakeSavepoint,
    prune_savepoints,
    streams_due_for_compaction,
    streams_due_for_savepoints,
)
from sessionizer_airflow.project import Project
from support.checkpoints.fabricated_checkpoints import fabricate
from support.fixtures.reviewed import Reviewed
from support.places import opened
from support.processes.fabricated_platform import SHORT_SPEC
from support.verbs.begun_restore import begun_restore, write_operation

HOUR = 3_600_000
ASKING = "savepoints: {every: 1 hour, keep: 1 hour, at_least: 1}\n"


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    """Of `asking` and `other`, who want savepoints, and of `silent`, who does not."""
    folder = tmp_path / "specs"
    folder.mkdir()
    for name, more in (("asking", ASKING), ("other", ASKING), ("silent", "")):
        (folder / f"{name}.yaml").write_text(SHORT_SPEC.format(name=name) + more)
        home = StreamHome.of(tmp_path, name)
        home.prepare()
        log = commit_log(home.checkpoint(start_lineage(home)))
        opened(log).mkdir()
        opened(log / "0").write_text('v2\n{"nextBatchWatermarkMs":0}')
    return folder


def project(tmp_path: Path) -> Project:
    return Project.from_environment({"SESSIONIZER_HOME": str(tmp_path), "SESSIONIZER_STREAMS": str(tmp_path / "specs")})


def old(tmp_path: Path, name: str) -> None:
    """Two that were made by themselves, of which one may go."""
    folder = StreamHome.of(tmp_path, name).savepoints
    for savepoint, age in (("s1", 3), ("s2", 2)):
        fabricate(folder, savepoint, made_at=epoch_ms() - age * HOUR, why=reason(HOUR))


def test_those_are_due_that_ask_and_have_none(specs: Path, tmp_path: Path, reviewed: Reviewed) -> None:
    said: list[str] = []
    due = streams_due_for_savepoints(project(tmp_path), said.append)
    assert [(each["stream"], each["why"], each["native"]) for each in due] == [
        ("asking", "scheduled, every 1 hour", False),
        ("other", "scheduled, every 1 hour", False),
    ]
    reviewed(said)


def test_one_that_cannot_be_looked_at_fails_in_its_own_task(specs: Path, tmp_path: Path, reviewed: Reviewed) -> None:
    said: list[str] = []
    StreamHome.of(tmp_path, "asking").lineage_record.write_text("{")
    assert [each["stream"] for each in streams_due_for_savepoints(project(tmp_path), said.append)] == [
        "asking",
        "other",
    ]
    reviewed(said[0])


def test_what_is_old_goes_of_each_stream_whatever_is_wrong_with_another(
    specs: Path, tmp_path: Path, reviewed: Reviewed
) -> None:
    said: list[str] = []
    for name in ("asking", "other", "silent"):
        old(tmp_path, name)
    folder = StreamHome.of(tmp_path, "asking").savepoints
    opened(folder / "s1" / "condemned.json").mkdir()  # nobody can write there
    with pytest.raises(StreamFindings, match=r"^asking: ") as failure:
        prune_savepoints(project(tmp_path), said.append)
    assert "prune <stream> --plan" in PersonNeeded.wrap(failure.value).remedy
    reviewed(said[1:])
    left = {name: sorted(each.name for each in opened(StreamHome.of(tmp_path, name).savepoints).iterdir()) for name in
            ("other", "silent")}  # fmt: skip
    assert left == {"other": ["s2"], "silent": ["s1", "s2"]}
    opened(folder / "s1" / "condemned.json").rmdir()
    prune_savepoints(project(tmp_path), said.append)
    assert [each.name for each in opened(folder).iterdir()] == ["s2"]


def test_nothing_is_removed_while_the_newest_that_would_stay_is_hurt(
    specs: Path, tmp_path: Path, reviewed: Reviewed
) -> None:
    old(tmp_path, "other")
    folder = StreamHome.of(tmp_path, "other").savepoints
    opened(folder / "s2" / "open_events" / "part-0.parquet").write_bytes(b"hurt")
    with pytest.raises(StreamFindings) as raised:
        prune_savepoints(project(tmp_path), print)
    reviewed(raised.value)
    assert sorted(each.name for each in opened(folder).iterdir()) == ["s1", "s2"]


def test_the_job_of_a_stream_makes_the_savepoint_that_was_named_for_it(tmp_path: Path) -> None:
    for native, option in ((False, ()), (True, ("--native",))):
        of = project(tmp_path)
        why = "scheduled, every 1 hour"
        task = TakeSavepoint(task_id="t", stream="clicks", savepoint="x1", why=why, native=native, project=of)
        assert task.name == "clicks.savepoint"
        assert (*(task.application_args or ()),) == (
            "savepoint", "create", "clicks", "--id", "x1", "--why", why, *option,
            "--home", str(tmp_path), "--streams", str(tmp_path / "specs"),
        )  # fmt: skip


OF_PROVIDER = """Cannot execute: spark-submit --name clicks.savepoint main.py. Error code is: {code}.
Last spark-submit output:
error: an earlier one
starting Spark for a savepoint of clicks
{told}
26/11/23 09:00:00 INFO ShutdownHookManager: Shutdown hook called"""
TOLD = "error: stream clicks has nothing to save: it never ran\nremedy: run it"


@pytest.mark.parametrize(("code", "terminal"), [(16, True), (30, True), (21, False), (1, False)])
def test_what_a_job_said_is_what_its_task_says(*, code: int, terminal: bool) -> None:
    failure = parse_failure(OF_PROVIDER.format(code=code, told=TOLD))
    assert failure is not None
    error, is_terminal = failure
    assert (str(error), error.remedy) == ("stream clicks has nothing to save: it never ran", "run it")
    assert is_terminal is terminal


@pytest.mark.parametrize("text", ["no such file: spark-submit", OF_PROVIDER.format(code=1, told="killed")])
def test_of_a_job_that_said_nothing_the_provider_tells(text: str) -> None:
    assert parse_failure(text) is None


STREAMS = ("busy", "damaged", "fresh", "new", "old", "silent", "unborn")


@pytest.fixture
def project_of_scheduled_compactions(tmp_path: Path) -> Project:
    """A platform with a stream for each case. All but ``silent`` ask for a compaction every day."""
    specs = tmp_path / "specs"
    specs.mkdir()
    for name in STREAMS:
        asks = "" if name == "silent" else "compaction: {every: 1 day}\n"
        (specs / f"{name}.yaml").write_text(SHORT_SPEC.format(name=name) + asks)
        home = StreamHome.of(tmp_path, name)
        home.prepare()
        if name != "unborn":
            start_lineage(home)
    for name, hours in (("busy", 30), ("fresh", 23), ("old", 24), ("silent", 30)):
        COMPACTION_FILE.of(StreamHome.of(tmp_path, name)).write(CompactionRecord(at=epoch_ms() - hours * HOUR))
    write_operation(StreamHome.of(tmp_path, "busy"), begun_restore())
    StreamHome.of(tmp_path, "damaged").lineage_record.write_text("{")
    return Project.from_environment({"SESSIONIZER_HOME": str(tmp_path), "SESSIONIZER_STREAMS": str(specs)})


def test_those_are_due_whose_last_one_is_old(project_of_scheduled_compactions: Project) -> None:
    said: list[str] = []
    assert streams_due_for_compaction(project_of_scheduled_compactions, said.append) == [
        {"stream": "damaged"},
        {"stream": "new"},
        {"stream": "old"},
    ]
    assert [line.partition(":")[0] for line in said] == [name for name in STREAMS if name != "silent"]


def test_the_job_of_a_stream_compacts_it_without_asking(
    project_of_scheduled_compactions: Project, tmp_path: Path
) -> None:
    task = CompactTables(task_id="t", stream="old", project=project_of_scheduled_compactions)
    assert (*(task.application_args or ()),) == (
        "compact", "old", "--yes", "--home", str(tmp_path), "--streams", str(tmp_path / "specs"),
    )  # fmt: skip
