"""The plan of a switch: what people read of it, and what its digest covers."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from sessionizer.errors import InvalidSpec
from sessionizer.state.commands.moves import (
    Edge,
    Start,
    SwitchPlan,
    UnreadPart,
    require_switch,
    topics_that_stay,
)
from sessionizer.stream_spec.decisions import Change
from sessionizer.stream_spec.document.source import KafkaSource
from support.fixtures.reviewed import Reviewed

PLAN = SwitchPlan(
    stream="clicks",
    lineage="20261123T101039-b62c1f",
    batch_id=7,
    fingerprint="ab" * 32,
    start=Start(edge=Edge.EARLIEST),
    changes=("source.topic: 'clicks' → 'clicks2'",),
    begins="clicks2 {'0': 0}",
    unread=UnreadPart("records", 0),
    read_until=1_750_000_060_000,
    first_event=1_750_000_000_000,
)


PLANS = {
    "overlap": PLAN,
    "gap, unread records": replace(PLAN, first_event=1_750_000_070_000, unread=UnreadPart("records", 1_200)),
    "unknown": replace(PLAN, first_event=None, unread=UnreadPart("records", None, "the broker does not answer")),
    "a moment": replace(PLAN, start=Start(at=1_750_000_000_000)),
    "excluded ranges": replace(PLAN, excluded_ranges=("clicks:0:5 (1 record)",)),
    "topics that stay": replace(PLAN, kept=("a", "b")),
}


def test_what_people_read(golden: Callable[[str, str], None]) -> None:
    golden("plans/switch.txt", "".join(f"# {name}\n{_text(plan)}\n" for name, plan in PLANS.items()))


def test_a_gap_and_what_is_left_are_told(reviewed: Reviewed) -> None:
    assert PLANS["gap, unread records"].gap_ms == 10_000
    assert all(part in _text(PLANS["gap, unread records"]) for part in ("gap of 10 s", "1,200"))
    reviewed(_text(PLANS["unknown"]))


def _text(plan: SwitchPlan) -> str:
    return "".join(f"{line}\n" for line in plan.lines())


def test_what_is_left_out_of_the_old_source_is_told_not_to_count_for_the_new_one() -> None:
    plan = replace(PLAN, excluded_ranges=("clicks:0:5 (1 record)",))
    assert any("clicks:0:5 (1 record)" in line for line in plan.lines())
    assert plan.digest == PLAN.digest


def test_the_digest_is_of_what_is_decided() -> None:
    same = (
        replace(PLAN, batch_id=9),
        replace(PLAN, unread=UnreadPart("records", 3)),
        replace(PLAN, begins="clicks2 {'0': 5}"),
    )
    assert {plan.digest for plan in same} == {PLAN.digest}
    others = (
        replace(PLAN, start=Start(edge=Edge.LATEST)), replace(PLAN, fingerprint="cd" * 32), replace(PLAN, lineage="x"),
        replace(PLAN, stream="visits"),
    )  # fmt: skip
    assert len({PLAN.digest, *(plan.digest for plan in others)}) == 1 + len(others)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", Start(edge=Edge.EARLIEST)),
        ("latest", Start(edge=Edge.LATEST)),
        ("2026-11-23T10:00", Start(at=1_795_428_000_000)),
        ("2026-11-23T11:00+01:00", Start(at=1_795_428_000_000)),
    ],
)
def test_a_start_as_people_type_it(text: str, start: Start) -> None:
    assert Start.of(text) == start


def test_a_start_that_is_none() -> None:
    with pytest.raises(InvalidSpec, match="--start-at is 'yesterday'"):
        Start.of("yesterday")


SOURCE = Change("source.topic", "clicks", "clicks2")


@pytest.mark.parametrize("more", [(), (Change("mapping.key", "user", "uid"), Change("trigger_interval", "1 s", "2 s"))])
def test_what_belongs_to_a_source_may_change_with_it(more: tuple[Change, ...]) -> None:
    require_switch((SOURCE, *more))


def test_what_does_not_belong_to_a_source_is_refused() -> None:
    for field in ("rules.gap_timeout", "sink.path", "key_groups", "measures.total"):
        with pytest.raises(InvalidSpec, match=f"{field} is .* during a switch"):
            require_switch((SOURCE, Change(field, 1, 2)))
    for changes in ((), (Change("source.starting_offsets", "earliest", "latest"),), (Change("mapping.key", "a", "b"),)):
        with pytest.raises(InvalidSpec, match="another source"):
            require_switch(changes)


def test_a_refused_switch_names_each_field_to_put_back() -> None:
    changes = (SOURCE, Change("measures.views", None, "count(*)"), Change("rules.gap_timeout", "30 s", "50 s"))
    with pytest.raises(InvalidSpec) as refused:
        require_switch(changes)
    problems = (refused.value, *refused.value.others)
    told = [(each.field, each.allowed.partition(" during")[0]) for each in problems]
    assert told == [("measures.views", "Omit it"), ("rules.gap_timeout", "Use '30 s'")]


KAFKA = {"format": "kafka", "bootstrap_servers": "old:1", "topic": "a,b"}
READ = {"a": {"0": 5}, "b": {"0": 7}}


def new_source(topic: str, brokers: str = "old:1") -> KafkaSource:
    return KafkaSource(format="kafka", bootstrap_servers=brokers, topic=topic, encoding="text")


@pytest.mark.parametrize(
    ("topic", "brokers", "noted", "ids", "kept"),
    [
        ("a,b,c", "old:1", {}, {}, ("a", "b")),
        ("c,a", "old:1", {}, {}, ("a",)),
        ("c", "old:1", {}, {}, ()),
        ("a,b", "new:1", {}, {}, ()),  # another cluster, as far as anything tells
        ("a,b", "new:1", {"a": "A", "b": "B"}, {"a": "A", "b": "B"}, ("a", "b")),  # its brokers moved
        ("a,b", "new:1", {"a": "A", "b": "B"}, {"a": "A", "b": "X"}, ("a",)),
        ("a,b,c", "old:1", {"a": "A", "b": "B"}, {"a": "X", "b": "B", "c": "C"}, ("b",)),
    ],
)
def test_topics_in_both_lists_stay(
    topic: str, brokers: str, noted: dict[str, str], ids: dict[str, str], kept: tuple[str, ...]
) -> None:
    assert topics_that_stay(KAFKA, new_source(topic, brokers), READ, noted, ids) == kept


def test_a_stream_of_files_has_no_topic_that_stays() -> None:
    assert topics_that_stay({"format": "files"}, new_source("a"), {"logOffset": 3}, {}, {}) == ()
    assert topics_that_stay(KAFKA, new_source("a"), None, {}, {}) == ()


def test_the_topics_that_stay_are_named() -> None:
    assert any(line.strip().startswith("a, b: ") for line in replace(PLAN, kept=("a", "b")).lines())
