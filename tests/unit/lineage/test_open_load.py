"""Load of a key group: closes by reason, open sessions by age and size, the heaviest keys."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sessionizer.control.history.sample import NAMED_AFTER, GroupTime, follow, slow_group
from sessionizer.core.definition.event import Event
from sessionizer.core.definition.outcome import CloseReason
from sessionizer.core.definition.rules import Clock, SessionRules
from sessionizer.core.key_group.append_or_merge import Arrivals, BatchBounds, GroupRules, take_batch
from sessionizer.core.key_group.cutting import Cuts
from sessionizer.core.key_group.group_load import AGES, GroupLoad, OpenInGroup, p99, sum_loads
from sessionizer.core.key_group.merging import load_of
from sessionizer.lineage.active import Lineage
from sessionizer.lineage.batch_log import KEPT, BatchFacts, BatchFigures, BatchLog, OpenSessions
from sessionizer.lineage.canary.judge import TOLD_FOR_MS, describe_late_backlog
from sessionizer.spark.driver.heartbeat_writer import group_times
from sessionizer.spark.sinks.write import BatchCounts
from support.streams.in_memory_groups import PAYLOAD, Group, event_table

NOW = 1_790_000_000_000
MINUTE = 60_000
SHORT = SessionRules(
    clock=Clock.EVENT_TIME,
    watermark_delay_ms=10_000,
    gap_timeout_ms=30_000,
    client_timeouts_ms={},
    emit_every_ms=5_000,
)


def cuts(lengths: list[int], reasons: list[int]) -> Cuts:
    last = np.cumsum(lengths) - 1
    first = last - np.array(lengths) + 1
    return Cuts(first, last, np.full(len(lengths), NOW), np.array(reasons, np.int8))


def test_a_group_reports_its_closes_and_its_open_sessions() -> None:
    closes = np.array([True, False, True, False, False])
    clock = NOW - np.array([70, 1, 2, 3, 60 * 24 * 9]) * MINUTE
    events = pa.table({"key": ["k" * 99, "a", "b", "c", "e"], "clock": clock})
    first = np.array([1, 2, 3, 0, 4])
    load = load_of(cuts([4, 2, 6, 9, 7], [3, 3, 0, 3, 1]), closes, first, events, NOW)
    assert load.closed == {CloseReason.GAP: 1, CloseReason.CLOSING_EVENT: 1}
    assert dict(zip(AGES, load.ages, strict=True)) == {"1m": 0, "10m": 1, "1h": 0, "6h": 1, "1d": 0, "older": 1}
    assert load.heaviest == (("k" * 64, 9), ("e", 7), ("b", 2))
    assert load.p99_events == 9


def test_a_group_without_open_sessions() -> None:
    events = pa.table({"key": ["a"], "clock": [NOW]})
    load = load_of(cuts([4], [3]), np.array([True]), np.array([0]), events, NOW)
    assert (sum(load.ages), load.heaviest, load.p99_events) == (0, (), None)


@pytest.mark.parametrize(
    ("sizes", "expected"), [([5], 5), ([1] * 99 + [7], 1), ([1] * 98 + [7, 8], 7), (range(1, 1001), 990)]
)
def test_99_of_100_are_within_it(sizes: list[int], expected: int) -> None:
    assert p99(sorted(sizes)) == expected


def test_the_load_of_all_groups() -> None:
    loads = {
        3: GroupLoad(ages=(1, 0, 0, 0, 0, 2), heaviest=(("a", 9), ("b", 2)), p99_events=9),
        1: GroupLoad(ages=(4, 0, 0, 0, 0, 0), heaviest=(("c", 5),), p99_events=5),
        2: GroupLoad(),
    }
    load = sum_loads([100, 900, 10], loads)
    assert (load.group_p99_bytes, load.p99_events) == (900, 9)
    assert load.heaviest == (("a", 3, 9), ("c", 1, 5), ("b", 3, 2))
    assert load.ages == {"1m": 5, "10m": 0, "1h": 0, "6h": 0, "1d": 0, "older": 2}
    nothing = sum_loads([], {})
    assert (nothing.group_p99_bytes, nothing.heaviest, nothing.ages) == (None, (), {})


def test_the_report_travels_as_json_and_no_record_keeps_it() -> None:
    load = GroupLoad(closed={"gap": 2}, ages=(1, 2, 3, 4, 5, 6), heaviest=(("a", 9),), p99_events=9)
    report = OpenInGroup(sessions=1, latest_due_ms=9, held_bytes=7, admitted=2, merged=True, load=load).taking(17)
    there = OpenInGroup.from_json(report.to_json())
    assert (there.load.took_ms, there.load.closed, there.load.heaviest) == (17, {"gap": 2}, (("a", 9),))
    assert there == report
    assert "load" not in report.as_dict()


def test_a_group_that_was_called_twice_took_both_times() -> None:
    def report(took_ms: int, *heaviest: tuple[str, int], merged: bool = True) -> OpenInGroup:
        load = GroupLoad(took_ms=took_ms, closed={"gap": 1}, heaviest=heaviest, p99_events=3)
        return OpenInGroup(sessions=1, latest_due_ms=9, held_bytes=7, admitted=2, merged=merged, load=load)

    stored, merged = report(5, merged=False), report(20, ("b", 4), ("c", 1))
    counts = BatchCounts(open_in_groups=[(3, stored), (1, report(7, ("a", 9), merged=False)), (3, merged)])
    loads = {3: merged.load, 1: GroupLoad(heaviest=(("a", 9), ("d", 8)), p99_events=3)}
    assert group_times(counts, loads) == (
        GroupTime(group=3, took_ms=25, key="b", key_events=4, others_events=1),
        GroupTime(group=1, took_ms=7, key="a", key_events=9, others_events=3, merged=False),
    )
    assert counts.closed == {"gap": 3}


def test_a_key_with_most_of_the_events_is_named_though_its_group_does_not_merge_in_each_batch(tmp_path: Path) -> None:
    """Replays measured batches: of 51 sessions the heaviest is the p99 itself, and every third batch merges."""
    rules, delay_ms, step_ms, batches = SHORT, 10_000, 20_000, 8
    group, kept, shared = Group(), OpenSessions(tmp_path / "open.json"), GroupRules(SHORT, PAYLOAD, 4)
    straggler, names, watermark = None, [], 0
    for batch in range(batches):
        at, ended = NOW + batch * step_ms, NOW + batches * step_ms
        keys = ["bot"] * 600 + [f"u{number}" for number in range(50)]
        events = [Event(key, None, at, f"{batch}-{n}", payload=(None, None)) for n, key in enumerate(keys)]
        bounds = BatchBounds.of(rules.clock, watermark, ended, 0)
        step = take_batch(
            0, shared, group.plan, Arrivals([event_table(events, rules, arrived_at_ms=ended)]), bounds, group.stored
        )
        group.apply(step)
        assert step.open_in_group is not None
        others = [(number, replace(step.open_in_group, load=GroupLoad()).taking(10)) for number in (1, 2, 3)]
        counts = BatchCounts(open_in_groups=[(0, step.open_in_group.taking(2_400 if step.merged else 30)), *others])
        kept.learn(batch, counts.open_in_groups)
        times = group_times(counts, kept.loads)
        straggler = follow(straggler, slow_group(times, 4_000 if step.merged else 900, ended), times)
        names.append((step.merged is not None, straggler.label if straggler and straggler.is_named else None))
        watermark = at - delay_ms
    assert [merged for merged, _ in names].count(True) == NAMED_AFTER
    assert names[-1] == (False, "key:bot")


BORN = 1_000
BEGUN = Lineage("20261125T203724-b28b91", BORN)


def batch(number: int, read: int, late: int) -> BatchFacts:
    counts = {"sessions": 0, "open_before": 0, "open_after": 0, "held_bytes": 0, "quarantined": 0}
    return BatchFacts(batch_id=number, read=read, admitted=read - late, late=late, **counts)


@pytest.mark.parametrize(
    ("read", "late", "told"), [(96, 69, True), (100, 10, False), (101, 11, True), (20, 9, False), (0, 0, False)]
)
def test_more_than_a_tenth_is_told(read: int, late: int, told: bool) -> None:
    line = describe_late_backlog(BEGUN, BatchFigures(batches=1, read=read, late=late), BORN)
    assert (line is not None) == told


def test_a_lineage_with_the_state_of_another_is_judged_by_its_canary() -> None:
    late = BatchFigures(batches=1, read=96, late=69)
    assert describe_late_backlog(Lineage("b", BORN, parent="a"), late, BORN) is None


def test_it_is_not_told_for_ever() -> None:
    late = BatchFigures(batches=1, read=96, late=69)
    assert describe_late_backlog(BEGUN, late, BORN + TOLD_FOR_MS) is not None
    assert describe_late_backlog(BEGUN, late, BORN + TOLD_FOR_MS + 1) is None


def test_the_first_batches_are_remembered(tmp_path: Path) -> None:
    file = tmp_path / "batches.json"
    log = BatchLog(file)
    for number in range(KEPT):
        log.add(batch(number, read=10, late=5))
    log.add(batch(KEPT - 1, read=10, late=5))  # a batch that runs again
    for number in range(KEPT, 2 * KEPT):
        log.add(batch(number, read=1_000, late=0))
    for kept in (log, BatchLog(file)):
        assert (kept.first.read, kept.first.late) == (10 * KEPT, 5 * KEPT)
    assert log.life.read == 10 * KEPT + 1_000 * KEPT


def test_of_an_earlier_release_nothing_is_known_of_the_first(tmp_path: Path) -> None:
    file = tmp_path / "batches.json"
    file.write_text('{"format": 1, "earlier": {"batches": 3, "read": 9, "late": 9, "open_before": 0}, "batches": []}')
    log = BatchLog(file)
    log.add(batch(30, read=100, late=50))
    assert log.first == BatchFigures()
