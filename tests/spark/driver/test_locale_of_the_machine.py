"""A driver on a machine with other digits: readers find its tables, and its log tells what of its source it leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.expected.landed import table_rows
from support.faults.bad_clicks import line
from support.places import opened
from support.processes.driver_process import run_to_end
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def arabic() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("JDK_JAVA_OPTIONS", "-Duser.language=ar -Duser.country=EG")
        patched.setenv("LC_ALL", "ar_EG.UTF-8")
        yield patched


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, arabic: pytest.MonkeyPatch) -> Stage:
    """Return a stream that a driver has read to its end."""
    its = Stage.set_up(tmp_path_factory.mktemp("arabic"), clicks_spec(files_per_batch=10))
    (its.feed / "café.json").write_bytes(line(1, "ann"))
    (its.feed / "2024").mkdir()
    (its.feed / "2024" / "a.json").write_bytes(line(2, "ann"))
    run_to_end(its, "a")
    return its


@pytest.mark.long
def test_the_files_of_a_table_are_named_in_ascii_digits(stage: Stage) -> None:
    logs = [entry.name for entry in opened(stage.table("sessions") / "_delta_log").iterdir()]
    assert f"{0:020}.json" in logs
    assert all(name.isascii() for name in logs)
    assert [(row["key"], row["event_count"]) for row in table_rows(stage.table("sessions"))] == [("ann", 1)]


@pytest.mark.long
def test_a_driver_tells_of_folders_that_it_does_not_look_into(stage: Stage) -> None:
    said = (stage.root / "driver-a.log").read_text(encoding="utf-8")
    assert said.count("source's folder: 2024") == 1
