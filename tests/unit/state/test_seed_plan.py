"""What a seed would do, as data."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from sessionizer.cli.state_commands.operation_run import carry_out
from sessionizer.control.execution import Step
from sessionizer.control.operation import Operation, new_operation
from sessionizer.control.records.operation_record import Ending, OperationRecord, pending_operation
from sessionizer.errors import SourceUnreachable
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.state.commands.registry import BASE_S, BYTES_PER_S, estimate_downtime, seconds_down
from sessionizer.state.commands.seeds import BEGINNING, NOW, SOURCE, HistoryFigures, HistoryPlace, SeedPlan
from sessionizer.state.commands.steps import Activate, PointOfNoReturn, Stop
from support.places import known
from support.verbs.begun_restore import begun_restore, write_operation
from support.verbs.scripted_runner import Do, ScriptedRunner

DECISION = SeedPlan("clicks", "5bec", HistoryPlace("delta", "/lake/clicks", "version 7"), None, BEGINNING, True, None)
FIGURES = HistoryFigures(
    watermark_ms=1_750_000_000_123,
    events=1_000,
    refused={"null_key": 2, "malformed": 3},
    later=70,
    sessions=200,
    open_sessions=40,
    open_events=100,
    repeated=6,
    conflicting=1,
)


def test_the_digest_is_of_what_is_decided() -> None:
    others = [
        replace(DECISION, stream="views"),
        replace(DECISION, spec="5bed"),
        replace(DECISION, past=replace(DECISION.past, version="version 8")),
        replace(DECISION, until_ms=7),
        replace(DECISION, live_from=NOW),
        replace(DECISION, backfill=False),
        replace(DECISION, leaves="20261121T105501-3fa9c2"),
    ]
    assert len({DECISION.digest, *(other.digest for other in others)}) == 1 + len(others)
    plan = replace(DECISION, figures=FIGURES)
    assert plan.to_json()["digest"] == replace(plan, figures=replace(FIGURES, events=1)).to_json()["digest"]


def test_who_brings_what_is_later_than_the_moment() -> None:
    kept = {live: replace(DECISION, live_from=live).keeps_later for live in (BEGINNING, NOW, SOURCE, '{"clicks":{}}')}
    assert kept == {BEGINNING: False, NOW: True, SOURCE: True, '{"clicks":{}}': True}


def test_people_are_told_what_would_be_done(golden: Callable[[str, str], None]) -> None:
    over = replace(DECISION, past=HistoryPlace(SOURCE, "kafka"), live_from=SOURCE, backfill=False, leaves="old")
    quiet = replace(FIGURES, refused={}, later=0, repeated=0, conflicting=0)
    plans = {
        "first": replace(DECISION, figures=FIGURES),
        "over": replace(over, figures=quiet, leaving={"sessions": 12, "late_events": 0}),
    }
    all_back = replace(over, backfill=True, figures=FIGURES, leaving={"sessions": 200})
    assert not any("fewer" in line for line in all_back.lines())
    golden("plans/seed.txt", "\n".join("\n".join((f"# {name}", *plan.lines(), "")) for name, plan in plans.items()))


def test_an_error_about_a_history_shows_what_was_typed() -> None:
    assert HistoryPlace(SOURCE, "files").typed == SOURCE
    assert HistoryPlace("delta", "/lake/clicks", "version 7").typed == "/lake/clicks"


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
        ("upgrade", [UPGRADE, RESTORE, RESCALE], 1.0, UPGRADE.id),
        ("switch", [RESCALE, RESTORE], 40.0, RESCALE.id),
        ("switch", [RESTORE], BASE_S + 100_000_000 / BYTES_PER_S, "100 MB"),
        ("switch", [replace(RESCALE, outcome=Ending.ABANDONED)], BASE_S + 100_000_000 / BYTES_PER_S, "guess"),
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
        ("restore", [RESTORE, RESCALE], False, RESTORE.id),
        ("restore", [RESCALE], False, "a guess, because no command like it"),
        ("upgrade", [ROLLBACK, IN_PLACE], True, "no command like it has run here yet"),
    ],
)
def test_only_a_command_that_starts_a_lineage_tells_of_one_that_does(
    verb: str, operations: list[OperationRecord], new_lineage: bool, named: str
) -> None:
    assert named in estimate_downtime(verb, operations, 0, new_lineage=new_lineage).basis


@pytest.mark.parametrize("fails_at", [None, Stop(), PointOfNoReturn(), Do()])
def test_the_night_between_two_tries_is_no_work_of_a_step(home: StreamHome, fails_at: Step | None) -> None:
    """A try fails at its plan or at a step, and the command is typed again in the morning."""
    night_ms = 8 * 3_600_000
    lineage, steps = start_lineage(home), (Stop(), PointOfNoReturn(), Do())

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
    pending = known(pending_operation(home))
    write_operation(home, replace(pending, step_at=pending.step_at - night_ms, begun_at=pending.begun_at - night_ms))
    fails_at = Activate()
    done = carry_out(home, pending, "tests", 1, ScriptedRunner(home=home, work=work, steps=steps))
    took = {step: float(seconds) for step, seconds in (part.split() for part in done.seconds.split(", "))}
    assert [*took] == ["stopped", "seeded", "activated"]
    assert max(took.values()) < night_ms / 1000 / 2
    assert seconds_down(done) < night_ms / 1000 / 2
