"""What the plan of a restore says, and what its digest covers."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sessionizer.checkpoint.log_entries import commit_log
from sessionizer.counts import number_is
from sessionizer.deployment.differences import Difference
from sessionizer.errors import InvalidSpec, NotAccepted, NoWayBack
from sessionizer.home.stream_home import SavepointHome, StreamHome
from sessionizer.lineage.active import activate_lineage, make_lineage, start_lineage
from sessionizer.lineage.excluded_ranges import ExcludedRange, ExcludedRanges, Records
from sessionizer.state.commands.moves import LossPlan
from sessionizer.state.commands.restores import Restore, RestorePlan, RollbackPlan, consequences
from sessionizer.state.commands.return_plans import FileFacts
from sessionizer.state.lineages.origin import ORIGIN_FILE, Origin, way_back
from sessionizer.state.lineages.table_snapshot import SparkNeeded
from sessionizer.state.restores.ranges import Replay
from sessionizer.state.restores.row_changes import RowsOfTable
from sessionizer.stream_spec.decisions import document_of
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.effect import Verdict
from support.checkpoints.fabricated_checkpoints import manifest_of
from support.fixtures.reviewed import Reviewed
from support.places import opened
from support.streams.stage import clicks_spec

PLAN = RestorePlan(
    stream="clicks",
    savepoint="20261123T080000-abc123",
    manifest="f" * 64,
    lineage="20261122T000000-000001",
    batch_id=41,
    leaves="20261122T000000-000001",
    spec="1" * 16,
    batch_at=1_795_420_800_000,
    newest_batch=60,
    sessions=1_200,
    events=5_400,
    tables=(
        RowsOfTable("sessions", "/t/sessions", {"2026-11-22": 10, "2026-11-23": 32}),
        RowsOfTable("late_events", "/t/late", {}),
    ),
    replay=Replay("files after the 12th", items=7),
)  # fmt: skip


EXCLUDED = ExcludedRanges(
    (
        ExcludedRange("clicks-7.json", files=("file:/srv/feed/clicks-7.json",)),
        ExcludedRange("clicks:0:5-9", records=Records("clicks", 0, 5, 9)),
    )
)


def test_people_read_what_happens_to_each_table(golden: Callable[[str, str], None]) -> None:
    golden("plans/restore.txt", "".join(f"{line}\n" for line in PLAN.lines()))
    assert number_is(1) in "".join(consequences((), Replay("files", 1)))
    assert PLAN.days == ("2026-11-22", "2026-11-23")


@pytest.mark.parametrize("typed", ["modified:yesterday", ""])
def test_a_range_that_no_source_of_files_has_needs_no_spark(home: StreamHome, typed: str) -> None:
    spec = json.loads(json.dumps(document_of(StreamSpec.model_validate({"name": "clicks", **clicks_spec()}))))
    savepoint, manifest = SavepointHome.of(home.savepoints, "monday"), replace(manifest_of("monday"), spec=spec)
    with pytest.raises(SparkNeeded):
        FileFacts().resolve_ranges(home, savepoint, manifest, ["a.json"])
    with pytest.raises(InvalidSpec) as refused:
        FileFacts().resolve_ranges(home, savepoint, manifest, ["a.json", typed])
    assert (refused.value.field, refused.value.value) == ("--exclude", typed)


def test_a_table_of_two_folders_is_told_with_each_place() -> None:
    moved = [RowsOfTable("sessions", f"{folder}/sessions", {"2026-11-22": 1}) for folder in ("/old", "/new")]
    *told, _ = consequences(moved, Replay("files"))
    assert [line.split(": ")[0] for line in told] == ["  sessions at /old/sessions", "  sessions at /new/sessions"]


def test_a_lineage_without_a_checkpoint_is_left_by_no_batch() -> None:
    left = next(line for line in replace(PLAN, newest_batch=-1).lines() if line.startswith("  from"))
    assert "-1" not in left
    assert "kept" not in left


def test_the_digest_covers_what_is_decided_and_no_figure() -> None:
    busier = replace(PLAN, newest_batch=90, tables=(), replay=Replay("files after the 12th", items=99))
    assert busier.digest == PLAN.digest == "ee17e00fbd164b4f", "as without excluded ranges ever"


def test_people_read_what_is_left_out_of_the_source(reviewed: Reviewed) -> None:
    assert not any("quarantine as" in line for line in PLAN.lines())
    leaving = replace(PLAN, excluded_ranges=EXCLUDED, remarks=("2 more of it",))
    text = list(leaving.lines())
    reviewed(text[5:8])
    assert leaving.to_json()["excluded_ranges"]["ranges"][0]["files"] == ("file:/srv/feed/clicks-7.json",)


@pytest.mark.parametrize(
    "other",
    [
        replace(PLAN, stream="other"),
        replace(PLAN, savepoint="other"),
        replace(PLAN, manifest="other"),
        replace(PLAN, lineage="other"),
        replace(PLAN, batch_id=42),
        replace(PLAN, leaves="other"),
        replace(PLAN, spec="other"),
        replace(PLAN, excluded_ranges=EXCLUDED),
        replace(PLAN, by_file=True),
        replace(PLAN, differences=(Difference("partitions", "partitions changed", "2", "3", Verdict.MIGRATE),)),
        replace(PLAN, by_file=True, migrations=("m1 (ab): key",)),
        replace(PLAN, by_file=True, accepted=("mapping.payload.page",)),
    ],
)
def test_another_decision_has_another_digest(other: RestorePlan) -> None:
    assert other.digest != PLAN.digest


def test_events_that_are_gone_make_it_impossible_and_are_named(reviewed: Reviewed) -> None:
    gone = tuple(f"file:/in/{number}.json" for number in range(8))
    plan = replace(PLAN, replay=Replay("files", items=8, missing=gone))
    assert not Restore(savepoint="s").plan(plan).is_possible
    reviewed("\n".join(plan.lines()))


def test_programs_read_the_digest_too() -> None:
    assert PLAN.to_json()["digest"] == PLAN.digest
    assert PLAN.to_json()["tables"][0]["by_day"] == {"2026-11-22": 10, "2026-11-23": 32}


def test_a_restore_that_no_rollback_undoes_is_not_promised_one() -> None:
    asked = Restore(savepoint="s", roll_back_if_failed=True)
    found = replace(PLAN, canary=asked.terms)
    assert asked.plan(found).refusal is None
    with pytest.raises(InvalidSpec) as caught:
        asked.plan(replace(found, leads_back=False)).require_possible()
    assert caught.value.field == "--roll-back-if-failed"
    plain = Restore(savepoint="s")
    assert plain.plan(replace(PLAN, leads_back=False)).is_possible, "without the option it is only no way back"
    assert plain.plan(PLAN).digest != asked.plan(found).digest


def test_a_restore_that_keeps_the_spec_asks_for_no_apply() -> None:
    spec = [next(line for line in replace(PLAN, spec_stays=stays).lines() if "spec" in line) for stays in (False, True)]
    assert ["--with-file" in line for line in spec] == [True, False]


def judged(*verdicts: Verdict) -> RestorePlan:
    found = tuple(Difference(f"rules.{each}", "changed", 1, 2, each, f"it is {each}", "undo it") for each in verdicts)
    return replace(PLAN, by_file=True, differences=found, migrations=("m1 (ab): key",))


def test_fix_and_replay_says_what_differs_from_the_savepoint(reviewed: Reviewed) -> None:
    plan = Restore(savepoint="s", with_file=True).plan(judged(Verdict.IN_PLACE, Verdict.MIGRATE))
    assert plan.is_possible
    reviewed([*plan.lines()][3:9])
    assert [each["verdict"] for each in plan.to_json()["differences"]] == ["in place", "migrate"]
    names = [type(step).__name__ for step in plan.steps]
    assert (names[0], names[1], names[2], names[-1]) == ("KeepSpec", "Stop", "PrepareTables", "WriteFinishedSessions")
    assert names.count("StartLineage") == names.count("Canary") == names.count("Activate") == 1


@pytest.mark.parametrize(
    ("verdict", "accepted", "error"),
    [
        (Verdict.INCOMPATIBLE, (), InvalidSpec),
        (Verdict.PARTIAL, (), NotAccepted),
        (Verdict.UNKNOWN, (), NotAccepted),
        (Verdict.PARTIAL, ("rules.partial",), None),
    ],
)
def test_the_file_is_judged_as_by_an_upgrade(
    verdict: Verdict, accepted: tuple[str, ...], error: type[Exception] | None, reviewed: Reviewed
) -> None:
    decision = replace(judged(verdict), accepted=accepted)
    plan = Restore(with_file=True).plan(decision)
    assert plan.is_possible is (error is None)
    if error is not None:
        reviewed([*plan.lines()][-1])
        with pytest.raises(error):
            plan.require_possible()


PLAN_OF_ROLLBACK_PLAN = RollbackPlan(
    stream="clicks",
    leaves="l2",
    verb="restore",
    newest_batch=9,
    lineage="l1",
    batch_id=4,
    tables=(RowsOfTable("sessions", "/t/sessions", {"2026-11-23": 3}),),
    replay=Replay("files: 4 are read already", 5),
)


def test_what_people_read(golden: Callable[[str, str], None]) -> None:
    golden("plans/rollback.txt", "".join(f"{line}\n" for line in PLAN_OF_ROLLBACK_PLAN.lines()))


def test_what_was_left_out_and_comes_back_is_told_and_is_not_what_is_decided() -> None:
    plan = replace(PLAN_OF_ROLLBACK_PLAN, remarks=("a.json (1 file) is read again",))
    assert "        a.json (1 file) is read again" in plan.lines()
    assert plan.digest == PLAN_OF_ROLLBACK_PLAN.digest


def test_no_rollback_leads_to_the_lineage_that_a_seed_left(home: StreamHome) -> None:
    home.prepare()
    before, after = start_lineage(home), make_lineage(home, None)
    commits = commit_log(home.checkpoint(before))
    opened(commits).mkdir()
    opened(commits / "7").write_text('v2\n{"nextBatchWatermarkMs":0}')
    ORIGIN_FILE.of(home, after).write(Origin("seed", 1, before))
    activate_lineage(home, after, before)
    with pytest.raises(NoWayBack) as refused:
        way_back(home, after)
    assert "batch" not in refused.value.cause, "the seed began from no batch"


PLAN_OF_LOSS_PLAN = LossPlan(
    "clicks", "20261125T203724-b28b91", 7, "f" * 64, ("2 records: offsets 3 to 4",), "clicks {'0': 5}"
)


def test_it_names_what_is_lost() -> None:
    assert "  lost  2 records: offsets 3 to 4" in list(PLAN_OF_LOSS_PLAN.lines())
    assert json.loads(json.dumps(PLAN_OF_LOSS_PLAN.to_json()))["lost"] == ["2 records: offsets 3 to 4"]


def test_many_losses_are_counted(reviewed: Reviewed) -> None:
    many = replace(PLAN_OF_LOSS_PLAN, lost=tuple(f"file {number}" for number in range(25)))
    reviewed(list(many.lines()))


def test_another_decision_of_a_loss_has_another_digest_and_figures_that_move_do_not_count() -> None:
    others: list[dict[str, Any]] = [{"lost": ("file a",)}, {"lineage": "other"}, {"fingerprint": "e" * 64}]
    assert all(replace(PLAN_OF_LOSS_PLAN, **each).digest != PLAN_OF_LOSS_PLAN.digest for each in others)
    figures: list[dict[str, Any]] = [{"batch_id": 8}, {"begins": "clicks {'0': 9}"}]
    assert {replace(PLAN_OF_LOSS_PLAN, **each).digest for each in figures} == {PLAN_OF_LOSS_PLAN.digest}
