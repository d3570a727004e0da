"""Turns of upgrades: which runs begin in windows and by lists, in which order, whatever is edited meanwhile."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sessionizer.control.operation import new_operation
from sessionizer.control.records.driver_records import Phase
from sessionizer.control.records.operation_record import Ending
from sessionizer.control.records.supervision_records import (
    APPROVED_UPGRADE,
    SUPERVISION_FILE,
    DesiredState,
    ListApproval,
    SupervisionRecord,
    write_desired,
)
from sessionizer.deployment.waiting import UpgradeState
from sessionizer.fleet.waves import state_after_run
from sessionizer.home.clock import HOUR, MINUTE, epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.canary.canary_record import read_canary, write_canary
from sessionizer.lineage.canary.judge import CanaryOutcome
from sessionizer.lineage.kept_spec import LineageSpec, write_lineage_spec
from sessionizer.state.commands.upgrades import Upgrade
from sessionizer.stream_spec.decisions import document_of
from sessionizer.stream_spec.spec_folder import find_stream
from sessionizer_airflow.alerting import Alert
from sessionizer_airflow.operating.approval import list_upgrades
from sessionizer_airflow.operating.request import Request
from sessionizer_airflow.operators import scheduled
from sessionizer_airflow.operators.scheduled import runs_to_begin
from sessionizer_airflow.project import Project
from support.places import known
from support.processes.fabricated_platform import SHORT_SPEC, Platform, beat, make_canary
from support.verbs.begun_restore import begun_restore, write_operation

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
        (self.specs / f"{name}.yaml").write_text(SHORT_SPEC.format(name=name) + more)

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
    (fleet.specs / "clicks.yaml").write_text(SHORT_SPEC.format(name="clicks").replace("key: k", "key: i") + WINDOW)
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


class Night:
    """Three streams with drivers, and what an Airflow knows of the runs of their upgrades.

    `alpha` and `beta` have windows of different hours and the policy apply, `gamma` is upgraded by lists alone.
    """

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.platform, self.patch, self.now = Platform(root, root / "specs"), patch, epoch_ms()
        self.platform.streams.mkdir()
        self.runs: dict[str, str] = {}
        self.project = Project.from_environment({
            "SESSIONIZER_HOME": str(root), "SESSIONIZER_STREAMS": str(self.platform.streams)
        })  # fmt: skip
        self.lineages = {}
        for name in WAVES:
            self.edit(name, 5)
            _, home = self.platform.drive(name, f"driver-{name}")
            spec = LineageSpec(document_of(find_stream(self.platform.streams, name)))
            self.lineages[name] = start_lineage(home, spec=spec)
            write_desired(home, DesiredState.RUNNING, by="ann", why="")
        self.patch.setattr(scheduled, "epoch_ms", lambda: self.now)

    def edit(self, name: str, gap: int) -> None:
        begin, end = HOURS.get(name, (0, 0))
        hours = "-".join(f"{datetime.fromtimestamp(self.now / 1000 + at * 3600, UTC):%H:%M}" for at in (begin, end))
        window = f", window: '{hours}', policy: apply" if end else ""
        wave = f"upgrades: {{wave: {WAVES[name]}{window}}}\n"
        self.platform.add(name, f"{SHORT_SPEC.format(name=name)}{wave}rules: {{gap_timeout: {gap} minutes}}\n")

    def live(self, name: str | None = None) -> list[str]:
        """The runs that are not over, of a stream or of all."""
        return [run for run, state in self.runs.items() if state in {"queued", "running"} and name in {None, of(run)}]

    def approve(self, names: list[str]) -> None:
        """A user approves a list of the waiting upgrades of the streams."""
        for each in list_upgrades(self.project, names, lambda _: None):
            approval = ListApproval(digest=each["digest"], by="olga", until=self.now + HOUR)
            APPROVED_UPGRADE.of(self.project.home_of(each["stream"])).write(approval)

    def look(self) -> list[str]:
        """The runs that the maintenance begins now. One that is there already does not begin again."""
        for name in WAVES:
            beat(self.project.home_of(name), uid=f"driver-{name}", at=self.now, batch_id=1)
        asked = runs_to_begin(self.project, lambda _: None, lambda _: None, self.runs.get)
        begun = [run["trigger_run_id"] for run in asked if run["trigger_run_id"] not in self.runs]
        self.runs |= dict.fromkeys(begun, "queued")
        return begun

    def go_on(self, name: str, end: str) -> None:
        """The stream's run goes on to its next state. ``end``: how it is over."""
        for run in self.live(name):
            self.runs[run] = "running" if self.runs[run] == "queued" else end.removeprefix("rejected ")
            if self.runs[run] == "success" and end == "success":
                spec = LineageSpec(document_of(find_stream(self.platform.streams, name)))
                write_lineage_spec(self.project.home_of(name), self.lineages[name], spec)


