"""Findings of a canary: worse figures are found, and a backlog, a restart or a quiet hour never is."""

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.control.operation import new_operation
from sessionizer.control.records.operation_record import Ending
from sessionizer.control.records.supervision_records import HEALTH_FILE, Health
from sessionizer.deployment.differences import Division
from sessionizer.deployment.upgrade_plan import APPLY, UpgradePlan, UpgradeRequest
from sessionizer.errors import NoWayBack
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import activate_lineage, make_lineage, start_lineage
from sessionizer.lineage.batch_log import BatchFacts, BatchFigures, BatchLog, lag_behind
from sessionizer.lineage.canary.canary_record import (
    CANARY_FILE,
    NOTHING,
    UnstartedLineage,
    begin_canary,
    examine_unstarted,
    fail_unstarted,
    promote_lineage,
    read_canary,
)
from sessionizer.lineage.canary.judge import (
    LAG_SLACK_MS,
    PATIENCE,
    SMALL_STATE_BYTES,
    WATCHING,
    Baseline,
    CanaryOutcome,
    CanaryTerms,
    End,
    describe_wait,
    judge_figures,
)
from sessionizer.state.commands import seeds as seed_plan
from sessionizer.state.commands.moves import Edge, RescalePlan, Start, SwitchPlan, UnreadPart
from sessionizer.state.commands.seeds import BEGINNING, HistoryPlace
from sessionizer.state.lineages.origin import ORIGIN_FILE, Origin, undo_in_place, way_back
from support.fixtures.reviewed import Reviewed
from support.places import known
from support.verbs.begun_restore import write_operation
from support.verbs.scripted_runner import restore_plan

TERMS = CanaryTerms()
NOW = 1_800_000_000_000
MINUTE = 60_000
USUAL = BatchFigures(
    batches=20, read=10_000, admitted=9_900, late=50, quarantined=50, sessions=1_000, open_before=100, open_after=120,
    held_bytes=2**20, first_lag_ms=MINUTE, last_lag_ms=MINUTE, most_lag_ms=2 * MINUTE,
)  # fmt: skip
BASELINE = Baseline(USUAL, USUAL)
GOOD = replace(USUAL, batches=5, read=1_000, admitted=990, late=5, quarantined=5, sessions=100)


def reason(**changes: Any) -> str | None:
    return judge_figures(TERMS, BASELINE, replace(GOOD, **changes)).reason


def test_one_that_does_as_well_passes_after_its_batches_and_not_before() -> None:
    assert judge_figures(TERMS, BASELINE, GOOD).outcome is CanaryOutcome.PASSED
    assert judge_figures(TERMS, BASELINE, replace(GOOD, batches=4)) == WATCHING
    assert judge_figures(TERMS, BASELINE, replace(GOOD, read=99, admitted=99)) == WATCHING, "too few rows"
    assert judge_figures(TERMS, BASELINE, BatchFigures()) == WATCHING


def test_a_canary_that_is_open_says_what_it_waits_for(reviewed: Reviewed) -> None:
    for changes in ({"batches": 4}, {"batches": 12, "read": 40}, {"batches": 12, "last_lag_ms": 60 * MINUTE}):
        waits = known(describe_wait(TERMS, BASELINE, replace(GOOD, **changes)))
        reviewed(waits)
    assert describe_wait(TERMS, BASELINE, GOOD) is None
    assert describe_wait(TERMS, BASELINE, replace(GOOD, batches=5 * PATIENCE, read=40)) is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"quarantined": 400}, "40% of the 1,000 rows that it read were refused, 0% before"),
        ({"late": 300}, "30% of the 1,000 rows that it read were late, 0% before"),
        ({"sessions": 900}, "it begins at least 0.808 sessions per event, and at most 0.113 began before"),
        ({"sessions": 0, "open_after": 10, "open_before": 10}, "it begins at most 0.0101 sessions per event, and at"),
        ({"held_bytes": 2**23 + SMALL_STATE_BYTES}, "its open events take 72 MiB, 1 MiB before"),
    ],
)
def test_what_is_worse_is_found_and_named(changes: dict[str, Any], why: str) -> None:
    found = known(reason(**changes))
    assert found.startswith(why)


