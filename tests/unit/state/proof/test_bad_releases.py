"""Six kinds of bad release, each caught in memory; and a pure refactoring, which is equal."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, cast

import pyarrow as pa
import pytest

from sessionizer.core.definition.event import Batch, Event
from sessionizer.core.definition.oracle import sessionize
from sessionizer.core.definition.outcome import Session
from sessionizer.core.definition.rules import Clock, SessionRules
from sessionizer.errors import ReplayDiffers
from sessionizer.state.proof.comparison import TABLES, DifferenceKind, TableComparison, compare_rows
from sessionizer.state.proof.result import Death, Proof, ProofVerdict, judge_table
from support.streams.strategies import drain_at

RULES: Final = SessionRules(Clock.EVENT_TIME, 10_000, 30_000, {})
SESSIONS: Final = TABLES[0]


def events(number: int) -> tuple[Event, ...]:
    return tuple(
        Event(
            key=f"u{(n * 7 + number) % 23}",
            client="acme",
            event_time_ms=1_750_000_000_000 + number * 20_000 + n * 100,
            event_id=f"{number}-{n}",
            payload=(0.1 * n,),
        )
        for n in range(200)
    )


BATCHES: Final = [*(Batch(events(number), 1_750_000_000_000 + number * 20_000) for number in range(8)), drain_at(2**41)]


def amount_of(session: Session) -> float:
    return sum(cast("float", event.payload[0]) for event in session.events)


def table_of(sessions: Iterable[Session], spent: Callable[[Session], float] | None = None) -> pa.Table:
    measure = spent or amount_of
    columns = ("session_id", "key", "client", "event_count")
    found = list(sessions)
    rows = {name: [getattr(session, name) for session in found] for name in columns}
    rows |= {
        "started_at": [datetime.fromtimestamp(each.started_at_ms / 1000, UTC) for each in found],
        "spent": [measure(session) for session in found],
        "events": [[{"event_id": e.event_id, "amount": e.payload[0]} for e in each.events] for each in found],
        "lineage": ["one"] * len(found),
        "emitted_at": [datetime.now(UTC)] * len(found),
    }
    return pa.table(rows)


def closed(batches: Iterable[Batch] = BATCHES, rules: SessionRules = RULES) -> list[Session]:
    return sessionize(batches, rules).closed


def drops_rows() -> pa.Table:
    return table_of(session for number, session in enumerate(closed()) if number % 9)


def doubles_rows() -> pa.Table:
    return table_of(each for number, session in enumerate(closed()) for each in [session] * (1 + (number % 9 == 0)))


def cuts_elsewhere() -> pa.Table:
    return table_of(closed(rules=replace(RULES, gap_timeout_ms=RULES.gap_timeout_ms // 20)))


def rounds_a_measure() -> pa.Table:
    return table_of(closed(), lambda session: round(amount_of(session), 6) + 1e-9)


def takes_another_key() -> pa.Table:
    moved = [
        replace(batch, events=tuple(replace(event, key=event.key.rstrip("3") or "u") for event in batch.events))
        for batch in BATCHES
    ]
    return table_of(closed(moved))


BAD: Final[dict[Callable[[], pa.Table], set[tuple[DifferenceKind, tuple[str, ...]]]]] = {
    drops_rows: {(DifferenceKind.ONLY_OLD, ())},
    doubles_rows: {(DifferenceKind.ONLY_NEW, ())},
    cuts_elsewhere: {(DifferenceKind.ONLY_NEW, ()), (DifferenceKind.COLUMNS, ("event_count", "events", "spent"))},
    rounds_a_measure: {(DifferenceKind.COLUMNS, ("spent",))},
    takes_another_key: {(DifferenceKind.ONLY_OLD, ()), (DifferenceKind.ONLY_NEW, ())},
}


def proof_of(new: pa.Table, died: Death | None = None) -> Proof:
    compared = compare_rows(table_of(closed()), new, SESSIONS)
    tables = (judge_table(SESSIONS, compared, compared, TableComparison(), ()),)
    return Proof("p", "clicks", "one", 0, 1, 8, 1600, 1.0, (), (), tables, died=died)


@pytest.mark.parametrize("release", BAD, ids=lambda release: release.__name__)
def test_a_bad_release_is_caught(release: Callable[[], pa.Table]) -> None:
    proof = proof_of(release())
    found = proof.tables[0].differences
    assert proof.verdict is ProofVerdict.UNEXPLAINED
    assert not proof.holds
    assert {(each.difference.kind, each.difference.columns) for each in found} >= BAD[release]
    assert all(each.difference.samples for each in found)


@pytest.mark.parametrize("release", [None, *BAD], ids=lambda release: getattr(release, "__name__", "good"))
def test_a_changed_spec_explains_what_it_causes_and_no_bad_release(release: Callable[[], pa.Table] | None) -> None:
    """The release is judged by its replay of the recorded spec."""
    old, shorter = table_of(closed()), table_of(closed(rules=replace(RULES, gap_timeout_ms=700)))
    by_old_spec = release() if release else old
    compared, of_release, of_spec = (
        compare_rows(before, now, SESSIONS)
        for before, now in ((old, shorter), (old, by_old_spec), (by_old_spec, shorter))
    )
    judged = judge_table(SESSIONS, compared, of_release, of_spec, ("rules.gap_timeout",))
    proof = Proof("p", "clicks", "one", 0, 1, 8, 1600, 1.0, (), (), (judged,))
    assert proof.verdict is (ProofVerdict.UNEXPLAINED if release else ProofVerdict.EXPLAINED)
    assert {each.explained_by for each in judged.differences} - {()} <= {("rules.gap_timeout",)}
    assert judged.unexplained == sum(each.rows for each in of_release.differences)


def test_unexplained_rows_may_be_accepted_by_name() -> None:
    proof = proof_of(rounds_a_measure())
    with pytest.raises(ReplayDiffers) as caught:
        proof.require({"proof.late_events"})
    assert caught.value.names == ("proof.sessions",)
    proof.require({"proof.sessions"})
    with pytest.raises(ReplayDiffers):
        proof_of(table_of(closed()), Death(3, "no")).require({"proof.sessions"})
    proof_of(table_of(closed())).require()


def test_a_release_that_dies_is_caught() -> None:
    proof = proof_of(table_of(closed()), Death(3, "ValueError: no"))
    assert proof.verdict is ProofVerdict.DIED
    assert not proof.holds
    assert proof.failure == "batch 3 failed: ValueError: no"


def test_a_refactoring_is_equal() -> None:
    """Whatever the order of rows and columns, and whenever it ran."""
    new = table_of(reversed(closed()))
    proof = proof_of(new.select(new.column_names[::-1]))
    assert proof.verdict is ProofVerdict.EQUAL
    assert proof.tables[0].identical == proof.tables[0].old == len(closed()) > 20
