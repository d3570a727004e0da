"""A driver's tables are found by every reader, whatever digits and charset its machine writes with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.expected.landed import table_rows
from support.faults.bad_clicks import line
from support.processes.driver_process import run_to_end
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_files_of_a_table_are_named_in_ascii_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Duser.language=ar -Duser.country=EG")
    monkeypatch.setenv("LC_ALL", "ar_EG.UTF-8")
    stage = Stage.set_up(tmp_path, clicks_spec(files_per_batch=10))
    (stage.feed / "café.json").write_bytes(line(1, "ann"))

    run_to_end(stage, "a")

    logs = [entry.name for entry in (stage.table("sessions") / "_delta_log").iterdir()]
    assert f"{0:020}.json" in logs
    assert all(name.isascii() for name in logs)
    assert [row["key"] for row in table_rows(stage.table("sessions"))] == ["ann"]