REFUSING = replace(USUAL, quarantined=5_000)
LEAVING = replace(TERMS, judges_sessions=False)
"""Of a command that leaves a lineage which was wrong: the new one need not do as that did."""
PASSED, FAILED = CanaryOutcome.PASSED, CanaryOutcome.FAILED
VERDICTS: dict[str, tuple[CanaryTerms, Baseline, dict[str, int], CanaryOutcome]] = {
    "the newest batches refused as much": (TERMS, Baseline(USUAL, REFUSING), {"quarantined": 400}, PASSED),
    "the whole life refused as much": (TERMS, Baseline(REFUSING, USUAL), {"quarantined": 400}, PASSED),
    "more sessions than one that was wrong": (LEAVING, BASELINE, {"sessions": 900}, PASSED),
    "fewer": (LEAVING, BASELINE, {"sessions": 0, "open_after": 10, "open_before": 10}, PASSED),
    "larger ones": (LEAVING, BASELINE, {"held_bytes": 2**40}, PASSED),
    "it refuses more than one that was wrong": (LEAVING, BASELINE, {"quarantined": 400}, FAILED),
    "what a switch brings twice is late": (replace(TERMS, judges_late=False), BASELINE, {"late": 900}, PASSED),
    "rows are refused": (TERMS, BASELINE, {"quarantined": 900}, FAILED),
    "rows that somebody left out": (replace(TERMS, judges_refused=False), BASELINE, {"quarantined": 900}, PASSED),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_what_is_held_against_a_lineage_and_what_is_not(name: str) -> None:
    terms, baseline, changes, outcome = VERDICTS[name]
    assert judge_figures(terms, baseline, replace(GOOD, **changes)).outcome is outcome


def test_without_anything_to_compare_with_only_its_drivers_count() -> None:
    awful = replace(GOOD, quarantined=900, late=100, sessions=0)
    assert judge_figures(TERMS, NOTHING, awful).outcome is CanaryOutcome.PASSED
    assert judge_figures(TERMS, NOTHING, awful, [End("a", "its JVM ended", fatal=True)]).outcome is CanaryOutcome.FAILED


def test_a_backlog_is_waited_for_and_one_that_grows_is_found(reviewed: Reviewed) -> None:
    behind = replace(GOOD, first_lag_ms=90 * MINUTE, last_lag_ms=80 * MINUTE, most_lag_ms=90 * MINUTE)
    assert judge_figures(TERMS, BASELINE, behind) == WATCHING
    assert judge_figures(TERMS, BASELINE, replace(behind, held_bytes=2**40)) == WATCHING, "a backlog is open"
    at_last = replace(behind, batches=TERMS.batches * PATIENCE)
    assert judge_figures(TERMS, BASELINE, at_last).outcome is CanaryOutcome.PASSED, "it gets nearer"
    found = judge_figures(TERMS, BASELINE, replace(at_last, last_lag_ms=91 * MINUTE))
    reviewed(found.reason)
    near = replace(behind, last_lag_ms=4 * MINUTE + LAG_SLACK_MS)
    assert judge_figures(TERMS, BASELINE, near).outcome is CanaryOutcome.PASSED


@pytest.mark.parametrize("figures", [BatchFigures(), GOOD])
def test_drivers_that_ended_in_failures_fail_it_at_any_time(figures: BatchFigures, reviewed: Reviewed) -> None:
    ends = [End(str(number), "its process is gone") for number in range(3)]
    assert judge_figures(TERMS, BASELINE, figures, ends[:2]).outcome is not CanaryOutcome.FAILED
    verdict = judge_figures(TERMS, BASELINE, figures, ends)
    reviewed(verdict.reason)
    fatal = judge_figures(TERMS, BASELINE, figures, [End("a", "state_refused", fatal=True)])
    reviewed(fatal.reason)


def test_a_longer_delay_of_the_watermark_is_no_backlog() -> None:
    newest = NOW - MINUTE
    lags_before, lags_now = (lag_behind(NOW, newest - delay, delay) for delay in (MINUTE, 600 * MINUTE))
    assert (lags_before, lags_now) == (MINUTE, MINUTE)
    assert lag_behind(NOW, None, MINUTE) is None
    later = replace(GOOD, first_lag_ms=lags_now, last_lag_ms=lags_now, most_lag_ms=lags_now)
    assert judge_figures(TERMS, BASELINE, later).outcome is CanaryOutcome.PASSED


counts = st.integers(0, 10**12)
lags = st.none() | counts
facts = st.builds(
    BatchFacts, batch_id=counts, read=counts, admitted=counts, late=counts, quarantined=counts, sessions=counts,
    open_before=counts, open_after=counts, held_bytes=counts, lag_ms=lags,
)  # fmt: skip
figures = st.lists(facts, max_size=60).map(BatchFigures.of)
terms = st.builds(
    CanaryTerms,
    batches=st.integers(1, 50),
    drivers=st.integers(1, 5),
    judges_late=st.booleans(),
    judges_sessions=st.booleans(),
)


@given(terms, figures, figures, figures)
def test_any_figures_have_a_verdict_and_a_canary_ends(
    terms: CanaryTerms, life: BatchFigures, recent: BatchFigures, now: BatchFigures
) -> None:
    verdict = judge_figures(terms, Baseline(life, recent), now)
    assert (verdict.outcome is CanaryOutcome.FAILED) == (verdict.reason is not None)
    if now.batches >= terms.batches * PATIENCE:
        assert verdict.outcome is not None


def batched(events: list[tuple[int, int, str]], cuts: list[int], timeout: int) -> Iterable[BatchFacts]:
    """``events`` (time, session, what becomes of it) as a stream would count them: cut into batches anywhere.

    A session comes out in the batch after its last event is ``timeout`` behind the newest one. What is counted as open
    is up to twice what is.
    """
    last_of = {session: time for time, session, _ in events}
    opened: set[int] = set()
    for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(events)], strict=True)):
        brought = events[start:end]
        watermark = (events[start - 1][0] if start else 0) - timeout
        before = opened | {session for _, session, kind in brought if kind == "admitted"}
        closed = {session for session in before if last_of[session] <= watermark}
        held, opened = 2 * len(opened), before - closed
        kinds = [kind for _, _, kind in brought]
        yield BatchFacts(
            batch_id=number, read=len(brought), admitted=kinds.count("admitted"), late=kinds.count("late"),
            quarantined=kinds.count("quarantined"), sessions=len(closed), open_before=held, open_after=2 * len(opened),
            held_bytes=100 * len(opened),
        )  # fmt: skip


