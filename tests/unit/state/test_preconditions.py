"""Preconditions are checked before the stream is stopped and again under the lease, for every verb alike."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sessionizer.cli.app import app
from sessionizer.cli.state_commands.changes import COURSES
from sessionizer.cli.state_commands.operation_run import carry_out
from sessionizer.control.execution import Step
from sessionizer.control.operation import Operation, new_operation
from sessionizer.control.records.operation_record import (
    Ending,
    OperationRecord,
    OperationStage,
    pending_operation,
    read_operations,
)
from sessionizer.control.records.supervision_records import DesiredState, read_desired, write_desired
from sessionizer.core.definition.rules import Clock
from sessionizer.errors import (
    DamagedFile,
    EventsGone,
    OperationPending,
    QueryFailed,
    SessionizerError,
    SourceUnreachable,
    StreamBegun,
    StreamMovedOn,
)
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import record_names
from sessionizer.home.roots import ControlPath
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage import active
from sessionizer.lineage.active import LINEAGE_FILE, activate_lineage, active_lineage, read_lineage, start_lineage
from sessionizer.lineage.kept_spec import TYPES_FILE, KeptTypes
from sessionizer.state.commands.registry import COMMANDS, require_as_planned, require_startable
from support.expected.file_accesses import folder_digest
from support.places import REPOSITORY, opened
from support.streams.drawn_logs import drawn_cases
from support.verbs.begun_restore import begun_restore, write_operation
from support.verbs.scripted_runner import ScriptedRunner

VERBS = ("restore", "rollback", "rescale", "switch", "apply", "seed")
DIGEST = "0123456789abcdef"


@dataclass(frozen=True)
class Change:
    """Something that happens to the stream between the plan and the lease, and what the command makes of it."""

    happens: Callable[[StreamHome, OperationRecord], None]
    error: type[SessionizerError] | None


def another_lineage(home: StreamHome, _: OperationRecord) -> None:
    start_lineage(home)


def another_operation(home: StreamHome, record: OperationRecord) -> None:
    other = "apply" if record.verb != "apply" else "rescale"
    write_operation(home, new_operation(home, other, "f" * 16, "bob", (record.lineage_from, 7)))


def carried_out_elsewhere(home: StreamHome, record: OperationRecord) -> None:
    lineage = start_lineage(home)
    twin = new_operation(home, record.verb, record.digest, "bob", (record.lineage_from, 7), savepoint=record.savepoint)
    write_operation(home, replace(twin.record_step(OperationStage.ACTIVATED, lineage_to=lineage), outcome=Ending.DONE))


def given_up(home: StreamHome, record: OperationRecord) -> None:
    write_operation(home, replace(record, outcome=Ending.ABANDONED))


CHANGES = {
    "another lineage": Change(another_lineage, StreamMovedOn),
    "another operation": Change(another_operation, OperationPending),
    "carried out elsewhere": Change(carried_out_elsewhere, None),
    "given up": Change(given_up, StreamMovedOn),
}


@pytest.fixture
def home(tmp_path: Path) -> StreamHome:
    where = StreamHome.of(tmp_path, "clicks")
    where.prepare()
    where.prepare_data()
    write_desired(where, DesiredState.RUNNING, by="ann", why="")
    return where


def planned(home: StreamHome, verb: str) -> OperationRecord:
    """A seed is of a stream that never ran, any other verb of one that did."""
    lineage = "" if verb == "seed" else start_lineage(home)
    return new_operation(home, verb, DIGEST, "ann", (lineage, 7), savepoint="monday" if verb == "restore" else "")


def no_work(home: StreamHome) -> ScriptedRunner:
    def work(_: Step, operation: Operation) -> str:
        pytest.fail(f"{operation.record.verb} was carried out")

    return ScriptedRunner(home=home, work=work)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("late", [False, True], ids=["before the stop", "under the lease"])
def test_a_stream_that_changed_since_the_plan_is_left_alone(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch, verb: str, change: Change, late: bool
) -> None:
    record, wanted = planned(home, verb), change.error
    if wanted is StreamMovedOn and verb == "seed" and change.happens is another_lineage:
        wanted = StreamBegun

    def happens_meanwhile(*_: object) -> set[str]:
        change.happens(home, record)
        return set()

    if late:  # while a driver is being stopped
        monkeypatch.setattr("sessionizer.control.maintenance.ask_to_stop", happens_meanwhile)
    else:
        change.happens(home, record)
    before = folder_digest(home.root)
    if wanted is None:
        done = carry_out(home, record, "tests", 1, no_work(home))
        assert (done.by, done.lineage_to) == ("bob", active_lineage(home))
    else:
        with pytest.raises(wanted):
            carry_out(home, record, "tests", 1, no_work(home))
    if not late:
        assert folder_digest(home.root) == before
    mine = [each.outcome for each in read_operations(home) if each.id == record.id]
    assert mine in ([], [Ending.ABANDONED])
    pending = pending_operation(home)
    assert pending is None or pending.by == "bob"
    if pending is None or not late:
        never_ran = active_lineage(home) is None
        not_begun = DesiredState.STOPPED if late and never_ran else DesiredState.RUNNING
        assert read_desired(home).state is not_begun


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("state", [None, DesiredState.RUNNING, DesiredState.STOPPED])
def test_a_command_that_was_given_up_while_its_driver_ended_does_not_begin(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch, verb: str, state: DesiredState | None
) -> None:
    """Whatever the user wants of the stream before the command has its lease."""
    record = planned(home, verb)

    def given_up_meanwhile(*_: object) -> set[str]:
        CliRunner().invoke(app, ["abandon", "clicks", "--by", "olga", "--home", str(home.platform)])
        if state is not None:
            write_desired(home, state, by="olga", why="")
        return set()

    monkeypatch.setattr("sessionizer.control.maintenance.ask_to_stop", given_up_meanwhile)
    with pytest.raises(StreamMovedOn, match="olga"):
        carry_out(home, record, "tests", 1, no_work(home))
    assert [(each.id, each.abandoned_by) for each in read_operations(home)] == [(record.id, "olga")]
    as_it_was = DesiredState.STOPPED if verb == "seed" else DesiredState.RUNNING
    assert read_desired(home).state is (state or as_it_was)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("state", [DesiredState.RUNNING, DesiredState.STOPPED])
def test_a_start_while_the_driver_ends_revokes_a_command_and_a_stop_holds_after_it(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch, verb: str, state: DesiredState
) -> None:
    record = planned(home, verb)

    def steered_meanwhile(*_: object) -> set[str]:
        write_desired(home, state, by="olga", why="")
        return set()

    monkeypatch.setattr("sessionizer.control.maintenance.ask_to_stop", steered_meanwhile)
    if state is DesiredState.RUNNING:
        with pytest.raises(StreamMovedOn, match="olga"):
            carry_out(home, record, "tests", 1, no_work(home))
        assert read_operations(home) == []
    else:
        done = ScriptedRunner(home=home, work=lambda *_: record.lineage_from or start_lineage(home))
        assert carry_out(home, record, "tests", 1, done).outcome is Ending.DONE
    assert read_desired(home).state is state


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("error", "stays"),
    [
        (SourceUnreachable("broker:9092", "refused"), True),
        (TimeoutError("Python worker failed to connect back"), True),
        (EventsGone("clicks", ["a.json"]), False),
        (QueryFailed("clicks", "bad_data", "no"), False),
    ],
    ids=["source away", "busy machine", "events gone", "bad data"],
)
def test_the_verbs_own_preconditions_are_evaluated_under_the_lease(
    home: StreamHome, verb: str, error: Exception, stays: bool
) -> None:
    record = planned(home, verb)

    def check() -> None:
        assert read_desired(home).state is DesiredState.MAINTENANCE
        raise error

    runner = no_work(home)
    runner.look = check
    with pytest.raises(SessionizerError) as raised:
        carry_out(home, record, "tests", 1, runner)
    assert error in {raised.value, raised.value.__cause__}
    (noted,) = read_operations(home)
    assert noted.outcome is (None if stays else Ending.ABANDONED)
    assert noted.failure is not None
    not_wanted = DesiredState.STOPPED if verb == "seed" else DesiredState.RUNNING
    assert read_desired(home).state is (DesiredState.MAINTENANCE if stays else not_wanted)


@pytest.mark.parametrize(("verb", "step", "passes"), drawn_cases(product(VERBS, OperationStage, [False, True]), 24))
def test_a_try_that_fails_leaves_the_stream_stopped_or_as_it_was(
    home: StreamHome, verb: str, step: OperationStage, passes: bool
) -> None:
    record = planned(home, verb)
    error = SourceUnreachable("broker:9092", "refused") if passes else QueryFailed("clicks", "bad_data", "no")

    def fails(_: Step, operation: Operation) -> str:
        operation.reached(step)
        raise error

    with pytest.raises(type(error)) as raised:
        carry_out(home, record, "tests", 1, ScriptedRunner(home=home, work=fails))
    stays = passes or is_past_return(step)
    pending = pending_operation(home)
    assert (pending is not None) == stays
    assert (read_desired(home).state is DesiredState.MAINTENANCE) == stays
    notes = "\n".join(raised.value.__notes__)
    assert (record.command in notes) == stays
    assert ("sessionizer abandon clicks" in notes) == (stays and not is_past_return(step))
    if pending is None:
        return

    def succeeds(_: Step, __: Operation) -> str:
        return record.lineage_from or start_lineage(home)

    assert carry_out(home, pending, "tests", 1, ScriptedRunner(home=home, work=succeeds)).outcome is Ending.DONE
    assert read_desired(home).state is DesiredState.RUNNING


def is_past_return(step: OperationStage) -> bool:
    """Only a command with a step that is not reversible notes this stage before its end."""
    steps = list(OperationStage)
    return steps.index(step) >= steps.index(OperationStage.SEEDED)


def test_a_step_whose_python_worker_was_late_is_done_again(home: StreamHome) -> None:
    record, tries = planned(home, "rescale"), []

    def late_twice(_: Step, operation: Operation) -> str:
        tries.append(operation.record.step)
        if len(tries) < 3:
            raise OSError("Python worker failed to connect back.")
        return record.lineage_from

    assert carry_out(home, record, "tests", 1, ScriptedRunner(home=home, work=late_twice)).outcome is Ending.DONE
    assert len(tries) == 3


def test_an_operation_that_has_activated_its_lineage_goes_on(home: StreamHome) -> None:
    record = replace(planned(home, "restore"), step=OperationStage.TAKEN_BACK)
    write_operation(home, record)
    activate_lineage(home, start_lineage(home), record.lineage_from)
    assert require_as_planned(home, record).step is OperationStage.TAKEN_BACK


def test_every_verb_comes_through_the_same_door() -> None:
    """A command that took the stream for itself would check nothing again."""
    folder = REPOSITORY / "jobs" / "sessionizer"
    using = {path.name for path in folder.rglob("*.py") if "hold_lease(" in path.read_text()}
    assert using == {"maintenance.py", "operation_run.py"}
    course = (folder / "cli" / "state_commands" / "course.py").read_text()
    assert "carry_out(self.where" in course
    assert {each.name for each in COURSES} == COMMANDS.keys()


def test_the_same_command_may_have_ended_before_this_one_was_recorded(home: StreamHome) -> None:
    """Both were typed at the same moment, and this one's Spark took longer to start."""
    left = start_lineage(home)
    done = replace(new_operation(home, "rescale", DIGEST, "bob", (left, 7)), step_at=epoch_ms() - 60_000)
    write_operation(home, replace(done, outcome=Ending.DONE, lineage_to=start_lineage(home)))
    record = new_operation(home, "rescale", DIGEST, "ann", (left, 7))
    assert carry_out(home, record, "tests", 1, no_work(home)).id == done.id


