"""What a rescale would do, as data."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sessionizer.checkpoint.log_entries import PARTITIONS
from sessionizer.core.definition.rules import Clock
from sessionizer.errors import InvalidSpec
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.fingerprint import RELEASE, CheckpointRecord, present_fingerprint, write_fingerprint
from sessionizer.lineage.kept_spec import KeptTypes
from sessionizer.state.commands.moves import Division, Rescale, plan_rescale
from sessionizer.state.lineages.committed_batch import CommittedBatch, Position
from sessionizer.state.preconditions import name_releases

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.fixtures.reviewed import Reviewed

COMMITTED = CommittedBatch(
    lineage="old",
    batch_id=41,
    batch_at=7,
    watermark_ms=5,
    position=Position("files", {"logOffset": 3}),
    seen_files=(),
    settings={PARTITIONS: "2"},
    spec={"key_groups": 16},
    kept=KeptTypes(Clock.EVENT_TIME),
    record=CheckpointRecord(1, "0001", "clicks@x"),
    proof="",
)


def test_what_nobody_asks_for_stays() -> None:
    plan = plan_rescale("clicks", COMMITTED, 32, None)
    assert (plan.before, plan.now) == (Division(16, 2), Division(32, 2))
    assert plan.changes_something
    assert plan_rescale("clicks", COMMITTED, None, 4).now == Division(16, 4)
    assert not plan_rescale("clicks", COMMITTED, 16, 2).changes_something
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


def test_a_release_that_the_new_lineage_would_take_is_named_and_approved(tmp_path: Path) -> None:
    home = StreamHome.of(tmp_path, "clicks")
    home.prepare()
    plan = Rescale(key_groups=32).plan("clicks", COMMITTED, 16)
    assert name_releases(home, plan) == plan, "a stream that never ran"

    lineage = start_lineage(home)
    now = present_fingerprint()

    def ran_by(release: str, code: str) -> None:
        write_fingerprint(
            home, lineage, replace(now, versions={**now.versions, RELEASE: release}, code=code, sources=code)
        )

    ran_by("0.1.0", now.code)
    assert name_releases(home, plan) == plan, "the same code"
    ran_by("0.1.0", "other")
    named = name_releases(home, plan)
    assert named.releases == ("0.1.0", now.versions[RELEASE])
    assert {named.digest, named.to_json()["digest"]} != {plan.digest}
    assert named.digest == named.to_json()["digest"]
    assert named.decided == {**plan.decided, "release": now.versions[RELEASE]}
    (said,) = [line for line in named.lines() if line not in plan.lines()]
    assert said.startswith(f"  release: the new lineage takes {now.versions[RELEASE]}, and the stream runs by 0.1.0. ")
    ran_by("0.0.9", "other")
    assert name_releases(home, plan).digest == named.digest, "what is approved is the new release"
