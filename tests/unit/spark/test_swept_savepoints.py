"""The sweep of savepoints beside readers, other sweeps and what a killed one left. No events are counted here."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import cast

import pytest
from pyspark.sql import SparkSession

from sessionizer.control.records.erasure_record import SECRET
from sessionizer.control.records.process_records import identify
from sessionizer.core.definition.erasure import ErasedOnce
from sessionizer.core.wire.erased_keys import NOBODY_ERASED
from sessionizer.errors import UnusableSavepoint
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import data_exists, remove_tree
from sessionizer.home.stream_home import SavepointHome, StreamHome
from sessionizer.spark.state import erasing
from sessionizer.spark.state.erasing import Sweep
from sessionizer.spark.state.savepoints.saved_state import rewrite_savepoint
from sessionizer.state.savepoints.listing import UseMark, keep_from_removal, list_savepoints, write_data_record
from support.checkpoints.fabricated_checkpoints import begin, fabricate, manifest_of
from support.places import known

NO_SPARK = cast("SparkSession", None)


@pytest.fixture
def sweep(home: StreamHome, monkeypatch: pytest.MonkeyPatch) -> Sweep:
    monkeypatch.setenv(SECRET, "a secret of the tests")
    erasure = ErasedOnce("key", epoch_ms(), b"", ())
    return Sweep(NO_SPARK, home, (), erasure, epoch_ms(), (home.savepoints,), lambda _: None)


def rewriting(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[SavepointHome], object]) -> None:
    """Every savepoint holds some of these people, and ``meanwhile`` is called while one is written anew."""

    def rewrite(_spark: object, saved: SavepointHome, _manifest: object, _erased: object) -> str:
        meanwhile(saved)
        new = SavepointHome.of(saved.root.parent, f"{saved.id}e")
        remove_tree(new.root)
        return fabricate(saved.root.parent, new.id).id

    monkeypatch.setattr(erasing, "rewrite_savepoint", rewrite)


def complete_ones(home: StreamHome) -> list[str]:
    return [each.id for each in list_savepoints(home.savepoints, epoch_ms()) if each.is_complete]


@pytest.mark.parametrize("of_the_dead", [False, True])
def test_one_that_was_written_anew_stays_also_over_the_remains_of_a_killed_sweep(
    home: StreamHome, sweep: Sweep, monkeypatch: pytest.MonkeyPatch, *, of_the_dead: bool
) -> None:
    fabricate(home.savepoints, "s1")
    if of_the_dead:
        begin(home.savepoints, "s1e", by_the_dead=True)
    rewriting(monkeypatch, lambda _: None)
    assert sweep.erase_savepoints() == []
    assert complete_ones(home) == ["s1e"]


def test_one_that_is_read_since_the_sweep_began_stays_for_the_next(
    home: StreamHome, sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = fabricate(home.savepoints, "s1")
    with ExitStack() as reader:
        rewriting(monkeypatch, lambda at: reader.enter_context(keep_from_removal(at, "a restore")))
        assert sweep.erase_savepoints() == ["s1"]
        assert complete_ones(home) == ["s1", "s1e"]
        assert not data_exists(saved.condemned)
    rewriting(monkeypatch, lambda _: None)
    assert sweep.erase_savepoints() == []
    assert "s1" not in complete_ones(home)


def test_what_another_sweep_writes_just_now_is_left_to_it(home: StreamHome) -> None:
    saved, new = fabricate(home.savepoints, "s1"), begin(home.savepoints, "s1e")
    other = known(identify(os.getppid()))
    mark = replace(UseMark.now("erasure"), pid=other.pid, process_started=other.started)
    write_data_record(new.begun, mark)
    with pytest.raises(UnusableSavepoint):
        rewrite_savepoint(NO_SPARK, saved, manifest_of("s1"), NOBODY_ERASED)
    assert data_exists(new.begun)
