"""Plans of the commands that move a stream: another source, other groups, a replay."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sessionizer.checkpoint.log_entries import PARTITIONS
from sessionizer.core.definition.rules import Clock
from sessionizer.deployment.differences import Division
from sessionizer.deployment.releases import other_release
from sessionizer.errors import InvalidSpec
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.fingerprint import (
    FINGERPRINT_FILE,
    RELEASE,
    CheckpointRecord,
    present_fingerprint,
    write_fingerprint,
)
from sessionizer.lineage.kept_spec import KeptTypes
from sessionizer.state.commands.command import Plan
from sessionizer.state.commands.moves import (
    Edge,
    Rescale,
    RescalePlan,
    Start,
    SwitchPlan,
    UnreadPart,
    plan_rescale,
    require_switch,
    topics_that_stay,
)
from sessionizer.state.commands.registry import COMMANDS
from sessionizer.state.lineages.committed_batch import CommittedBatch, Position
from sessionizer.state.restores.ranges import Replay, replay_of_delta, replay_of_files, replay_of_topic
from sessionizer.stream_spec.decisions import Change
from sessionizer.stream_spec.document.source import KafkaSource
from support.fixtures.reviewed import Reviewed
from support.places import REPOSITORY

COMMITTED = CommittedBatch(
    stream="clicks",
    lineage="old",
    checkpoint=Path("checkpoint"),
    batch_id=41,
    batch_at=7,
    watermark_ms=5,
    position=Position("files", {"logOffset": 3}),
    settings={PARTITIONS: "2"},
    spec={"key_groups": 16},
    kept=KeptTypes(Clock.EVENT_TIME),
    record=CheckpointRecord(1, "0001", "clicks@x"),
    proof="",
)


def test_what_nobody_asks_for_stays() -> None:
    plan = plan_rescale("clicks", COMMITTED, 32, None)
    assert (plan.before, plan.now) == (Division(16, 2), Division(32, 2))
    assert plan.before != plan.now
    assert plan_rescale("clicks", COMMITTED, None, 4).now == Division(16, 4)
    same = plan_rescale("clicks", COMMITTED, 16, 2)
    assert same.before == same.now
    assert plan_rescale("clicks", COMMITTED, 1, None).now == Division(1, 1), "a partition without a group is of no use"


def test_more_partitions_than_key_groups_are_refused(reviewed: Reviewed) -> None:
    with pytest.raises(InvalidSpec) as raised:
        plan_rescale("clicks", COMMITTED, 4, 5)
    reviewed(raised.value)


def test_the_digest_is_of_what_is_decided() -> None:
    plan = plan_rescale("clicks", COMMITTED, 32, 4)
    later = plan_rescale("clicks", replace(COMMITTED, batch_id=42, watermark_ms=9), 32, 4)
    assert later.digest == plan.digest
    others = [
        plan_rescale("views", COMMITTED, 32, 4),
        plan_rescale("clicks", COMMITTED, 33, 4),
        plan_rescale("clicks", COMMITTED, 32, 8),
        plan_rescale("clicks", replace(COMMITTED, lineage="other"), 32, 4),
        plan_rescale("clicks", replace(COMMITTED, settings={PARTITIONS: "3"}), 32, 4),
    ]
    assert len({plan.digest, *(other.digest for other in others)}) == 1 + len(others)
    assert plan.to_json()["digest"] == plan.digest


def test_people_are_told_what_would_be_done(golden: Callable[[str, str], None]) -> None:
    plans = {"even": (1, None), "uneven": (10, 4), "nothing to change": (16, 2)}
    told = {name: plan_rescale("clicks", COMMITTED, *wanted).lines() for name, wanted in plans.items()}
    golden("plans/rescale.txt", "\n".join("\n".join((f"# {name}", *lines, "")) for name, lines in told.items()))


def test_a_release_that_the_new_lineage_would_take_is_named_and_approved(home: StreamHome) -> None:

    def planned() -> Plan[RescalePlan]:
        return Rescale(key_groups=32, releases=other_release(home)).plan("clicks", COMMITTED, 16)

    plan = planned()
    assert plan.releases is None, "a stream that never ran"
    lineage = start_lineage(home)
    now = present_fingerprint()

    def ran_by(release: str, code: str) -> None:
        versions = {**now.versions, RELEASE: release}
        write_fingerprint(home, lineage, replace(now, versions=versions, code=code, sources=code))

    ran_by("0.1.0", now.code)
    assert planned() == plan, "the same code"
    ran_by("0.1.0", "other")
    named = planned()
    assert named.releases == ("0.1.0", now.versions[RELEASE])
    assert plan.digest != named.digest == named.to_json()["digest"]
    assert named.decided == {**plan.decided, "release": now.versions[RELEASE]}
    (said,) = [line for line in named.lines() if line not in plan.lines()]
    assert said.startswith(f"  release: the new lineage takes {now.versions[RELEASE]}, and the stream runs by 0.1.0. ")
    ran_by("0.0.9", "other")
    assert planned().digest == named.digest, "what is approved is the new release"
    FINGERPRINT_FILE.of(home, lineage).path.write_text("{")
    assert planned() == plan, "a damaged record keeps nobody from a way out"


def test_every_plan_of_a_new_lineage_names_the_release() -> None:
    """Commands make their plans in one place, which no command can pass by."""
    made = [file for file in (REPOSITORY / "jobs").rglob("*.py") if re.search(r"(?<!\w)Plan\(\w", file.read_text())]
    assert [file.name for file in made] == ["command.py"]
    assert {name for name, command in COMMANDS.items() if not command.brings_release} == {"rollback", "upgrade"}


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
    assert PLANS["gap, unread records"].gap_ms == 10_000
    golden("plans/switch.txt", "".join(f"# {name}\n{_text(plan)}\n" for name, plan in PLANS.items()))


def _text(plan: SwitchPlan) -> str:
    return "".join(f"{line}\n" for line in plan.lines())


def test_the_digest_is_of_what_is_decided_of_switch_plan() -> None:
    same = (
        replace(PLAN, batch_id=9),
        replace(PLAN, unread=UnreadPart("records", 3)),
        replace(PLAN, begins="clicks2 {'0': 5}"),
        PLANS["excluded ranges"],
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


def test_files_that_were_read_since_come_again(reviewed: Reviewed) -> None:
    then, now = ["a", "b"], ["a", "b", "c", "d"]
    reviewed(replay_of_files(then, now, lambda uri: uri != "a"))  # what was read before is not missed
    assert replay_of_files([], ["c", "d"], lambda uri: uri == "c").missing == ("d",)


def test_versions_of_a_delta_table_that_its_log_has_lost_are_missed(reviewed: Reviewed) -> None:
    offset = {"sourceVersion": 1, "reservoirId": "x", "reservoirVersion": 7, "index": -1, "isStartingVersion": False}
    reviewed(replay_of_delta(offset, {7, 8, 9}))
    assert replay_of_delta(offset, {9, 10}).missing == ("version 7", "version 8")
    reviewed(replay_of_delta(offset, {5, 6}))
    reviewed(replay_of_delta(None, {3}))


def test_of_a_topic_only_the_position_is_told(reviewed: Reviewed) -> None:
    assert replay_of_topic({"clicks": {"0": 100}}) == Replay('Kafka from {"clicks": {"0": 100}} on')
    reviewed(replay_of_topic(None))
