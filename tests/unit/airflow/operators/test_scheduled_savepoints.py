"""One stream's trouble keeps no other from its savepoint, and none from being pruned."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessionizer.checkpoint.log_entries import commit_log
from sessionizer.control.operation import new_operation
from sessionizer.control.records.supervision_records import (
    APPROVED_UPGRADE,
    SUPERVISION_FILE,
    DesiredState,
    ListApproval,
    SupervisionRecord,
    write_desired,
)
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.kept_spec import LineageSpec
from sessionizer.state.commands.upgrades import Upgrade
from sessionizer.state.compaction.plan import COMPACTION_FILE, CompactionRecord
from sessionizer.state.savepoints.schedule import reason
from sessionizer.stream_spec.decisions import document_of
from sessionizer.stream_spec.spec_folder import find_stream
from sessionizer_airflow.alerting import Alert
from sessionizer_airflow.errors import PersonNeeded, StreamFindings
from sessionizer_airflow.operating.approval import list_upgrades
from sessionizer_airflow.operating.request import Request
from sessionizer_airflow.operators import scheduled
from sessionizer_airflow.operators.batch_jobs import parse_failure
from sessionizer_airflow.operators.scheduled import (
    CompactTables,
    TakeSavepoint,
    prune_savepoints,
    runs_to_begin,
    streams_due_for_compaction,
    streams_due_for_savepoints,
)
from sessionizer_airflow.project import Project
from support.checkpoints.fabricated_checkpoints import fabricate
from support.fixtures.reviewed import Reviewed
from support.places import opened
from support.verbs.begun_restore import begun_restore, write_operation

HOUR = 3_600_000
SPEC = """
name: {name}
source: {{format: files, path: feed, encoding: json, columns: "k string, t timestamp, i string"}}
mapping: {{key: k, event_time: t, event_id: i}}
"""
ASKING = "savepoints: {every: 1 hour, keep: 1 hour, at_least: 1}\n"


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    """Of `asking` and `other`, who want savepoints, and of `silent`, who does not."""
    folder = tmp_path / "specs"
    folder.mkdir()
    for name, more in (("asking", ASKING), ("other", ASKING), ("silent", "")):
        (folder / f"{name}.yaml").write_text(SPEC.format(name=name) + more)
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


WINDOW = "upgrades: {window: 'Sun 03:00-05:00', policy: apply}\n"
GAP = "rules: {gap_timeout: 5 minutes}\n"
INSIDE = int(datetime(2026, 11, 29, 4, tzinfo=UTC).timestamp() * 1000)
OUTSIDE = INSIDE + 3_600_000


class Fleet:
    """Two streams that ran by their files: `clicks` has a window, `visits` has none."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.specs, self.patch = root, root / "specs", monkeypatch
        self.told: list[Alert] = []
        self.said: list[str] = []
        self.begun: dict[str, str] = {}
        self.specs.mkdir()
        for name, more in (("clicks", WINDOW), ("visits", "")):
            self.write(name, more)
            home = self.home(name)
            home.prepare()
            start_lineage(home, spec=LineageSpec(document_of(find_stream(self.specs, name))))

    def home(self, name: str) -> StreamHome:
        return StreamHome.of(self.root, name)

    def write(self, name: str, more: str) -> None:
        (self.specs / f"{name}.yaml").write_text(SPEC.format(name=name) + more)

    def look(self, now: int, **states: str) -> list[dict[str, Any]]:
        """The runs that begin now. ``states``: Airflow's state of the newest run of a stream."""
        self.patch.setattr(scheduled, "epoch_ms", lambda: now)
        places = {"SESSIONIZER_HOME": str(self.root), "SESSIONIZER_STREAMS": str(self.specs)}
        known = {run: states[name] for name, run in self.begun.items() if name in states}
        begin = runs_to_begin(Project.from_environment(places), self.said.append, self.told.append, known.get)
        self.begun |= {run["conf"]["stream"]: run["trigger_run_id"] for run in begin}
        return begin


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    return Fleet(tmp_path, monkeypatch)


def test_a_stream_that_runs_by_its_file_has_nothing_to_begin(fleet: Fleet) -> None:
    fleet.write("clicks", WINDOW.replace("apply", "approve") + "owner: another\n")
    assert fleet.look(INSIDE) == []
    assert fleet.told == []


