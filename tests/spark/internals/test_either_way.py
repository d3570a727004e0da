"""A stream may change between the quick way and the plain one at any batch: tables and checkpoint are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.launch.driver_environment import PLAIN_SPARK
from support.expected.landed import table_rows
from support.faults.bad_clicks import line
from support.places import opened
from support.processes.driver_process import run_to_end
from support.processes.in_process import catch_up, drain
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_a_stream_goes_on_the_other_way(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = clicks_spec()
    spec["measures"] = {"spent": "coalesce(sum(amount) filter (where page = '/cart'), 0.0)", "pages": "count(page)"}
    stage = Stage.set_up(tmp_path, spec)
    for number, plain in enumerate("01"):
        monkeypatch.setenv(PLAIN_SPARK, plain)
        clicks = [line(number * 10 + second, "ann") for second in range(3)]
        ended = line(number * 10, f"user-{number}", type="logout")
        bad = line(0, ts=2**62, user_id=None)
        (stage.feed / f"{number}.json").write_bytes(b"\n".join([*clicks, ended, bad]))
        catch_up(spark, stage)
    drain(spark, stage)
    found = {
        row["key"]: (row["event_count"], row["spent"], row["pages"]) for row in table_rows(stage.table("sessions"))
    }
    assert found == {"ann": (6, 9.0, 6)} | {f"user-{number}": (1, 1.5, 1) for number in range(2)}
    assert len(table_rows(stage.table("quarantine"))) == 2
    assert table_rows(stage.table("late_events")) == []


@pytest.mark.long
@pytest.mark.parametrize("turns", ["010", "101"])
def test_drivers_take_up_a_checkpoint_of_the_other_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: str
) -> None:
    """Hadoop's checksums are beside the files of the one way, and not beside those of the other."""
    stage = Stage.set_up(tmp_path, clicks_spec())
    checked: dict[str, tuple[str, bool]] = {}
    for number, plain in enumerate(turns):
        monkeypatch.setenv(PLAIN_SPARK, plain)
        (stage.feed / f"{number}.json").write_bytes(line(number * 10, "ann"))
        run_to_end(stage, f"turn-{number}", "drained" if number == len(turns) - 1 else "caught-up")
        for offsets in (file for file in opened(stage.checkpoint / "offsets").iterdir() if file.name.isdecimal()):
            checked.setdefault(offsets.name, (plain, offsets.with_name(f".{offsets.name}.crc").exists()))
    assert set(checked.values()) == {("0", True), ("1", False)}
    assert [row["event_count"] for row in table_rows(stage.table("sessions"))] == [3]