def of_one_kind(chance: random.Random, sessions: int) -> list[tuple[int, int, str]]:
    """Sessions of four events each at any time of an hour; one event in ten is refused."""
    events = [
        (start + 10 * number, session, "quarantined" if number == 0 and session % 5 < 2 else "admitted")
        for session, start in enumerate(sorted(chance.randrange(3_600) for _ in range(sessions)))
        for number in range(4)
    ]
    return sorted(events)


@given(st.integers(0, 2**32), st.integers(40, 200), st.integers(40, 200), st.integers(0, 30), st.integers(4, 30))
def test_the_same_traffic_never_fails_however_it_is_cut(
    seed: int, before: int, now: int, cuts_before: int, cuts: int
) -> None:
    """Cut finely it is a stream that follows its source, and all in one batch a backlog that closes much at once."""
    chance = random.Random(seed)

    def told(sessions: int, count: int) -> BatchFigures:
        events = of_one_kind(chance, sessions)
        return BatchFigures.of(batched(events, sorted(chance.sample(range(1, len(events)), count)), timeout=300))

    usual = told(before, cuts_before)
    verdict = judge_figures(CanaryTerms(least_rows=50), Baseline(usual, usual), told(now, cuts))
    assert verdict.outcome is CanaryOutcome.PASSED, verdict.reason


MAKE: dict[str, Callable[[CanaryTerms | None], str]] = {
    "rescale": lambda canary: RescalePlan("clicks", "old", 7, Division(4, 2), Division(8, 2), canary).digest,
    "switch": lambda canary: (
        SwitchPlan(
            "clicks", "old", 7, "ab", Start(edge=Edge.EARLIEST), (), "begins", UnreadPart("files", 0), canary=canary
        ).digest
    ),
    "apply": lambda canary: (
        UpgradePlan("clicks", "old", 7, "ab", (), UpgradeRequest(APPLY, anew=True, canary=canary)).digest
    ),
    "restore": lambda canary: restore_plan(canary=canary).digest,
    "start over": lambda canary: (
        seed_plan.SeedPlan("clicks", "ab", HistoryPlace("delta", "/lake"), None, BEGINNING, True, "old", canary).digest
    ),
}


@pytest.mark.parametrize("verb", MAKE)
def test_other_terms_are_another_plan(verb: str) -> None:
    usual, make = CanaryTerms(), MAKE[verb]
    others = [None, replace(usual, batches=3), replace(usual, goes_back=True)]
    assert len({make(usual), *map(make, others)}) == 1 + len(others)
    assert make(usual) == make(replace(usual, judges_sessions=False)), "what the verb itself says of its canary"


def test_where_nothing_new_is_made_there_is_nothing_to_try() -> None:
    plan = UpgradePlan("clicks", "old", 7, "ab", (), UpgradeRequest(APPLY))
    assert plan.digest == replace(plan, request=UpgradeRequest(APPLY, canary=None)).digest
    begins = seed_plan.SeedPlan("clicks", "ab", HistoryPlace("delta", "/lake"), None, BEGINNING, True, None)
    assert begins.digest == replace(begins, canary=None).digest


