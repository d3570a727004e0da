"""Orders of commands on a real stream: in the end each session is in the tables once."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.control.records.erasure_record import SECRET
from sessionizer.control.records.operation_record import Ending, pending_operation
from sessionizer.control.records.supervision_records import DesiredState, read_desired
from sessionizer.deployment.differences import Division
from sessionizer.errors import UnknownSavepoint
from sessionizer.lineage.kept_spec import SPEC_FILE, read_applied
from sessionizer.state.commands.restores import Restore
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.lineages.origin import ORIGIN_FILE, Origin
from sessionizer.stream_spec.effect import Verdict
from support.histories.model_stream import HISTORIES, play
from support.histories.real_stream import RealStream
from support.histories.typed_stream import USERS
from support.places import known, opened

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from sessionizer.control.records.operation_record import OperationRecord


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RealStream:
    monkeypatch.setenv(SECRET, "a secret of the tests")
    return RealStream.at(spark, tmp_path, monkeypatch)


def read(stream: RealStream, files: int) -> None:
    stream.feed(files)
    stream.run()


def rules_with_gap(stream: RealStream, gap: str = "50 seconds") -> dict[str, Any]:
    return {**stream.document()["rules"], "gap_timeout": gap}


def assert_divided(stream: RealStream) -> None:
    """The active lineage has the changed division and the migration."""
    committed = read_committed_batch(stream.home)
    assert stream.stage.lineage == committed.lineage
    assert Division.read(committed.spec, committed.settings) == Division(5, 3)
    assert [each.id for each in read_applied(stream.home, committed.lineage)] == ["own-keys"]
    assert committed.spec["rules"]["gap_timeout"] == "50 seconds"


def origin_of_active(stream: RealStream) -> Origin:
    return known(ORIGIN_FILE.of(stream.home, str(stream.stage.lineage)).require())


def roll_back_to(stream: RealStream, lineage: str | None) -> None:
    read(stream, 1)
    stream.rollback()
    assert stream.stage.lineage == lineage


@pytest.mark.long
def test_a_restore_to_an_older_savepoint_then_to_a_newer_one(stream: RealStream) -> None:
    read(stream, 1)
    stream.save("monday")
    read(stream, 2)
    stream.save("tuesday")
    before = stream.stage.lineage
    record, lineage = stream.restore("monday"), stream.stage.lineage
    assert lineage == record.lineage_to != before
    with stream.killed_at(9):
        stream.restore("tuesday")
    stream.restore("tuesday")
    assert not any(table.rows for table in stream.plan_of("tuesday").decision.tables)
    stream.end()


@pytest.mark.long
def test_a_rollback_of_a_restore_leads_to_the_lineage_that_was_active(stream: RealStream) -> None:
    """The savepoint is the one that the upgrade made first. Its lineage is the one before the upgrade."""
    read(stream, 2)
    stream.rescale()
    stream.save("first")
    stream.rescale()
    read(stream, 1)
    left, rows = stream.stage.lineage, stream.session_ids()
    with stream.killed_at(12):
        stream.restore("first")
    stream.restore("first")
    assert stream.session_ids() < rows
    read(stream, 1)
    stream.rollback()
    assert (stream.stage.lineage, stream.session_ids()) == (left, rows)
    stream.end()


SPLIT = {"id": "own-keys", "key": "concat(key, '')"}


@pytest.mark.parametrize(
    ("native", "killed"),
    [(False, False), *(pytest.param(native, True, marks=pytest.mark.long) for native in (False, True))],
)
def test_fix_and_replay_goes_back_with_the_corrected_file_in_other_groups(
    stream: RealStream, native: bool, killed: bool
) -> None:
    """The plan has the savepoint's state, the file's rules, a migration of the open events, and the groups."""
    read(stream, 2)
    stream.save("monday", native=native)
    stream.rescale()
    read(stream, 1)
    left, rows = stream.stage.lineage, stream.session_ids()
    fixed: dict[str, Any] = {"rules": rules_with_gap(stream), "migrations": [SPLIT]}
    command = Restore(canary=0, with_file=True, key_groups=5, partitions=3)
    stream.restoring = command
    stream.stage.write_spec({**stream.document(), **fixed})
    verdicts = {each.name: each.verdict for each in stream.plan_of("monday").decision.differences}
    anew = dict.fromkeys(("migrations", "key_groups", "partitions"), Verdict.MIGRATE)
    assert verdicts == {**anew, "rules.gap_timeout": Verdict.IN_PLACE}
    record = stream.restore("monday", command, **fixed)
    assert (record.lineage_to, record.lineage_from) == (stream.stage.lineage, left)
    assert (record.outcome, read_desired(stream.home).state) == (Ending.DONE, DesiredState.RUNNING)
    assert record.days
    origin = origin_of_active(stream)
    assert (origin.verb, origin.before, origin.savepoint) == ("restore", left, "monday")
    assert_divided(stream)
    roll_back_to(stream, left)
    assert stream.session_ids() == rows
    if killed:
        with stream.killed_at(9 if native else 19):
            stream.restore("monday", command, **fixed)
        assert pending_operation(stream.home) is not None
        stream.stage.write_spec({**stream.document(), "rules": rules_with_gap(stream, "45 seconds")})
        stream.resume_restore("monday")
        assert stream.document()["rules"]["gap_timeout"] == "50 seconds", "the approved file, not the one of now"
    stream.end()


@pytest.mark.long
def test_an_upgrade_divides_the_state_anew_in_the_same_lineage(stream: RealStream) -> None:
    read(stream, 2)
    before = stream.stage.lineage
    record = known(stream.upgrade(rules=rules_with_gap(stream), migrations=[SPLIT], key_groups=5, partitions=3))
    assert (record.lineage_from, record.lineage_to) == (before, stream.stage.lineage)
    assert_divided(stream)
    spec = known(SPEC_FILE.of(stream.home, str(stream.stage.lineage)).require())
    assert spec.rescaled_over == 2, "the number in the file, so that a later edit of it is seen"
    roll_back_to(stream, before)
    stream.end()


@pytest.mark.long
@pytest.mark.parametrize("killed", [False, True])
def test_an_upgrade_reads_again_what_the_driver_read_while_the_new_lineage_was_made(
    stream: RealStream, killed: bool
) -> None:
    read(stream, 2)
    left, rows, fixed = stream.stage.lineage, stream.session_ids(), rules_with_gap(stream)
    changes: dict[str, Any] = {"rules": fixed, "migrations": [SPLIT], "key_groups": 5, "partitions": 3, "replay": True}
    if killed:
        with stream.killed_at(19):
            stream.upgrade(**changes)
        pending = known(pending_operation(stream.home))
        assert pending.is_past_return
        edited = {**stream.document(), "rules": rules_with_gap(stream, "45 seconds")}
        stream.stage.write_spec(edited)
        (made,) = opened(stream.home.savepoints).iterdir()
        away = made.rename(stream.stage.root / "away")
        with pytest.raises(UnknownSavepoint):
            stream.resume_upgrade()
        stream.stage.write_spec(edited)
        away.rename(made)
        stream.resume_upgrade()
        assert stream.document()["rules"]["gap_timeout"] == "50 seconds", "the approved file, not the one of now"
    else:
        record = known(stream.upgrade(**changes))
        assert (record.outcome, record.lineage_from) == (Ending.DONE, left)
        assert record.days, "rows of the file that was read meanwhile are deleted"
    origin = origin_of_active(stream)
    assert (origin.verb, origin.before, origin.parent) == ("upgrade", left, left)
    assert_divided(stream)
    assert stream.session_ids() == rows
    roll_back_to(stream, left)
    stream.end()


@pytest.mark.long
def test_nothing_brings_erased_users_back(stream: RealStream) -> None:
    read(stream, 2)
    stream.save("monday")
    stream.save("copied", native=True)
    read(stream, 1)
    stream.erase("u1")
    assert stream.saved == ["mondaye"]
    stream.install("7.1.0")
    assert stream.upgrade(new_lineage=True) is not None
    stream.save("tuesday", native=True)
    stream.restore("mondaye")
    assert stream.upgrade(rules=rules_with_gap(stream), migrations=[SPLIT], key_groups=5, partitions=3) is not None
    read(stream, 1)
    stream.erase("u2")
    stream.rescale()
    stream.install("7.2.0")
    assert stream.upgrade() is not None
    stream.start_over()
    stream.end()


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, history in HISTORIES.items() if "back_up" not in history])
def test_a_restore(stream: RealStream, name: str) -> None:
    """A file is an event of the model, and each brings a batch."""
    acts: dict[str, Callable[..., object]] = {
        word: getattr(stream, word) for word in ("feed", "run", "save", "rescale", "rollback", "start_over")
    }
    acts["restore"] = lambda number: stream.restore(stream.saved[number])
    acts["move_sink"] = lambda: stream.move_sink("elsewhere")
    play(HISTORIES[name], acts)
    stream.end()


@pytest.mark.long
def test_a_lineage_whose_batch_was_cut_short_gets_its_rows_back_and_repeats_the_batch(stream: RealStream) -> None:
    read(stream, 2)
    stream.run()  # the batch without data, which the newest watermark asks for
    stream.save("middle")
    stream.crash(after=1)
    left = stream.stage.lineage
    stream.restore("middle")
    stream.rollback()
    assert stream.stage.lineage == left
    stream.end()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_commands(stream: RealStream, seed: int) -> None:
    chance, done, killed = random.Random(seed), Counter[str](), Counter[str]()
    read(stream, 2)
    stream.save()
    for _ in range(14):
        (command,) = chance.choices(list(COMMANDS), [weight for weight, _ in COMMANDS.values()])
        done[command] += 1
        with stream.killed_at(chance.choice([999, 999, chance.randint(1, 14)]), surely=False), stream.maybe_refused():
            COMMANDS[command][1](stream, chance)
        if (pending := pending_operation(stream.home)) is not None:
            killed[pending.verb] += 1
            finish(stream, pending)
    stream.end()
    logging.getLogger(__name__).warning("seed %d: %s, killed: %s", seed, dict(done), dict(killed))


def fix_and_replay(stream: RealStream, chance: random.Random) -> None:
    groups, partitions = chance.choice([None, 2, 3, 5]), chance.choice([None, 1, 2])
    command = Restore(canary=0, with_file=True, key_groups=groups, partitions=partitions)
    stream.restore(chance.choice(stream.saved), command, **edit(stream, chance))


def edit(stream: RealStream, chance: random.Random) -> dict[str, Any]:
    """Draw a change of the file: another gap, or a migration that gives each open event its own key again."""
    if chance.random() < 0.5:
        return {"rules": rules_with_gap(stream, chance.choice(["40 seconds", "50 seconds", "55 seconds"]))}
    migration = {"id": f"m{chance.randrange(10**6)}", "key": "concat(key, '')"}
    return {"migrations": [*stream.document().get("migrations", []), migration]}


def change_file(stream: RealStream, chance: random.Random) -> None:
    divided = {"key_groups": chance.choice([None, 2, 3]), "partitions": chance.choice([None, 1, 2])}
    new, replay = chance.random() < 0.5, chance.random() < 0.5
    stream.upgrade(new_lineage=new, replay=replay, **divided, **edit(stream, chance))


def install_release(stream: RealStream, chance: random.Random) -> None:
    """Install one of two later releases, at times together with a changed file."""
    stream.install(chance.choice(["7.1.0", "7.2.0"]))
    changes = edit(stream, chance) if chance.random() < 0.5 else {}
    stream.upgrade(new_lineage=chance.random() < 0.5, **changes)


def erase(stream: RealStream, chance: random.Random) -> None:
    left = sorted({f"u{number}" for number in range(1, USERS)} - stream.erased)
    if left:
        stream.erase(chance.choice(left))


def edit_after_plan(stream: RealStream, chance: random.Random) -> None:
    stream.edit_after_plan({"rules": rules_with_gap(stream, "35 seconds")}, edit(stream, chance))


COMMANDS: dict[str, tuple[int, Callable[[RealStream, random.Random], object]]] = {
    "read": (3, lambda stream, chance: read(stream, chance.randint(1, 2))),
    "save": (2, lambda stream, chance: stream.save(native=chance.random() < 0.5)),
    "restore": (2, lambda stream, chance: stream.restore(chance.choice(stream.saved))),
    "fix_and_replay": (2, fix_and_replay),
    "crash": (2, lambda stream, chance: stream.crash(chance.randint(0, 2))),
    "change_file": (2, change_file),
    "install_release": (2, install_release),
    "edit_after_plan": (1, edit_after_plan),
    "rollback": (2, lambda stream, _: stream.rollback()),
    "rescale": (2, lambda stream, _: stream.rescale()),
    "compact": (2, lambda stream, _: stream.compact()),
    "erase": (1, erase),
}
"""Each with its weight."""


def finish(stream: RealStream, pending: OperationRecord) -> None:
    """Type a command that was killed again, until it is over. One that finds half a batch only now is refused."""
    with stream.maybe_refused():
        match pending.verb:
            case "restore":
                stream.resume_restore(pending.savepoint)
            case "rollback":
                stream.rollback()
            case "upgrade":
                stream.resume_upgrade()
            case "erase":
                stream.erase(stream.erasing)
            case _:
                stream.rescale()
    assert pending_operation(stream.home) is None
