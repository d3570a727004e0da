"""Savepoints as files: what each is by what is there, what verify finds, what prune leaves."""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from upath import UPath

from sessionizer.control.records.operation_record import Ending
from sessionizer.errors import UnknownSavepoint, UnusableSavepoint
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import files_below, relative_name
from sessionizer.home.roots import DataPath
from sessionizer.home.stream_home import SavepointHome, StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.state.lineages.origin import list_beginnings
from sessionizer.state.lineages.table_changes import version_with_batch
from sessionizer.state.savepoints import savepoint_writer, verification
from sessionizer.state.savepoints.listing import (
    BEING_READ,
    STARTED_FROM,
    Policy,
    RemovalMark,
    Savepoint,
    SavepointFailure,
    being_read,
    complete_savepoint,
    examine_savepoint,
    judge_savepoints,
    keep_from_removal,
    list_savepoints,
    plan_removal,
    remove,
    savepoint_of,
    write_data_record,
)
from sessionizer.state.savepoints.manifest import (
    UNSEEN_FOR_MS,
    Evidence,
    SavepointFile,
    SavepointKind,
    SavepointState,
    judge_state,
    read_manifest,
)
from sessionizer.state.savepoints.savepoint_writer import SavepointRequest, SavepointWriter
from sessionizer.state.savepoints.verification import Damage, digest_file, digest_files
from support.checkpoints.fabricated_checkpoints import (
    begin,
    fabricate,
    manifest_of,
    note_origin,
    read_by_the_dead,
    read_elsewhere,
)
from support.fixtures.reviewed import Reviewed
from support.places import known, opened
from support.verbs.begun_restore import begun_restore, write_operation

DAY = 86_400_000
MANY_DAYS = 100 * DAY


@pytest.fixture
def stream(home: StreamHome) -> StreamHome:
    return home


@pytest.fixture(params=["here", "elsewhere"])
def folder(request: pytest.FixtureRequest, stream: StreamHome) -> Iterator[DataPath]:
    if request.param == "here":
        yield stream.savepoints
        return
    store = UPath("memory://store/savepoints/clicks")
    yield store
    store.fs.store.clear()
    store.fs.pseudo_dirs[:] = [""]


# What a savepoint is


def test_a_complete_one_is_told_from_all_others(folder: DataPath) -> None:
    fabricate(folder, "c1")
    begin(folder, "m1")
    begin(folder, "a1", by_the_dead=True)
    write_data_record(begin(folder, "f1").failed, SavepointFailure(5, "no room"))
    write_data_record(fabricate(folder, "r1").condemned, RemovalMark(5))
    damaged = fabricate(folder, "d1")
    opened(damaged.manifest).write_bytes(opened(damaged.manifest).read_bytes()[:40])
    found = {each.id: each for each in list_savepoints(folder, epoch_ms())}
    states = {name: found[name].state for name in found}
    assert states == {
        "a1": SavepointState.ABANDONED,
        "c1": SavepointState.COMPLETE,
        "d1": SavepointState.DAMAGED,
        "f1": SavepointState.FAILED,
        "m1": SavepointState.MAKING,
        "r1": SavepointState.REMOVING,
    }
    assert found["f1"].wrong == "no room"
    assert "not JSON" in (found["d1"].wrong or "")


def test_only_a_complete_one_can_be_used(folder: DataPath) -> None:
    fabricate(folder, "c1")
    begin(folder, "a1", by_the_dead=True)
    assert complete_savepoint(folder, "c1", epoch_ms())[1].id == "c1"
    with pytest.raises(UnusableSavepoint, match="abandoned"):
        complete_savepoint(folder, "a1", epoch_ms())
    with pytest.raises(UnknownSavepoint, match="c1, a1"):
        savepoint_of(folder, "c2", epoch_ms())


@pytest.mark.parametrize(("since", "state"), [(1, SavepointState.ABANDONED), (UNSEEN_FOR_MS, SavepointState.MAKING)])
def test_who_works_elsewhere_is_believed_for_some_hours(since: int, state: SavepointState) -> None:
    evidence = Evidence(manifest=None, failed=False, condemned=False, begun_at=since, maker_lives=None)
    assert judge_state(evidence, UNSEEN_FOR_MS + 1) is state


