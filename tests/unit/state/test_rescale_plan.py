"""What a rescale would do, as data."""

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
from sessionizer.state.commands.moves import Rescale, RescalePlan, plan_rescale
from sessionizer.state.commands.registry import COMMANDS
from sessionizer.state.lineages.committed_batch import CommittedBatch, Position
from support.fixtures.reviewed import Reviewed
from support.places import REPOSITORY

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