def test_a_plan_made_long_ago_is_no_twin(home: StreamHome) -> None:
    """The same digest stood for the same decision before, and the stream was brought back since."""
    old = replace(planned(home, "rescale"), begun_at=epoch_ms() - 60_000, step_at=epoch_ms() - 60_000)
    write_operation(home, replace(old, outcome=Ending.DONE, lineage_to=active_lineage(home)))
    again = replace(old, id="20991125T000000-abc123", begun_at=epoch_ms())
    assert require_as_planned(home, again) == again


def test_the_command_that_moved_the_stream_is_named(home: StreamHome) -> None:
    record = planned(home, "rescale")
    lineage = start_lineage(home)
    moved = new_operation(home, "restore", "f" * 16, "bob", (record.lineage_from, 7)).record_step(
        OperationStage.ACTIVATED
    )
    write_operation(home, replace(moved, outcome=Ending.DONE, lineage_to=lineage))
    with pytest.raises(StreamMovedOn) as raised:
        carry_out(home, record, "tests", 1, no_work(home))
    assert moved.id in str(raised.value)


def test_a_stream_that_begins_while_it_is_read_has_lost_nothing(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first driver writes the active lineage, then the types. A reader looks for both in the same order."""

    def names_meanwhile(folder: ControlPath, pattern: str = "*") -> list[str]:
        if not LINEAGE_FILE.of(home).path.exists():
            TYPES_FILE.of(home, start_lineage(home)).write(KeptTypes(Clock.EVENT_TIME))
        return record_names(folder, pattern)

    monkeypatch.setattr(active, "record_names", names_meanwhile)
    found = read_lineage(home)
    assert found is not None
    opened(LINEAGE_FILE.of(home).path).unlink()
    monkeypatch.undo()
    with pytest.raises(DamagedFile, match="must choose from"):
        read_lineage(home)


def test_a_pending_command_is_named_also_beside_a_lost_lineage(home: StreamHome) -> None:
    TYPES_FILE.of(home, start_lineage(home)).write(KeptTypes(Clock.EVENT_TIME))
    write_operation(home, begun_restore())
    opened(LINEAGE_FILE.of(home).path).unlink()
    with pytest.raises(OperationPending):
        require_startable(home, "rescale")