# Verify


def names_of(home: SavepointHome) -> list[str]:
    return [relative_name(file, home.root) for file in files_below(home.root)]


def cut(file: DataPath) -> None:
    opened(file).write_bytes(opened(file).read_bytes()[:-1])


def flip(file: DataPath) -> None:
    content = bytearray(opened(file).read_bytes())
    content[len(content) // 2] ^= 1
    opened(file).write_bytes(bytes(content))


def wrong_with(home: SavepointHome) -> list[tuple[str, Damage]]:
    manifest, found = read_manifest(home), digest_files(home)
    return [(each.path, each.damage) for each in found.findings(known(manifest).files)]


@pytest.mark.parametrize("left", [b"", b"x", b"crc\0\0\0\2\0", b"crc\0\0\0\2\0\1", b"crc\0\0\0\2\0\0\0\0\0"])
def test_checksums_of_hadoop_that_would_keep_spark_from_reading_are_named(tmp_path: Path, left: bytes) -> None:
    home = fabricate(tmp_path, "s1")
    name = next(name for name in names_of(home) if name.endswith(".parquet"))
    file = home.root / name
    hidden = file.parent / f".{file.name}.crc"
    content = opened(file).read_bytes()
    parts = (content[start : start + 512] for start in range(0, len(content), 512))
    opened(hidden).write_bytes(b"crc\x00\x00\x00\x02\x00" + b"".join(zlib.crc32(part).to_bytes(4) for part in parts))
    assert wrong_with(home) == []
    opened(hidden).write_bytes(left)
    assert wrong_with(home) == [(relative_name(hidden, home.root), Damage.UNFIT)]
    opened(hidden).unlink()
    assert wrong_with(home) == []


def test_a_file_that_vanishes_while_it_is_verified_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fabricate(tmp_path, "s1")
    name = next(name for name in names_of(home) if name.endswith(".parquet"))
    file = opened(home.root / name)
    file.with_name(f".{file.name}.crc").write_bytes(b"crc\0\0\0\2\0")

    def digest_then_delete(named: str, path: DataPath) -> SavepointFile:
        digest = digest_file(named, path)
        if named == name:
            file.unlink()
        return digest

    monkeypatch.setattr(verification, "digest_file", digest_then_delete)
    assert wrong_with(home) == [(name, Damage.UNREADABLE)]


@pytest.mark.parametrize(
    ("hurt", "damage"), [(cut, Damage.CUT), (flip, Damage.CHANGED), (lambda file: file.unlink(), Damage.MISSING)]
)
def test_whatever_file_is_hurt_is_named(folder: DataPath, hurt: Callable[[DataPath], None], damage: Damage) -> None:
    whole = fabricate(folder, "whole")
    assert wrong_with(whole) == []
    covered = [name for name in names_of(whole) if name != "manifest.json"]
    assert len(covered) == 9
    for number, name in enumerate(covered):
        home = fabricate(folder, f"s{number}")
        hurt(home.root / name)
        assert wrong_with(home) == [(name, damage)]


@pytest.mark.parametrize("hurt", [cut, flip])
def test_a_hurt_manifest_is_no_manifest(folder: DataPath, hurt: Callable[[DataPath], None]) -> None:
    home = fabricate(folder, "a")
    hurt(home.manifest)
    assert examine_savepoint(home, epoch_ms()).state is SavepointState.DAMAGED


def test_who_writes_to_a_table_of_it_is_told_and_deltas_checksums_are_not(folder: DataPath) -> None:
    home = fabricate(folder, "a")
    opened(home.part("open_events") / "_delta_log" / f"{0:020d}.crc").write_text("{}")
    assert wrong_with(home) == []
    opened(home.part("open_events") / "_delta_log" / f"{1:020d}.json").write_text("{}")
    assert wrong_with(home) == [(f"open_events/_delta_log/{1:020d}.json", Damage.STRANGE)]


def test_a_file_that_cannot_be_read_is_told_as_that(stream: StreamHome) -> None:
    home = fabricate(stream.savepoints, "a")
    file = home.part("timeouts") / "part-0.parquet"
    opened(file).unlink()
    opened(file).symlink_to(file)  # type: ignore[arg-type]  # of this machine
    assert wrong_with(home) == [("timeouts/part-0.parquet", Damage.UNREADABLE)]


# Prune


def plan(*savepoints: Savepoint, count: int = 1, days: int = 0, now: int = MANY_DAYS) -> list[str]:
    needed = {"origin": STARTED_FROM, "read": BEING_READ}
    verdicts = judge_savepoints(savepoints, needed, Policy(count, days * DAY), now)
    return [verdict.id for verdict in verdicts if verdict.goes]


def complete(savepoint: str, days_ago: int, kind: SavepointKind = SavepointKind.CANONICAL) -> Savepoint:
    manifest = replace(manifest_of(savepoint, made_at=MANY_DAYS - days_ago * DAY), kind=kind)
    return Savepoint(SavepointHome(Path(savepoint)), SavepointState.COMPLETE, manifest)


def incomplete(savepoint: str, state: SavepointState) -> Savepoint:
    return Savepoint(SavepointHome(Path(savepoint)), state)


def test_the_newest_and_the_young_stay() -> None:
    candidates = [complete(f"c{days}", days) for days in (9, 5, 3, 1)]
    assert plan(*candidates) == ["c9", "c5", "c3"]
    assert plan(*candidates, count=2) == ["c9", "c5"]
    assert plan(*candidates, days=4) == ["c9", "c5"]
    assert plan(*candidates, count=3, days=4) == ["c9"]


def test_one_complete_savepoint_always_stays() -> None:
    assert plan(complete("old", 99), count=0) == []
    assert plan(complete("old", 99), incomplete("f", SavepointState.FAILED), count=0) == ["f"]


def test_rewind_points_do_not_push_out_what_is_kept_for_long() -> None:
    """However many are made by schedule: of each kind as many stay."""
    canonical = [complete("c50", 50), complete("c40", 40)]
    native = [complete(f"n{days}", days, SavepointKind.NATIVE) for days in (3, 2, 1)]
    assert plan(*canonical, *native) == ["c50", "n3", "n2"]


def test_what_is_needed_stays_however_old() -> None:
    newest = complete("newest", 1)
    assert plan(newest, complete("origin", 50), complete("read", 50), complete("old", 50)) == ["old"]


@pytest.mark.parametrize("state", [state for state in SavepointState if state is not SavepointState.COMPLETE])
def test_what_was_never_completed_goes_unless_it_is_being_made(state: SavepointState) -> None:
    going = plan(complete("newest", 1), incomplete("x", state), days=10)
    assert going == ([] if state is SavepointState.MAKING else ["x"])


def test_a_removed_one_is_gone_with_all_its_files(folder: DataPath, stream: StreamHome) -> None:
    kept, home = fabricate(folder, "kept"), fabricate(folder, "a")
    assert remove(home, stream) is None
    assert [each.id for each in list_savepoints(folder, epoch_ms())] == ["kept"]
    assert wrong_with(kept) == []
    assert remove(home, stream) is None, "a second one finds nothing"
    assert [each.id for each in list_savepoints(folder, epoch_ms()) if each.is_complete] == ["kept"]


def test_one_that_is_being_read_stays_and_can_be_read_on(folder: DataPath, stream: StreamHome) -> None:
    home = fabricate(folder, "a")
    with keep_from_removal(home, "restore"):
        assert being_read(list_savepoints(folder, epoch_ms()), epoch_ms()) == {"a"}
        assert remove(home, stream) == "a process reads it"
        assert examine_savepoint(home, epoch_ms()).is_complete
    assert being_read(list_savepoints(folder, epoch_ms()), epoch_ms()) == set()
    assert wrong_with(home) == []


def test_a_reader_that_was_killed_keeps_nothing_and_one_elsewhere_does_for_some_hours(stream: StreamHome) -> None:
    folder, now = stream.savepoints, epoch_ms()
    read_by_the_dead(fabricate(folder, "dead"))
    read_elsewhere(fabricate(folder, "far"))
    read_elsewhere(fabricate(folder, "long_ago"), since=now - UNSEEN_FOR_MS)
    assert being_read(list_savepoints(folder, now), now) == {"far"}


def test_who_comes_when_it_is_condemned_is_turned_away(folder: DataPath) -> None:
    home = fabricate(folder, "a")
    write_data_record(home.condemned, RemovalMark(epoch_ms()))
    with pytest.raises(UnusableSavepoint, match="being removed"), keep_from_removal(home, "restore"):
        pass
    assert being_read([examine_savepoint(home, epoch_ms())], epoch_ms()) == set()


def test_one_that_a_lineage_came_to_start_from_stays(stream: StreamHome, reviewed: Reviewed) -> None:
    home = fabricate(stream.savepoints, "a")
    note_origin(stream, "20261121T105501-3fa9c2", "a")
    assert list_beginnings(stream) == {"a"}
    reviewed(remove(home, stream))


def test_one_that_an_operation_is_to_go_on_from_stays_until_that_is_over(
    stream: StreamHome, reviewed: Reviewed
) -> None:
    """It was killed when it had taken rows: without the savepoint there would be no way on, and none back."""
    for savepoint in ("a", "b"):
        fabricate(stream.savepoints, savepoint)
    record = begun_restore(savepoint="a")
    write_operation(stream, record)
    found = list_savepoints(stream.savepoints, epoch_ms())
    verdicts = plan_removal(found, stream, Policy(0, 0), MANY_DAYS)
    (stays,) = [verdict for verdict in verdicts if verdict.id == "a"]
    assert (stays.goes, stays.because) == (False, "an operation that is not over needs it")
    reviewed(remove(found[0].home, stream))
    assert opened(found[0].home.manifest).exists()
    write_operation(stream, replace(record, outcome=Ending.ABANDONED))
    assert remove(found[0].home, stream) is None


def test_one_that_is_made_anew_meanwhile_stays(folder: DataPath, stream: StreamHome, reviewed: Reviewed) -> None:
    home = begin(folder, "a")
    reviewed(remove(home, stream))
    assert examine_savepoint(home, epoch_ms()).state is SavepointState.MAKING


def test_of_two_that_make_one_savepoint_at_once_one_is_refused(
    stream: StreamHome, folder: DataPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed = replace(
        manifest_of("a").committed_in(SavepointHome(folder / "a")),
        lineage=start_lineage(stream),
        spec={"sink": {"path": None}},
    )
    asked = SavepointRequest(folder, "tests", "a")
    first, second = (SavepointWriter(stream, committed, asked, lambda _: None) for _ in range(2))
    meanwhile = iter([first.begin])

    def read_slowly(table: DataPath, lineage: str, batch_id: int) -> int | None:
        for begin_other in meanwhile:
            assert begin_other() is None
        return version_with_batch(table, lineage, batch_id)

    monkeypatch.setattr(savepoint_writer, "version_with_batch", read_slowly)
    with pytest.raises(UnusableSavepoint, match="being made"):
        second.begin()


def test_a_prune_that_was_killed_is_finished_by_the_next(folder: DataPath, stream: StreamHome) -> None:
    """Whatever it had removed by then: it is condemned, or has no manifest."""
    home = fabricate(folder, "a")
    write_data_record(home.condemned, RemovalMark(epoch_ms()))
    for name in ["manifest.json", *sorted(set(names_of(home)) - {"manifest.json", "condemned.json"})]:
        opened(home.root / name).unlink()
        (found,) = list_savepoints(folder, epoch_ms())
        assert found.state is SavepointState.REMOVING
    assert remove(home, stream) is None
    assert list_savepoints(folder, epoch_ms()) == []
