"""A plan says how long the stream is expected to be down, and where the number comes from."""

from dataclasses import replace

import pytest

from sessionizer.cli.state_commands.operation_run import carry_out
from sessionizer.control.execution import Step
from sessionizer.control.operation import Operation, new_operation
from sessionizer.control.records.operation_record import Ending, OperationRecord, OperationStage, pending_operation
from sessionizer.errors import SourceUnreachable
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.state.commands.steps import Stop
from sessionizer.state.downtime import BASE_S, BYTES_PER_S, estimate_downtime, seconds_down
from support.verbs.begun_restore import begun_restore, write_operation
from support.verbs.scripted_runner import Do, ScriptedRunner


def done(operation: str, verb: str, seconds: str) -> OperationRecord:
    return replace(begun_restore(operation), verb=verb, seconds=seconds, outcome=Ending.DONE, lineage_to="new")


RESTORE = done("20261123T080000-aaaaaa", "restore", "stopped 300.0, seeded 8.5, taken_back 3.5, activated 1.0")
RESCALE = done("20261124T080000-bbbbbb", "rescale", "stopped 2.0, activated 40.0")
ROLLBACK = done("20261125T080000-cccccc", "rollback", "stopped 2.0, seeded 0.0, taken_back 2.0, activated 0.0")
UPGRADE = done("20261126T080000-dddddd", "upgrade", "stopped 2.0, saved 0.5, activated 0.5")
IN_PLACE = replace(UPGRADE, lineage_to=UPGRADE.lineage_from)


def test_the_wait_for_the_driver_is_no_downtime() -> None:
    assert seconds_down(RESTORE) == pytest.approx(13.0)


@pytest.mark.parametrize(
    ("verb", "operations", "seconds", "named"),
    [
        ("restore", [RESTORE, RESCALE], 13.0, RESTORE.id),
        ("switch", [RESTORE, RESCALE], 40.0, RESCALE.id),
        ("restore", [], BASE_S + 100_000_000 / BYTES_PER_S, "100 MB"),
        ("restore", [replace(RESTORE, outcome=Ending.ABANDONED)], BASE_S + 100_000_000 / BYTES_PER_S, "guess"),
    ],
)
def test_measured_by_the_same_verb_else_any_else_guessed(
    verb: str, operations: list[OperationRecord], seconds: float, named: str
) -> None:
    found = estimate_downtime(verb, operations, 100_000_000, new_lineage=True)
    assert found.seconds == pytest.approx(seconds)
    assert named in found.basis
    assert named in found.line()


@pytest.mark.parametrize(
    ("verb", "operations", "new_lineage", "named"),
    [
        ("upgrade", [RESCALE, ROLLBACK, IN_PLACE], True, RESCALE.id),
        ("upgrade", [IN_PLACE, UPGRADE], False, IN_PLACE.id),
        ("rollback", [ROLLBACK, RESCALE], False, ROLLBACK.id),
        ("upgrade", [ROLLBACK, IN_PLACE], True, "no command like it has run here yet"),
    ],
)
def test_only_a_command_that_starts_a_lineage_tells_of_one_that_does(
    verb: str, operations: list[OperationRecord], new_lineage: bool, named: str
) -> None:
    assert named in estimate_downtime(verb, operations, 0, new_lineage=new_lineage).basis


@pytest.mark.parametrize("fails_at", [None, Stop(), Do(noted=OperationStage.SEEDED), Do()])
def test_the_night_between_two_tries_is_no_work_of_a_step(home: StreamHome, fails_at: Step | None) -> None:
    """A try fails at its plan or at a step, and the command is typed again in the morning."""
    night_ms = 8 * 3_600_000
    lineage, steps = start_lineage(home), (Stop(), Do(noted=OperationStage.SEEDED), Do())

    def fail() -> None:
        raise SourceUnreachable("broker:9092", "refused")

    def work(step: Step, _: Operation) -> str | None:
        if step == fails_at:
            fail()
        return lineage if step == steps[-1] else None

    record = new_operation(home, "restore", "0123456789abcdef", "ann", (lineage, 7))
    runner = ScriptedRunner(home=home, work=work, steps=steps, look=fail if fails_at is None else lambda: None)
    with pytest.raises(SourceUnreachable):
        carry_out(home, record, "tests", 1, runner)
    pending = pending_operation(home)
    assert pending is not None
    write_operation(home, replace(pending, step_at=pending.step_at - night_ms, begun_at=pending.begun_at - night_ms))
    fails_at = Do(noted=OperationStage.ACTIVATED)
    done = carry_out(home, pending, "tests", 1, ScriptedRunner(home=home, work=work, steps=steps))
    took = {step: float(seconds) for step, seconds in (part.split() for part in done.seconds.split(", "))}
    assert [*took] == ["stopped", "seeded", "activated"]
    assert max(took.values()) < night_ms / 1000 / 2
    assert seconds_down(done) < night_ms / 1000 / 2
