"""Findings of a canary: worse figures are found, and a backlog, a restart or a quiet hour never is."""

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.lineage.batch_log import BatchFacts, BatchFigures, lag_behind
from sessionizer.lineage.canary.canary_record import NOTHING
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
from support.fixtures.reviewed import Reviewed

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
        waits = describe_wait(TERMS, BASELINE, replace(GOOD, **changes))
        assert waits is not None
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
    found = reason(**changes)
    assert found is not None
    assert found.startswith(why)


def test_the_milder_of_life_and_newest_batches_counts() -> None:
    refusing = replace(USUAL, quarantined=5_000)
    assert (
        judge_figures(TERMS, Baseline(USUAL, refusing), replace(GOOD, quarantined=400)).outcome is CanaryOutcome.PASSED
    )
    assert (
        judge_figures(TERMS, Baseline(refusing, USUAL), replace(GOOD, quarantined=400)).outcome is CanaryOutcome.PASSED
    )


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


def test_who_leaves_a_lineage_that_was_wrong_need_not_do_as_it_did() -> None:
    terms = replace(TERMS, judges_sessions=False)
    for other in ({"sessions": 900}, {"sessions": 0, "open_after": 10, "open_before": 10}, {"held_bytes": 2**40}):
        assert judge_figures(terms, BASELINE, replace(GOOD, **other)).outcome is CanaryOutcome.PASSED
    assert judge_figures(terms, BASELINE, replace(GOOD, quarantined=400)).outcome is CanaryOutcome.FAILED


def test_what_a_switch_brings_twice_is_not_held_against_it() -> None:
    assert (
        judge_figures(replace(TERMS, judges_late=False), BASELINE, replace(GOOD, late=900)).outcome
        is CanaryOutcome.PASSED
    )


def test_rows_that_somebody_left_out_are_not_held_against_a_lineage() -> None:
    left_out = replace(GOOD, quarantined=900)
    assert judge_figures(TERMS, BASELINE, left_out).outcome is CanaryOutcome.FAILED
    assert judge_figures(replace(TERMS, judges_refused=False), BASELINE, left_out).outcome is CanaryOutcome.PASSED


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