def test_an_edited_spec_is_told_once_and_begun_in_its_window(fleet: Fleet) -> None:
    for name, more in (("clicks", WINDOW), ("visits", "")):
        fleet.write(name, more + GAP)
    assert fleet.look(OUTSIDE) == []
    assert [(alert.stream, alert.kind) for alert in fleet.told] == [
        ("clicks", "upgrade_waits"), ("visits", "upgrade_waits"),
    ]  # fmt: skip
    (run,) = fleet.look(INSIDE)
    assert run["conf"]["stream"] == "clicks"
    assert run["conf"]["verb"] == "upgrade"
    assert run["trigger_run_id"].endswith("__2026-11-29T05:00:00")
    assert fleet.look(INSIDE + 300_000) == [run], "the same run for the same difference"
    assert len(fleet.told) == 2


def test_a_run_of_a_window_has_the_options_of_the_spec(fleet: Fleet) -> None:
    wanted = ", prove: true, canary: 3, roll_back_if_failed: true}"
    fleet.write("clicks", WINDOW.replace("}", wanted) + GAP)
    (run,) = fleet.look(INSIDE)
    assert {name: value for name, value in run["conf"].items() if name not in {"verb", "stream", "why"}} == {
        "prove": True, "canary": 3, "new_lineage": True, "roll_back_if_failed": True,
    }  # fmt: skip
    asked = Request.parse_form(run["conf"]).command
    assert asked == Upgrade(prove=True, canary=3, new_lineage=True, roll_back_if_failed=True)