WAVES = {"alpha": 0, "beta": 1, "gamma": 1}
HOURS = {"alpha": (-1, 2), "beta": (0, 5)}
"""Begin and end of a stream's window, in hours from now."""
SOME = st.lists(st.sampled_from([*WAVES]), min_size=1, max_size=3, unique=True)


def of(run: str) -> str:
    return run.split("__")[1]


EDIT, LOOK = ("edit", "alpha", 6), ("look",)
ENDS = st.sampled_from(["success", "rejected success", "failed"])
DOINGS = st.one_of(
    st.tuples(st.just("edit"), st.sampled_from([*WAVES]), st.sampled_from([5, 6, 7])),
    st.tuples(st.just("approve"), SOME),
    st.just(LOOK),
    st.tuples(st.just("go_on"), st.sampled_from([*WAVES]), ENDS),
    st.tuples(st.just("wait"), st.integers(1, 90)),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None)
@given(st.lists(DOINGS, max_size=30))
@example([EDIT, ("edit", "gamma", 6), ("approve", ["alpha", "gamma"]), LOOK, ("edit", "alpha", 7), LOOK])
@example([EDIT, LOOK, ("edit", "beta", 6), ("wait", 150), LOOK])
@example([EDIT, ("edit", "gamma", 6), LOOK, ("approve", ["alpha", "gamma"]), LOOK])
@example([("edit", "gamma", 6), ("approve", ["gamma"]), LOOK, ("wait", 2), ("approve", ["gamma"]), LOOK])
def test_one_upgrade_at_a_time_in_the_order_of_waves_whatever_users_do_meanwhile(
    tmp_path_factory: pytest.TempPathFactory, doings: list[tuple[Any, ...]]
) -> None:
    """A spec is edited, a list approved, or a window closed while a run is under way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SESSIONIZER_UPGRADES_STOP_AFTER", "2")
        night = Night(tmp_path_factory.mktemp("night"), patch)
        for what, *given_with in doings:
            if what == "wait":
                night.now += given_with[0] * MINUTE
            elif what == "look":
                before = night.live()
                begun = night.look()
                assert not begun or not before, (before, begun)
                assert len(begun) <= 1
            else:
                getattr(night, what)(*given_with)


@pytest.mark.parametrize(
    ("in_place", "outcome", "works", "state"),
    [
        (False, None, True, UpgradeState.RUNS),
        (False, CanaryOutcome.PASSED, True, UpgradeState.DONE),
        (False, CanaryOutcome.FAILED, True, UpgradeState.FAILED),
        (True, None, True, UpgradeState.DONE),
        (True, None, False, UpgradeState.RUNS),
        (True, CanaryOutcome.FAILED, True, UpgradeState.FAILED),
    ],
)
def test_an_open_canary_counts_only_if_the_run_began_it(
    platform: Platform, outcome: CanaryOutcome | None, state: UpgradeState, *, in_place: bool, works: bool
) -> None:
    _, home = platform.add_driven("clicks", batch_id=7 if works else None)
    lineage = make_canary(home)
    write_canary(home, replace(known(read_canary(home, lineage)), outcome=outcome))
    write_desired(home, DesiredState.RUNNING, by="tests", why="tests")
    upgrade = replace(begun_restore(), verb="upgrade", outcome=Ending.DONE)
    write_operation(home, replace(upgrade, lineage_to=upgrade.lineage_from if in_place else lineage))
    assert state_after_run(home, epoch_ms(), still_waits=False) is state


@pytest.mark.parametrize(
    ("phase", "batch_id", "state"),
    [
        (Phase.STARTING, None, UpgradeState.RUNS),
        (Phase.RUNNING, None, UpgradeState.RUNS),
        (Phase.RUNNING, 7, UpgradeState.DONE),
        (Phase.IDLE, None, UpgradeState.DONE),
    ],
)
def test_a_stream_works_after_its_upgrade_once_its_driver_has_nothing_to_read(
    platform: Platform, phase: Phase, batch_id: int | None, state: UpgradeState
) -> None:
    _, home = platform.add_driven("clicks", phase=phase, batch_id=batch_id)
    write_desired(home, DesiredState.RUNNING, by="tests", why="tests")
    assert state_after_run(home, epoch_ms(), still_waits=False) is state