BATCH = BatchFacts(
    batch_id=1, read=9, admitted=9, late=0, quarantined=0, sessions=2, open_before=0, open_after=1, held_bytes=9
)


def make_new(home: StreamHome, *, goes_back: bool = True, canary: bool = True) -> tuple[str, str]:
    before = start_lineage(home)
    after = make_lineage(home, None)
    if canary:
        begin_canary(home, after, "upgrade", before, CanaryTerms(goes_back=goes_back))
    activate_lineage(home, after, before, before)
    return before, after


def test_a_stream_without_a_command_has_none(home: StreamHome) -> None:
    assert examine_unstarted(home) is None
    start_lineage(home)
    assert examine_unstarted(home) is None


@pytest.mark.parametrize(("canary", "goes_back"), [(True, True), (True, False), (False, False)])
def test_a_new_lineage_is_unstarted_until_its_first_batch(home: StreamHome, canary: bool, goes_back: bool) -> None:
    before, after = make_new(home, canary=canary, goes_back=goes_back)
    found = examine_unstarted(home)
    assert found == UnstartedLineage("clicks", after, before, rolls_back=goes_back, starts=3)
    assert all(part in found.way_back for part in ("`sessionizer rollback clicks`", before))
    BatchLog(home.lineage(after).batches).add(BATCH)
    assert examine_unstarted(home) is None


def test_a_lineage_is_failed_once_and_never_after_a_promotion(home: StreamHome) -> None:
    before, after = make_new(home)
    fail_unstarted(home, before, "not the active one")
    assert examine_unstarted(home) == UnstartedLineage("clicks", after, before, rolls_back=True)
    fail_unstarted(home, after, "no code")
    fail_unstarted(home, after, "again")
    canary = known(read_canary(home, after))
    assert (canary.outcome, canary.reason, canary.goes_back) == (CanaryOutcome.FAILED, "no code", True)
    assert examine_unstarted(home) == UnstartedLineage("clicks", after, before)
    marks = [file for file in home.history.iterdir() if "canary" in file.read_text()]
    assert len(marks) == 1


def test_a_promoted_lineage_is_kept(home: StreamHome) -> None:
    before, after = make_new(home)
    promote_lineage(home, "alice")
    fail_unstarted(home, after, "no code")
    canary = known(read_canary(home, after))
    assert canary.outcome is CanaryOutcome.PROMOTED
    assert examine_unstarted(home) == UnstartedLineage("clicks", after, before)


def test_a_change_in_place_leads_back_to_the_savepoint_that_it_made(home: StreamHome) -> None:
    lineage = start_lineage(home)
    BatchLog(home.lineage(lineage).batches).add(BATCH)
    assert examine_unstarted(home) is None
    done = new_operation(home, "upgrade", "d", "alice", (lineage, 1))
    write_operation(home, replace(done, outcome=Ending.DONE, lineage_to=lineage))
    found = examine_unstarted(home)
    assert found == UnstartedLineage("clicks", lineage, savepoint=f"upgrade-{done.id}")
    assert f"`sessionizer restore clicks upgrade-{done.id}`" in found.way_back
    HEALTH_FILE.of(home).write(Health(worked_at=epoch_ms() + 1))
    assert examine_unstarted(home) is None
    with pytest.raises(NoWayBack, match=f"`sessionizer restore clicks upgrade-{done.id}`"):
        way_back(home, lineage)


def test_no_rollback_is_taken_for_the_way_back_of_a_change_in_place(home: StreamHome) -> None:
    """A rollback leads to the lineage before, which may be weeks old."""
    before, after = make_new(home)
    assert undo_in_place(home, after) == []
    done = new_operation(home, "apply", "d", "alice", (after, 1))
    write_operation(home, replace(done, outcome=Ending.DONE, lineage_to=after))
    (said,) = undo_in_place(home, after)
    assert f"`sessionizer restore clicks apply-{done.id}`" in said
    for origin in (Origin("seed", 7, before), Origin("rescale", 7, before, 41)):  # no rollback leads to either
        ORIGIN_FILE.of(home, after).write(origin)
        with pytest.raises(NoWayBack, match=f"`sessionizer restore clicks apply-{done.id}`"):
            way_back(home, after)


def test_a_damaged_record_is_no_reason_to_roll_back(home: StreamHome) -> None:
    _, after = make_new(home)
    CANARY_FILE.of(home, after).path.write_text("{")
    assert examine_unstarted(home) is None