def test_streams_of_one_window_take_turns_until_one_fails(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, wave in (("clicks", 1), ("visits", 0)):
        fleet.write(name, WINDOW.replace("}", f", wave: {wave}}}") + GAP)

    def begin(**states: str) -> list[str]:
        return [run["conf"]["stream"] for run in fleet.look(INSIDE, **states)]

    assert begin() == ["visits"]
    assert begin() == ["visits"], "the run was not made"
    for state in ("queued", "running", "failed"):
        assert begin(visits=state) == []
    assert "visits failed" in fleet.said[-1]
    monkeypatch.setenv("SESSIONIZER_UPGRADES_STOP_AFTER", "2")
    assert begin(visits="failed") == ["clicks"]
    monkeypatch.delenv("SESSIONIZER_UPGRADES_STOP_AFTER")
    assert begin(visits="success", clicks="running") == [], "it was rejected, so it still waits"
    fleet.write("visits", WINDOW + GAP.replace("5", "6"))
    assert begin(visits="failed", clicks="success") == ["visits"], "a new edit is another upgrade"
    assert fleet.look(OUTSIDE) == []


def test_the_next_stream_waits_until_the_one_before_works(fleet: Fleet) -> None:
    """A run that succeeded has only asked for a driver."""
    for name in ("clicks", "visits"):
        fleet.write(name, WINDOW + GAP)
    clicks = fleet.home("clicks")
    assert [run["conf"]["stream"] for run in fleet.look(INSIDE)] == ["clicks"]
    fleet.write("clicks", WINDOW)  # as after the upgrade: nothing waits
    assert fleet.look(INSIDE, clicks="success") == []
    SUPERVISION_FILE.of(clicks).write(SupervisionRecord(given_up=True))
    assert fleet.look(INSIDE, clicks="success") == []
    assert "clicks failed" in fleet.said[-1]
    SUPERVISION_FILE.of(clicks).write(SupervisionRecord())
    write_desired(clicks, DesiredState.STOPPED, by="ops", why="")
    assert [run["conf"]["stream"] for run in fleet.look(INSIDE, clicks="success")] == ["visits"]


def approve_list(fleet: Fleet, *chosen: str, until: int = OUTSIDE + 3_600_000) -> list[str]:
    """A user approves the list of the streams. Returns those in it, in its order."""
    places = {"SESSIONIZER_HOME": str(fleet.root), "SESSIONIZER_STREAMS": str(fleet.specs)}
    listed = list_upgrades(Project.from_environment(places), chosen, fleet.said.append)
    for each in listed:
        approval = ListApproval(digest=each["digest"], by="olga", until=until)
        APPROVED_UPGRADE.of(fleet.home(each["stream"])).write(approval)
    return [each["stream"] for each in listed]


def test_an_approved_list_begins_wave_by_wave_at_any_hour(fleet: Fleet) -> None:
    """`visits` has neither a window nor a policy."""
    fleet.write("clicks", WINDOW.replace("}", ", wave: 1}") + GAP)
    fleet.write("visits", GAP)

    def begin(now: int = OUTSIDE, **states: str) -> list[str]:
        return [run["conf"]["stream"] for run in fleet.look(now, **states)]

    assert begin() == []
    assert approve_list(fleet) == ["visits", "clicks"]
    (run,) = fleet.look(OUTSIDE)
    assert (run["conf"]["stream"], "olga" in run["conf"]["why"]) == ("visits", True)
    assert run["trigger_run_id"].startswith("list__visits__")
    assert begin(visits="running") == []
    assert begin(visits="failed") == []
    assert "visits failed" in fleet.said[-1]
    assert begin(visits="success") == ["clicks"], "visits was rolled back by hand, so it is done"
    fleet.write("clicks", WINDOW.replace("}", ", wave: 1}") + GAP.replace("5", "6"))
    assert begin(visits="success") == [], "it is not what was listed"
    assert begin(OUTSIDE + 3_600_000) == [], "the approval is over"


def test_a_list_has_the_chosen_streams_alone(fleet: Fleet) -> None:
    for name in ("clicks", "visits"):
        fleet.write(name, GAP)
    assert approve_list(fleet, "visits") == ["visits"]
    assert [run["conf"]["stream"] for run in fleet.look(OUTSIDE)] == ["visits"]


def test_another_edit_is_another_run_and_news(fleet: Fleet) -> None:
    fleet.write("clicks", WINDOW + GAP)
    (first,) = fleet.look(INSIDE)
    fleet.write("clicks", WINDOW + GAP.replace("5", "6"))
    (second,) = fleet.look(INSIDE)
    assert first["trigger_run_id"] != second["trigger_run_id"]
    fleet.write("clicks", WINDOW)
    assert fleet.look(INSIDE) == []
    fleet.write("clicks", WINDOW + GAP.replace("5", "6"))
    fleet.look(INSIDE)
    assert [alert.stream for alert in fleet.told] == ["clicks"] * 3


def test_what_open_sessions_would_lack_is_told_and_never_begun(fleet: Fleet) -> None:
    fleet.write("clicks", (WINDOW + GAP).replace("5 minutes", "6 minutes") + "measures: {}\n")
    (fleet.specs / "clicks.yaml").write_text(SPEC.format(name="clicks").replace("key: k", "key: i") + WINDOW)
    assert fleet.look(INSIDE) == []
    (alert,) = fleet.told
    assert alert.reason == "1 partial", "the kind of the alert says that an upgrade waits"
    assert alert.what_to_do == "`sessionizer upgrade clicks` shows the plan"


edits = st.sampled_from([5, 6, 7, None]).map(lambda gap: ("edit", gap))
looks = st.integers(0, 8 * 24 * 60).map(lambda minutes: ("look", minutes))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
@given(st.lists(edits | looks, max_size=15))
def test_whatever_is_edited_when_each_difference_is_begun_once_in_a_window(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, int | None]]
) -> None:
    """The spec is edited between two looks, put back, edited again. The looks are in any order of the clock."""
    with pytest.MonkeyPatch.context() as patch:
        fleet = Fleet(tmp_path_factory.mktemp("fleet"), patch)
        gap: int | None = None
        begun: dict[str, tuple[int | None, int]] = {}
        for action, number in actions:
            if action == "edit":
                gap = number
                fleet.write("clicks", WINDOW + (f"rules: {{gap_timeout: {gap} minutes}}\n" if gap else ""))
                continue
            now, told = INSIDE + (number or 0) * 60_000, len(fleet.told)
            week, minute = divmod((now - INSIDE) // 60_000 + 60, 7 * 24 * 60)
            runs = fleet.look(now)
            assert len(runs) == (gap is not None and minute < 120), "in its window, and only what waits"
            for run in runs:
                assert begun.setdefault(run["trigger_run_id"], (gap, week)) == (gap, week)
            assert len(fleet.told) - told <= 1
        assert len(set(begun.values())) == len(begun), "one run for each difference and window"


def test_no_run_begins_while_another_command_has_the_stream(fleet: Fleet) -> None:
    fleet.write("clicks", WINDOW + GAP)
    home = fleet.home("clicks")
    write_operation(home, new_operation(home, "rescale", "f" * 16, "ann", ("old", 7)))
    assert fleet.look(INSIDE) == []


STREAMS = ("busy", "damaged", "fresh", "new", "old", "silent", "unborn")


@pytest.fixture
def project_of_scheduled_compactions(tmp_path: Path) -> Project:
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
